"""The methods of torch.default_generator, called on the calling thread's own generator."""

from __future__ import annotations

import types

import torch

from fastload import _native


class MethodTable:
    """The exchange in the table of methods of torch's generators."""

    description = "method table"

    def __init__(self) -> None:
        self._methods = _native.MethodExchange()
        stand_in = _native.StandIn(torch.default_generator, "torch")
        for name, method in vars(torch._C.Generator).items():
            if isinstance(method, types.MethodDescriptorType):
                self._methods.add_method(method, name, stand_in)

    def make(self) -> None:
        self._methods.make()

    def undo(self) -> None:
        self._methods.undo()


class Nothing:
    """Where the table is not obeyed: the methods are the process's in every thread."""

    description = "not exchanged"

    def make(self) -> None:
        pass

    def undo(self) -> None:
        pass
