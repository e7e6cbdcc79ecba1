"""torch's random functions, drawing from a generator of the calling thread instead of the process's.

Note [how torch draws here]
This covers the functions of the torch module and the methods of tensors that draw random numbers on the CPU, and all
Python code on top of these: dropout, ``torch.nn.init``, ``torch.distributions``, torchvision's transforms. Each has
another function in its table, which costs a thread with a generator of its own 2 us a draw; other functions and threads
pay nothing.

Not covered, and so drawn from the process's generator: functions written in C++ that draw inside and take no generator
(dropout in recurrent layers and in attention, alpha and feature dropout, ``rrelu``, ``native_dropout``), scripted and
compiled functions, and ``torch.ops``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from fastload import _native

_Function = Callable[..., Any]
# Called with the function, the thread's generator, arguments and keywords.
_Replacement = Callable[[_Function, torch.Generator, tuple[Any, ...], dict[str, Any]], Any]

# Returns how many modes like `torch.device("cuda")` this thread is in.
_count_modes = torch._C._len_torch_function_stack

# Functions that take `generator`. Names that a version of torch lacks are left out.
_FUNCTIONS = (
    "rand",
    "randn",
    "randint",
    "randperm",
    "normal",
    "bernoulli",
    "multinomial",
    "poisson",
    "binomial",
    "_standard_gamma",
    "_sample_dirichlet",
)
_LIKE = ("rand_like", "randn_like", "randint_like")
_METHODS = (
    "bernoulli",
    "bernoulli_",
    "cauchy_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "multinomial",
    "normal_",
    "random_",
    "uniform_",
)


def add_functions(methods: _native.MethodExchange) -> None:
    """Adds torch's functions to an exchange, for threads with generators of their own."""
    for function, replacement in _replacements_in_tables().items():
        takes_generator = _replacements()[function] is _draw_on_device_of_arguments
        tensor_type = torch.Tensor if takes_generator else None
        methods.add_drawing(function, function.__name__, replacement, tensor_type, _count_modes)


@functools.cache
def _replacements_in_tables() -> dict[_Function, _Function]:
    """Returns the functions that the tables call. Cached, as an exchanged function keeps its first replacement."""
    return {function: functools.partial(_draw_from_table, function) for function in _replacements()}


def _draw_from_table(function: _Function, generator: torch.Generator, /, *args: Any, **kwargs: Any) -> Any:
    original = functools.partial(_native.call_original, function)
    if _count_modes():  # they see the call first, and call the function in their turn
        return original(*args, **kwargs)
    return _replacements()[function](original, generator, args, kwargs)


def _draw_on_device_of_arguments(
    func: _Function, generator: torch.Generator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Calls `func` of tensors (or of none, as torch.normal of numbers) with the generator if all is on the CPU."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    is_elsewhere = any(tensor.device.type != "cpu" for tensor in tensors)
    given = kwargs.get("generator")
    is_given = given is not None and given is not torch.default_generator
    if is_elsewhere or not _is_cpu(kwargs.get("device")) or is_given:
        return func(*args, **kwargs)
    if any(isinstance(value, torch.Generator) for value in args):
        # In a worker process of torch the default generator is the worker's, too; random_split() passes it on.
        return func(*(generator if value is torch.default_generator else value for value in args), **kwargs)
    return func(*args, **{**kwargs, "generator": generator})


def _is_cpu(device: Any) -> bool:
    # None: the tensors' device, or the default one; a thread has a default device of its own, which is the CPU.
    return device is None or torch.device(device).type == "cpu"


def _draw_like(
    fill: Callable[..., torch.Tensor],
) -> _Replacement:
    """Returns a replacement for a torch whose *_like functions take no generator: it fills as they do."""

    def draw(func: _Function, generator: torch.Generator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        options = dict(kwargs)
        like, *bounds = args if args else (options.pop("input"),)
        bounds += [options.pop(name) for name in ("low", "high") if name in options]
        empty = torch.empty_like(like, **options)
        return fill(empty, *bounds, generator=generator) if empty.device.type == "cpu" else func(*args, **kwargs)

    return draw


def _fill_integers(empty: torch.Tensor, *bounds: int, generator: torch.Generator) -> torch.Tensor:
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    return empty.random_(low, high, generator=generator)


_FILLS: dict[str, Callable[..., torch.Tensor]] = {
    "rand_like": torch.Tensor.uniform_,
    "randn_like": torch.Tensor.normal_,
    "randint_like": _fill_integers,
}


def _drop_out(
    func: _Function,
    generator: torch.Generator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    is_inplace: bool = False,
) -> Any:
    """Runs torch.dropout or torch.dropout_, which take no generator, in torch's own steps on the CPU."""
    values, probability, is_training = _dropout_arguments(*args, **kwargs)
    if not is_training or not 0 < probability < 1 or values.numel() == 0 or values.device.type != "cpu":
        return func(*args, **kwargs)
    noise = torch.empty_like(values).bernoulli_(1 - probability, generator=generator).div_(1 - probability)
    return values.mul_(noise) if is_inplace else values * noise


def _dropout_arguments(input: torch.Tensor, p: float, train: bool) -> tuple[torch.Tensor, float, bool]:
    return input, p, train


def _takes_generator(func: _Function) -> bool:
    try:
        func(torch.zeros(1, device="cpu"), *([1] if "int" in func.__name__ else []), generator=torch.Generator())
    except TypeError:
        return False
    return True


def _originals(owner: Any, names: Iterable[str]) -> list[_Function]:
    """Returns torch's own functions, which are found by these names in C whatever user code has put in torch."""
    return [getattr(owner, name) for name in names if hasattr(owner, name)]


@functools.cache
def _replacements() -> dict[_Function, _Replacement]:
    of_torch = torch._C._VariableFunctions
    functions = [*_originals(of_torch, _FUNCTIONS), *_originals(torch._C.TensorBase, _METHODS)]
    table: dict[_Function, _Replacement] = dict.fromkeys(functions, _draw_on_device_of_arguments)
    for function in _originals(of_torch, _LIKE):
        is_direct = _takes_generator(function)
        table[function] = _draw_on_device_of_arguments if is_direct else _draw_like(_FILLS[function.__name__])
    table[of_torch.dropout] = _drop_out
    table[of_torch.dropout_] = functools.partial(_drop_out, is_inplace=True)
    return table
