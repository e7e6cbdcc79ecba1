"""Every public name says what it takes, gives and raises, in sections that its code bears out; examples run."""

from __future__ import annotations

import doctest
import inspect
import re

import torch
from architecture.docstrings import OF_ENTRIES, SECTIONS, Documented, documented, exception_named
from architecture.documents import text_of
from children import RunChild

import fastload

ARGUMENTS = "docs/arguments.md"


def test_each_begins_with_one_sentence() -> None:
    def is_sentence(text: str) -> bool:
        first, _, rest = text.partition("\n")
        return first.endswith(".") and not re.search(r"\. [A-Z]", first) and (not rest or rest.startswith("\n"))

    assert [item.name for item in documented() if not is_sentence(item.text)] == []


def test_sections_are_of_known_names_and_made_of_entries() -> None:
    unknown = {item.name: set(item.sections) - set(SECTIONS) for item in documented()}
    assert {name: sections for name, sections in unknown.items() if sections} == {}
    stray = {
        f"{item.name}, {section}": lines
        for item in documented()
        for section in OF_ENTRIES
        if (lines := item.lines_of_no_entry(section))
    }
    assert stray == {}


def test_every_parameter_is_explained_and_no_other() -> None:
    found = {item.name: (item.entries("Args"), item.parameters) for item in documented()}
    assert found["DataLoader"][1][0] == "dataset"
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


def test_every_field_is_explained() -> None:
    def missing(item: Documented) -> list[str]:
        explained = {*item.entries("Attributes"), *item.entries("Args")}
        return [name for name in item.fields if name not in explained]

    assert {item.name: missing(item) for item in documented() if missing(item)} == {}


def test_what_is_returned_is_explained_and_nothing_else() -> None:
    calls = [item for item in documented() if not isinstance(item.value, type)]
    wrong = [item.name for item in calls if ("Returns" in item.sections) != item.returns_something]
    assert wrong == []


def test_raises_names_exceptions_and_all_that_the_body_raises() -> None:
    unknown = {
        item.name: names
        for item in documented()
        if (names := [name for name in item.entries("Raises") if exception_named(name) is None])
    }
    assert unknown == {}
    left_out = {item.name: names for item in documented() if (names := item.raised - set(item.entries("Raises")))}
    assert left_out == {}


def test_examples_are_code() -> None:
    for item in documented():
        assert ("Example" in item.sections) == bool(item.examples), item.name
        for example in item.examples:
            compile(example.source, item.name, "single")


def test_examples_run_and_give_what_they_say(run_child: RunChild) -> None:
    lines = [example for item in documented() for example in item.examples]
    assert [example.source for example in lines if example.options.get(doctest.SKIP)] == []
    names = {item.name for item in documented() if item.examples}
    assert names >= {"DataLoader", "SampleError", "DeviceError", "SampleReport", "TransformStep", "verify"}
    result = run_child("from architecture.docstrings import run_examples; print(run_examples(), 'lines')", warm=True)
    assert result.stdout.splitlines()[-1] == f"{len(lines)} lines"


def test_the_loaders_docstring_is_short() -> None:
    assert len((fastload.DataLoader.__doc__ or "").split()) < 400


def test_the_page_of_arguments_has_those_of_the_signature_and_their_defaults() -> None:
    entries = re.split(r"^### (\w+)\n", text_of(ARGUMENTS), flags=re.MULTILINE)[1:]
    found = dict(zip(entries[::2], entries[1::2], strict=True))
    parameters = inspect.signature(fastload.DataLoader).parameters
    assert entries[::2] == list(parameters)
    for name, parameter in parameters.items():
        defaults = re.findall(r"^- Default: (?:`(.*?)`|(none; it has to be given))", found[name], re.MULTILINE)
        assert len(defaults) == 1, name
        code, _ = defaults[0]
        given = eval(code, {"torch": torch}) if code else inspect.Parameter.empty
        assert given == parameter.default, name
        assert type(given) is type(parameter.default), name
        assert found[name].count("\n- Errors: ") == 1, name
