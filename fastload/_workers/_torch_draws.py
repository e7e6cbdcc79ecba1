"""torch's random functions, drawing from a generator of this thread instead of the process's one.

Note [how torch draws here]
Covered are the functions of the torch module and the methods of tensors that draw random numbers on the CPU, and what
is written in Python on top of these (``torch.nn.init``, ``torch.distributions``, torchvision's transforms): dropout,
too, and the layers that draw inside, recurrent ones and attention with dropout, ``rrelu`` and the like. Each has
another function in its table, which costs a thread that draws from a generator of its own 2 us, and all other functions
and threads nothing. Where a build of torch has its tables in memory that cannot be written, a mode of torch's sees all
calls of such a thread, which costs each of them more than one.

Not covered, and so drawing from the process's generator: scripted and compiled functions, and ``torch.ops``.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fastload import _native
from fastload._workers._hidden_draws import HiddenDraws, functions_with_hidden_draws

TakeGenerator = Callable[[], torch.Generator]
_Function = Callable[..., Any]
# Called with the function, what gives the generator, arguments and keywords.
_Replacement = Callable[[_Function, TakeGenerator, tuple[Any, ...], dict[str, Any]], Any]

# Of modes like `torch.device("cuda")` that this thread is in.
_count_modes = torch._C._len_torch_function_stack

# Functions that take `generator`. Those of one sample more than others: what a version of torch lacks is left out.
_FACTORIES = ("rand", "randn", "randint", "randperm", "normal")
_LIKE = ("rand_like", "randn_like", "randint_like")
_OF_TENSORS = ("bernoulli", "multinomial", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet")
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
_INITIALISERS = ("normal_", "trunc_normal_", "uniform_", "kaiming_normal_", "kaiming_uniform_")


def _attributes(owner: Any, names: Iterable[str]) -> list[_Function]:
    return [getattr(owner, name) for name in names if hasattr(owner, name)]


class MethodTable:
    """The exchange in the tables of torch's functions, for threads that have `set_thread_draws`."""

    description = "method table"

    def __init__(self) -> None:
        self._methods = _native.MethodExchange()
        for function, replacement in _replacements_in_tables().items():
            takes_generator = _replacements()[function] is _draw_on_device_of_arguments
            tensor_type = torch.Tensor if takes_generator else None
            self._methods.add_drawing(function, function.__name__, replacement, tensor_type, _count_modes)

    def make(self) -> None:
        self._methods.make()

    def undo(self) -> None:
        self._methods.undo()


class Mode:
    """Where the tables are not obeyed: `GeneratorMode` misses nothing, and costs more."""

    description = "mode of torch"

    def make(self) -> None:
        pass

    def undo(self) -> None:
        pass


@functools.cache
def _replacements_in_tables() -> dict[_Function, _Function]:
    """Of the functions that are written in C++; those in Python call them. Made once, as the tables ask for."""
    kinds = (types.BuiltinFunctionType, types.MethodDescriptorType)
    functions = [function for function in _replacements() if isinstance(function, kinds)]
    return {function: functools.partial(_draw_from_table, function) for function in functions}


def _draw_from_table(function: _Function, take_generator: TakeGenerator, *args: Any, **kwargs: Any) -> Any:
    original = functools.partial(_native.call_original, function)
    if _count_modes():  # which see the call first, and call the function in their turn
        return original(*args, **kwargs)
    return _replacements()[function](original, take_generator, args, kwargs)


