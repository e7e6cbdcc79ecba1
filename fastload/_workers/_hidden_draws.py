"""Random numbers that torch's layers draw inside of functions written in C++, where no generator can be given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Functions whose draws are inside. What a version of torch lacks is left out.
_OF_TORCH = (
    "alpha_dropout",
    "alpha_dropout_",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "gru",
    "lobpcg",
    "lstm",
    "native_dropout",
    "pca_lowrank",
    "rnn_relu",
    "rnn_tanh",
    "rrelu",
    "rrelu_",
    "svd_lowrank",
)
_OF_LAYERS = (
    "alpha_dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gumbel_softmax",
    "multi_head_attention_forward",
    "rrelu",
    "scaled_dot_product_attention",
)


def functions_with_hidden_draws() -> list[Callable[..., Any]]:
    owners = ((torch, _OF_TORCH), (torch.nn.functional, _OF_LAYERS))
    return [getattr(owner, name) for owner, names in owners for name in names if hasattr(owner, name)]


class HiddenDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, each operator that draws random numbers on the CPU, in this thread, draws from a generator.

    Every operator that is called meanwhile, inside of others too, takes some microseconds more.

    Args:
        generator: Of the CPU.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = generator

    # torch's own way of entering also sets flags of the process, which threads that leave in another order leave set;
    # torch.compile would then do nothing in the program's thread.
    def __enter__(self) -> HiddenDraws:
        torch._C._push_on_torch_dispatch_stack(self)
        return self

    def __exit__(self, *error: object) -> None:
        torch._C._pop_torch_dispatch_stack(None)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import torch's compiler with the first draw

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or not _is_on_cpu(args, options):
            return func(*args, **options)
        if func is torch.ops.aten.native_dropout.default:
            return _drop_out(self._generator, *args, **options)
        drawing = _with_generator(func)
        given = options.get("generator")
        if drawing is None or (given is not None and given is not torch.default_generator):
            return func(*args, **options)
        return drawing(*args, **{**options, "generator": self._generator})


def _is_on_cpu(args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    device = options.get("device")
    tensors = (value for value in (*args, *options.values()) if isinstance(value, torch.Tensor))
    return (device is None or torch.device(device).type == "cpu") and all(each.device.type == "cpu" for each in tensors)


@functools.cache
def _with_generator(func: Any) -> Any:
    """The overload of an operator that takes `generator`; None where there is none."""
    packet = func.overloadpacket
    names = (func._overloadname, "generator" if func._overloadname == "default" else f"{func._overloadname}_generator")
    overloads = [getattr(packet, name) for name in names if name in packet.overloads()]
    return next((each for each in overloads if _takes_generator(each)), None)


def _takes_generator(func: Any) -> bool:
    return any(argument.name == "generator" for argument in func._schema.arguments)


def _drop_out(
    generator: torch.Generator, input: torch.Tensor, p: float, train: bool | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch.native_dropout in its own steps on the CPU."""
    if train is False or input.numel() == 0:
        return torch.ops.aten.native_dropout.default(input, p, train)  # type: ignore[no-any-return]
    mask = torch.empty_like(input, dtype=torch.bool).bernoulli_(1 - p, generator=generator)
    return (input * mask).mul_(0.0 if p == 1 else 1 / (1 - p)), mask
