"""Names of modules, exchanged where functions cannot be exchanged where they are."""

from __future__ import annotations

import sys
from typing import Any


class ModuleNames:
    """Functions for which others stand under every name that any module has for them.

    It does not reach what is kept elsewhere: in objects, closures, default arguments, partials.
    """

    def __init__(self) -> None:
        self._exchanged: list[tuple[dict[str, Any], str, Any]] = []

    def exchange(self, replacements: list[tuple[Any, Any]]) -> None:
        """`replacements` are (function, what stands for it)."""
        by_identity = {id(function): replacement for function, replacement in replacements}
        for module in list(sys.modules.values()):
            names: Any = getattr(module, "__dict__", None)
            for name, value in list(names.items()) if type(names) is dict else ():
                if id(value) in by_identity:
                    self._exchanged.append((names, name, value))
                    names[name] = by_identity[id(value)]

    def undo(self) -> None:
        while self._exchanged:
            names, name, value = self._exchanged.pop()
            names[name] = value
