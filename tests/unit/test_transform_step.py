"""TransformStep: a tuple whose values have names that depend on its kind."""

from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest

from fastload import TransformStep
from fastload._iteration.native._report import STEP_FIELDS

CROP = TransformStep(("crop", 12, 40, 300, 280, 0, 0, 1, 2))


def test_a_step_is_the_tuple_that_it_is_made_of() -> None:
    assert CROP == ("crop", 12, 40, 300, 280, 0, 0, 1, 2)
    assert ("hflip",) in (CROP, TransformStep(("hflip",)))
    kind, left, top, width, height, *pads = CROP
    assert (kind, left, top, width, height, pads) == ("crop", 12, 40, 300, 280, [0, 0, 1, 2])
    assert CROP[1:5] == (12, 40, 300, 280)


def test_values_have_the_names_of_their_kind() -> None:
    assert (CROP.kind, CROP.left, CROP.height, CROP.pad_bottom) == ("crop", 12, 280, 2)
    assert TransformStep(("hue", 0.25)).factor == 0.25
    assert TransformStep(("resize", 8, 9, "bicubic"))._asdict() == {
        "kind": "resize",
        "width": 8,
        "height": 9,
        "interpolation": "bicubic",
    }


def test_a_name_of_another_kind_is_refused() -> None:
    with pytest.raises(AttributeError, match=re.escape("a step 'hue' has no 'left'; it has kind, factor")):
        _ = TransformStep(("hue", 0.25)).left


def test_its_text_has_the_names() -> None:
    assert repr(TransformStep(("erase", 1, 2, 3, 4, b"abc"))) == "erase(left=1, top=2, width=3, height=4, value=b'abc')"
    assert repr(TransformStep(("hflip",))) == "hflip()"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_and_copies_are_steps(protocol: int) -> None:
    for found in (pickle.loads(pickle.dumps(CROP, protocol)), copy.copy(CROP), copy.deepcopy(CROP)):
        assert type(found) is TransformStep
        assert found == CROP


def test_no_name_of_a_value_is_a_method_of_tuples() -> None:
    assert [name for names in STEP_FIELDS.values() for name in names if hasattr(TransformStep, name)] == []


def test_the_docstring_has_every_kind_and_name() -> None:
    rows = re.findall(r"^\| (\"[^|]*) \| (.*)\|$", inspect.cleandoc(TransformStep.__doc__ or ""), re.MULTILINE)
    documented = {kind: values for kinds, values in rows for kind in re.findall(r'"(\w+)"', kinds)}
    assert documented.keys() == STEP_FIELDS.keys()
    for kind, names in STEP_FIELDS.items():
        assert set(names) <= set(re.findall(r"\w+", documented[kind])), kind
