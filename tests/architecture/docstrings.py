"""The docstrings of what fastload makes public, in parts; and their examples, run as a reader would: run_examples().

A section is Google's: its name and a colon in a line of its own, then indented lines. An entry of a section begins with
``name:`` or ``name, name:``.
"""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from architecture.document_code import names_of_the_reader, on_this_machine

import fastload
from fastload._iteration._iterator import EpochIterator
from fastload._loader._explanation import Explanation, ExplanationRow
from fastload._tools.verify._report import BatchDifference, SampleDifference

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example")
OF_ENTRIES = ("Args", "Attributes", "Raises")
# Objects that users get and cannot find below `fastload`.
NOT_EXPORTED = {
    "Explanation": Explanation,
    "ExplanationRow": ExplanationRow,
    "SampleDifference": SampleDifference,
    "BatchDifference": BatchDifference,
    "EpochIterator.batch_report": EpochIterator.batch_report,
}

_HEAD = re.compile(r"^(\w+):$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w[\w.]*(?:, \w[\w.]*)*): ")


@dataclass(frozen=True)
class Documented:
    """A public object and its docstring.

    Attributes:
        name: Below `fastload`: ``DataLoader.explain``.
        value: A class, a function, or what a class has there: a property, a class method.
        text: The docstring without its indentation.
    """

    name: str
    value: Any
    text: str

    @property
    def function(self) -> Any:
        """The code that runs: the function, a property's getter, a class's own ``__init__``; None if there is none."""
        if isinstance(self.value, type):
            parameters = getattr(self.value, "__dataclass_params__", None)
            return None if parameters is not None and parameters.init else vars(self.value).get("__init__")
        return self.value.fget if isinstance(self.value, property) else getattr(self.value, "__func__", self.value)

    @property
    def parameters(self) -> list[str]:
        """The parameters of the function, without `self`; none for a property and a class without ``__init__``."""
        if self.function is None or isinstance(self.value, property):
            return []
        names = list(inspect.signature(self.function).parameters)
        return names[1:] if names and names[0] in ("self", "cls") else names

    @property
    def returns_something(self) -> bool:
        """Whether a function says so in its signature; a class and a property do not count."""
        if isinstance(self.value, (type, property)):
            return False
        return inspect.signature(self.function).return_annotation not in (None, "None")

    @property
    def fields(self) -> list[str]:
        """The annotated attributes of a class that are public, its bases in fastload included."""
        if not isinstance(self.value, type):
            return []
        names = (name for base in own_bases(self.value) for name in inspect.get_annotations(base))
        return [name for name in dict.fromkeys(names) if not name.startswith("_")]

    @property
    def sections(self) -> dict[str, str]:
        """The lines of each section, without their indentation."""
        heads = list(_HEAD.finditer(self.text))
        return {head[1]: _indented_lines(self.text[head.end() + 1 :]) for head in heads}

    def entries(self, section: str) -> list[str]:
        """Returns the names that a section explains."""
        lines = self.sections.get(section, "").splitlines()
        return [name for line in lines if (entry := _ENTRY.match(line)) for name in entry[1].split(", ")]

    def lines_of_no_entry(self, section: str) -> list[str]:
        """Returns lines of a section of entries that neither begin an entry nor are indented below one."""
        lines = self.sections.get(section, "").splitlines()
        return [line for line in lines if line and not line.startswith(" ") and not _ENTRY.match(line)]

    @property
    def raised(self) -> set[str]:
        """The names in the ``raise`` statements of the function's own body: ``ValueError``."""
        return set() if self.function is None else _raised_in(self.function)

    @property
    def examples(self) -> list[doctest.Example]:
        return doctest.DocTestParser().get_examples(self.text, self.name)


def _indented_lines(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if line and not line.startswith("    "):
            break
        lines.append(line)
    return textwrap.dedent("\n".join(lines)).strip("\n")


def _raised_in(function: Any) -> set[str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    statements = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
    raised = (exc.func if isinstance(exc, ast.Call) else exc for exc in statements)
    names = {node.id for node in raised if isinstance(node, ast.Name)}
    return {name for name in names if exception_named(name) is not None}


def own_bases(kind: type) -> list[type]:
    """Returns the class and its bases that fastload defines."""
    return [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "fastload"]


def exception_named(name: str) -> type[BaseException] | None:
    """Returns an exception of Python, of fastload or, with its module's name before it, of any module; else None."""
    module, _, last = name.rpartition(".")
    homes = [importlib.import_module(module)] if module else [importlib.import_module("builtins"), fastload]
    found = next((getattr(home, last) for home in homes if hasattr(home, last)), None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


@functools.cache
def documented() -> tuple[Documented, ...]:
    """Returns every public name, with the public methods and properties of the classes among them."""
    exported = {name: getattr(fastload, name) for name in fastload.__all__ if name != "__version__"}
    found = {}
    for name, value in {**exported, **NOT_EXPORTED}.items():
        found[name] = value
        if isinstance(value, type):
            found.update({f"{name}.{member}": part for member, part in members(value)})
    return tuple(Documented(name, value, inspect.cleandoc(value.__doc__ or "")) for name, value in found.items())


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yields the public methods and properties of a class and of its bases in fastload."""
    seen = set()
    for base in own_bases(kind):
        for name, value in vars(base).items():
            is_code = isinstance(value, (property, classmethod, staticmethod)) or inspect.isfunction(value)
            if is_code and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def run_examples() -> int:
    """Runs the examples of every docstring in the current folder. Returns how many lines of code; raises at the first
    docstring whose output is another."""
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False)
    names = names_of_the_reader()
    for item in documented():
        test = doctest.DocTestParser().get_doctest(on_this_machine(item.text), dict(names), item.name, None, 0)
        if runner.run(test).failed:
            raise AssertionError(f"the example of fastload.{item.name} does not give what it says")
    return runner.tries
