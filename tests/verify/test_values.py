"""Values of any type are equal exactly if no bit differs."""

from __future__ import annotations

import io
import warnings
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from image_folders import synthetic_image

from fastload._tools.verify._compare import difference, fingerprint, split_batch

Pair = namedtuple("Pair", ["image", "label"])


@dataclass
class Boxes:
    """Comparing two of these with == raises."""

    corners: torch.Tensor
    name: str = "boxes"


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch calls them a prototype
    NESTED = [torch.nested.nested_tensor([torch.zeros(2), torch.full((3,), last)]) for last in (0.0, 1.0)]

UNEQUAL: list[tuple[Any, Any]] = [
    (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])),
    (torch.tensor(1), torch.tensor(2)),
    (torch.tensor([0.0]), torch.tensor([-0.0])),
    (torch.tensor([1.0]), torch.tensor([float("nan")])),
    (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64)),
    (torch.zeros(2, 3), torch.zeros(3, 2)),
    (torch.tensor([True]), torch.tensor([False])),
    (torch.tensor([1j]), torch.tensor([2j])),
    (torch.tensor([1.0]).to_sparse(), torch.tensor([2.0]).to_sparse()),
    (torch.nn.Parameter(torch.zeros(1)), torch.zeros(1)),
    (NESTED[0], NESTED[1]),
    (np.array([1, 2]), np.array([1, 3])),
    (np.array(["a"]), np.array(["b"])),
    (np.array([None]), np.array([1], dtype=object)),
    (1, 2),
    (1, True),
    (0.0, -0.0),
    ("cat", "dog"),
    (b"cat", b"dog"),
    (None, 0),
    ([1], (1,)),
    ([1], [1, 2]),
    ({"a": 1}, {"a": 2}),
    ({"a": 1, "b": 1}, {"b": 1, "a": 1}),
    ({1}, {2}),
    (Pair(1, 2), Pair(1, 3)),
    (synthetic_image(1, 9, 9), synthetic_image(2, 9, 9)),
    (synthetic_image(1, 9, 9), synthetic_image(1, 9, 8)),
    (Boxes(torch.zeros(2)), Boxes(torch.ones(2))),
    (Slotted(1), Slotted(2)),
    (io.BytesIO(b"a"), io.BytesIO(b"b")),
    (iter([1]), iter([2])),
    (int, str),
]


@pytest.mark.parametrize(("old", "new"), UNEQUAL, ids=[str(number) for number in range(len(UNEQUAL))])
def test_unequal_values_differ_and_each_equals_itself(old: Any, new: Any) -> None:
    assert difference(old, new) is not None
    assert difference(new, old) is not None
    assert difference(old, old) is None
    assert difference([new, old], [new, new]) is not None


def test_equal_values_of_other_objects_are_equal() -> None:
    nan = float("nan")
    for make in (
        lambda: torch.tensor([nan, float("inf")]),
        lambda: np.array([nan]),
        lambda: nan * 1.0,
        lambda: Boxes(torch.zeros(2)),
        lambda: Slotted(3),
        lambda: io.BytesIO(b"a"),
        lambda: {"a": [torch.zeros(2), ("b", 1.5)]},
        lambda: synthetic_image(1, 9, 9),
        lambda: Pair(torch.ones(1), 2),
        lambda: NESTED[0].clone(),
    ):
        assert difference(make(), make()) is None


def test_strides_are_no_difference() -> None:
    images = torch.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5).float()
    assert difference(images, images.to(memory_format=torch.channels_last)) is None
    assert fingerprint(images) == fingerprint(images.to(memory_format=torch.channels_last))


def test_nested_tensors_have_fingerprints() -> None:
    assert fingerprint(NESTED[0]) == fingerprint(NESTED[0].clone()) != fingerprint(NESTED[1])


def test_the_largest_difference_and_its_place_are_found() -> None:
    old = torch.zeros(2, 3, dtype=torch.uint8)
    new = old.clone()
    new[0, 1], new[1, 2] = 3, 200
    found = difference([old, 1], [new, 1])
    assert found is not None
    assert (found.differing_bytes, found.max_abs, found.index) == (2, 200.0, (1, 2))


IMAGES, LABELS = torch.arange(12).reshape(2, 2, 3), torch.tensor([5, 6])


@pytest.mark.parametrize(
    ("batch", "places"),
    [
        ([IMAGES, LABELS], [(0,), (1,)]),
        ({"image": IMAGES, "more": {"label": LABELS}}, [("image",), ("more", "label")]),
        (Pair(IMAGES, LABELS), [(0,), (1,)]),
        ([IMAGES, LABELS, ["a", "b"]], [(0,), (1,), (2,)]),
        (([IMAGES[0], IMAGES[1][:1]], [{"box": 1}, {"box": 2}]), [(0,), (1,)]),
        (IMAGES, [()]),
        (["a", "b"], [()]),
    ],
)
def test_batches_are_taken_apart_by_sample(batch: Any, places: list[Any]) -> None:
    samples = split_batch(batch, 2)
    assert samples is not None
    assert [list(sample) for sample in samples] == [places, places]
    column = batch
    for key in places[0]:
        column = column[key]
    assert difference([sample[places[0]] for sample in samples], [column[0], column[1]]) is None


@pytest.mark.parametrize("batch", [torch.tensor(3), [torch.zeros(3), LABELS], 7, {"a": object()}, NESTED])
def test_what_cannot_be_taken_apart_is_left_whole(batch: Any) -> None:
    assert split_batch(batch, 2) is None
