"""Copied keys are found under their copies, whatever their __hash__ and __eq__ ask of them."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from fastload._workers._objects import copies


class Label:
    """-1 and -2 have one hash."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Label) and other.number == self.number


class Mark:
    """Found by identity."""


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize("numbers", [(1, 2), (-1, -2)])
def test_a_dict_has_the_copies_of_its_keys(kind: Any, numbers: tuple[int, int]) -> None:
    table = kind((Label(number), [number]) for number in numbers)
    ((copy, _, _),) = (own.roots for own in copies((table, None, None), 1))
    assert [copy[Label(number)] for number in numbers] == [[number] for number in numbers]
    assert all(one is not other for one, other in zip(copy, table, strict=True))


@pytest.mark.parametrize("kind", [set, frozenset])
@pytest.mark.parametrize("others", [(), (Mark(),)])
def test_a_set_has_the_copies_of_its_elements(kind: Any, others: tuple[Any, ...]) -> None:
    labels = Label(-1), Label(-2)
    ((copy, elements, _),) = (own.roots for own in copies((kind((*labels, *others)), [*labels, *others], None), 1))
    assert len(copy) == len(elements)
    assert all(element in copy for element in elements)
    assert not any(one is other for one in copy for other in (*labels, *others))


def test_a_frozenset_that_is_a_key_has_the_copies_of_its_elements() -> None:
    table = {frozenset([Label(-1), Label(-2)]): [1]}
    ((copy, _, _),) = (own.roots for own in copies((table, None, None), 1))
    assert copy[frozenset([Label(-2), Label(-1)])] == [1]