class GeneratorMode(TorchFunctionMode):
    """While it is entered, torch's functions that are called in this thread without a generator, or with
    torch.default_generator, draw from its own: Note [how torch draws here].

    Args:
        take_generator: Called at each draw; gives the generator of the CPU that this thread has to itself now.
    """

    def __init__(self, take_generator: TakeGenerator) -> None:
        super().__init__()
        self._take_generator = take_generator
        self._replacements = _replacements()
        self._replaced = _replaced_methods()

    def __torch_function__(
        self, func: _Function, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self._replaced:
            func = self._replaced.get(func, func)
        replacement = self._replacements.get(func)
        if replacement is None:
            return func(*args, **(kwargs or {}))
        return replacement(func, self._take_generator, args, kwargs or {})


def _draw_on_device_of_arguments(
    func: _Function, take_generator: TakeGenerator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`func` of tensors (or of none, for torch.normal of numbers) with the generator, if all of it is on the CPU."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    is_elsewhere = any(tensor.device.type != "cpu" for tensor in tensors)
    given = kwargs.get("generator")
    is_given = given is not None and given is not torch.default_generator
    if is_elsewhere or not _is_cpu(kwargs.get("device")) or is_given:
        return func(*args, **kwargs)
    if any(isinstance(value, torch.Generator) for value in args):
        # torch's default is the worker's own one in torch's worker, too; random_split() hands it on, for example.
        return func(*(take_generator() if value is torch.default_generator else value for value in args), **kwargs)
    return func(*args, **{**kwargs, "generator": take_generator()})


def _is_cpu(device: Any) -> bool:
    # None: of the tensors, or the default; a thread has a default device of its own, which is the CPU.
    return device is None or torch.device(device).type == "cpu"


def _draw_like(
    fill: Callable[..., torch.Tensor],
) -> _Replacement:
    """For a torch whose *_like functions take no generator: an empty tensor, filled as they fill it."""

    def draw(func: _Function, take_generator: TakeGenerator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        options = dict(kwargs)
        like, *bounds = args if args else (options.pop("input"),)
        bounds += [options.pop(name) for name in ("low", "high") if name in options]
        empty = torch.empty_like(like, **options)
        return fill(empty, *bounds, generator=take_generator()) if empty.device.type == "cpu" else func(*args, **kwargs)

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
    take_generator: TakeGenerator,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    is_inplace: bool = False,
) -> Any:
    """torch.dropout and torch.dropout_, which have no generator, in torch's own steps on the CPU."""
    values, probability, is_training = _dropout_arguments(*args, **kwargs)
    if not is_training or not 0 < probability < 1 or values.numel() == 0 or values.device.type != "cpu":
        return func(*args, **kwargs)
    noise = torch.empty_like(values).bernoulli_(1 - probability, generator=take_generator()).div_(1 - probability)
    return values.mul_(noise) if is_inplace else values * noise


def _dropout_arguments(input: torch.Tensor, p: float, train: bool) -> tuple[torch.Tensor, float, bool]:
    return input, p, train


def _drop_out_functional(
    func: _Function, take_generator: TakeGenerator, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    values, probability, is_training, is_inplace = _functional_arguments(*args, **kwargs)
    if not 0 <= probability <= 1:  # torch.nn.functional has its own words for it
        return func(*args, **kwargs)
    dropout = torch.dropout_ if is_inplace else torch.dropout
    return _drop_out(dropout, take_generator, (values, probability, is_training), {}, is_inplace=is_inplace)


def _functional_arguments(
    input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> tuple[torch.Tensor, float, bool, bool]:
    return input, p, training, inplace


def _draw_inside(func: _Function, take_generator: TakeGenerator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with HiddenDraws(take_generator()):
        return func(*args, **kwargs)


def _has_generator_parameter(func: _Function) -> bool:
    return "generator" in inspect.signature(func).parameters


def _takes_generator(func: _Function) -> bool:
    try:
        func(torch.zeros(1, device="cpu"), *([1] if "int" in func.__name__ else []), generator=torch.Generator())
    except TypeError:
        return False
    return True


def _replaced_methods() -> dict[_Function, _Function]:
    """torch's methods of tensors by what user code has put in their place.

    A call of torch's own method is announced by what is in its place, which is mostly where the call comes from.
    """
    torchs = vars(torch._C.TensorBase)
    return {
        found: torchs[name]
        for name, found in vars(torch.Tensor).items()
        if isinstance(found, types.FunctionType)
        and name in torchs
        and found.__globals__.get("__name__") != "torch._tensor"
    }


@functools.cache
def _replacements() -> dict[_Function, _Replacement]:
    functions = [
        *_attributes(torch, (*_FACTORIES, *_OF_TENSORS)),
        *_attributes(torch._C.TensorBase, _METHODS),
        *filter(_has_generator_parameter, _attributes(torch.nn.init, _INITIALISERS)),
    ]
    table: dict[_Function, _Replacement] = {
        **dict.fromkeys(functions_with_hidden_draws(), _draw_inside),
        **dict.fromkeys(functions, _draw_on_device_of_arguments),
    }
    for function in _attributes(torch, _LIKE):
        is_direct = _takes_generator(function)
        table[function] = _draw_on_device_of_arguments if is_direct else _draw_like(_FILLS[function.__name__])
    table[torch.dropout] = _drop_out
    table[torch.dropout_] = functools.partial(_drop_out, is_inplace=True)
    table[torch.nn.functional.dropout] = _drop_out_functional
    return table
