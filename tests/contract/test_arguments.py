"""Arguments: what torch refuses is refused with the same type and text, at the same time."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch.utils.data
from both_loaders import Threads, assert_same, outcome
from torch.utils.data import BatchSampler, IterableDataset, SequentialSampler

import fastload

ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"batch_size": 0},
    {"batch_size": -1},
    {"batch_size": 2.0},
    {"batch_size": True},
    {"batch_size": "4"},
    {"batch_size": None},
    {"batch_size": None, "drop_last": True},
    {"drop_last": "no"},
    {"drop_last": 1},
    {"shuffle": None},
    {"shuffle": False, "sampler": [0, 1]},
    {"shuffle": True, "sampler": [0, 1]},
    {"sampler": 3, "batch_size": 2},
    {"batch_sampler": [[0, 1]]},
    {"batch_sampler": [[0, 1]], "batch_size": 1},
    {"batch_sampler": [[0, 1]], "batch_size": 2},
    {"batch_sampler": [[0, 1]], "batch_size": None},
    {"batch_sampler": [[0, 1]], "shuffle": True},
    {"batch_sampler": [[0, 1]], "shuffle": False},
    {"batch_sampler": [[0, 1]], "sampler": [0]},
    {"batch_sampler": [[0, 1]], "drop_last": True},
    {"num_workers": -1},
    {"num_workers": 2.0},
    {"num_workers": "2"},
    {"num_workers": None},
    {"prefetch_factor": 2},
    {"prefetch_factor": 0},
    {"prefetch_factor": None, "num_workers": 1},
    {"prefetch_factor": 3, "num_workers": 1},
    {"prefetch_factor": 0, "num_workers": 1},
    {"prefetch_factor": -1, "num_workers": 1},
    {"prefetch_factor": "2", "num_workers": 1},
    {"timeout": -1},
    {"timeout": "1"},
    {"timeout": 5},
    {"timeout": 5, "num_workers": 1},
    {"timeout": 5.5, "num_workers": 1},
    {"persistent_workers": True},
    {"persistent_workers": True, "num_workers": 1},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "fork", "num_workers": 1},
    {"multiprocessing_context": "no such", "num_workers": 1},
    {"multiprocessing_context": multiprocessing.get_context("fork"), "num_workers": 1},
    {"multiprocessing_context": 3, "num_workers": 1},
    {"shared_memory": True},
    {"no_such_argument": 2},
]
ATTRIBUTES = [
    "batch_size",
    "drop_last",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "pin_memory_device",
    "timeout",
    "worker_init_fn",
    "generator",
    "collate_fn",
    "persistent_workers",
]


def without_address(arguments: dict[str, Any]) -> str:
    """Returns a name for a case that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(arguments))


def construction(make: Callable[[], Any]) -> tuple[str, Any, str]:
    """Returns the outcome of a construction: the attributes, or the exception's type and text."""
    try:
        loader = make()
    except Exception as error:  # noqa: BLE001 - what is raised is what is compared
        return "raised", type(error), str(error).replace("fastload.", "")
    found = {name: getattr(loader, name) for name in ATTRIBUTES}
    context = loader.multiprocessing_context
    kinds = [type(loader.sampler), type(loader.batch_sampler), None if context is None else context.get_start_method()]
    return "made", found, str(kinds)


@pytest.mark.filterwarnings("ignore:.*_MultiProcessingDataLoaderIter.__del__:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=without_address)
def test_construction_and_an_epoch_end_as_torchs(dataset: Any, arguments: dict[str, Any]) -> None:
    made = assert_same(lambda kind: construction(lambda: kind(dataset, **arguments)))
    if made[0] == "made":
        assert_same(lambda kind: outcome(lambda: len(list(kind(dataset, **arguments)))))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(5))


@pytest.mark.parametrize(
    "arguments",
    [{}, {"shuffle": True}, {"shuffle": False}, {"sampler": [0]}, {"batch_sampler": [[0]]}, {"batch_size": None}],
    ids=str,
)
def test_iterable_datasets_are_constructed_as_torch_does(arguments: dict[str, Any]) -> None:
    assert_same(lambda kind: construction(lambda: kind(Stream(), **arguments)))


def test_positional_arguments_are_in_torchs_order_and_keywords_are_known() -> None:
    theirs = inspect.signature(torch.utils.data.DataLoader.__init__).parameters
    mine = inspect.signature(fastload.DataLoader.__init__).parameters
    positional = [name for name, value in theirs.items() if value.kind is value.POSITIONAL_OR_KEYWORD]
    assert [name for name, value in mine.items() if value.kind is value.POSITIONAL_OR_KEYWORD] == positional
    assert set(mine) >= set(theirs)
    assert all(mine[name].default == theirs[name].default for name in theirs)
    assert not any(value.kind in (value.VAR_KEYWORD, value.VAR_POSITIONAL) for value in mine.values())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"copy": False}, "copy=False: pass workers='threads', whose threads share all objects"),
        (
            {"copy": True},
            "copy=True: leave it out; your Python then runs in worker processes, each with its own objects",
        ),
        (
            {"thread_safe": False},
            "thread_safe=False: leave it out; worker processes share no objects. With workers='threads', let the data "
            "set use a lock",
        ),
        ({"thread_safe": True}, "thread_safe=True: leave it out; threads always use the data set at the same time"),
    ],
    ids=str,
)
def test_a_removed_argument_is_refused_with_what_replaces_it(arguments: dict[str, Any], text: str) -> None:
    class Derived(fastload.DataLoader[int]):
        pass

    for kind in (fastload.DataLoader, Derived):
        with pytest.raises(TypeError, match=f"^DataLoader no longer has the argument {re.escape(text)}$"):
            kind([1], **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"seed": 3}, "seed=3 needs rng='sample'; .*torch.manual_seed"),
        ({"rng": "torch", "seed": 0}, "seed=0 needs rng='sample'"),
        ({"memory_format": torch.preserve_format}, "memory_format must be torch.contiguous_format or torch.channels_l"),
    ],
    ids=str,
)
def test_own_arguments_are_checked_at_construction(dataset: Any, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        fastload.DataLoader(dataset, **arguments)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_every_seed_of_64_bits_is_taken(threaded: Any, seed: int) -> None:
    loader = fastload.DataLoader(threaded, batch_size=4, rng="sample", seed=seed)
    assert loader.seed == seed
    assert len(list(loader)) == 3


def test_memory_format_needs_native_batches(images: Any) -> None:
    loader = fastload.DataLoader(images, batch_size=4, memory_format=torch.channels_last)
    batch, _ = next(iter(loader))
    assert batch.is_contiguous(memory_format=torch.channels_last)
    assert not batch.is_contiguous()
    elsewhere = fastload.DataLoader([1, 2], memory_format=torch.channels_last)
    with pytest.raises(ValueError, match="needs native batches, but:\nnot native"):
        iter(elsewhere)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_memory_format_is_refused_in_words_where_python_ends_the_samples(
    images_with_python_part: Any, num_workers: int
) -> None:
    loader = fastload.DataLoader(images_with_python_part, memory_format=torch.channels_last, num_workers=num_workers)
    with pytest.raises(ValueError, match="needs native batches, but:\npartly native") as raised:
        iter(loader)
    assert "memory_format=torch.channels_last" in str(raised.value)
    assert "5 of 5, function negated: runs in Python from here on" in str(raised.value)


@pytest.mark.parametrize("arguments", [{}, {"batch_sampler": BatchSampler(SequentialSampler(range(11)), 3, True)}])
def test_default_collate_is_torchs_own_function(dataset: Any, arguments: dict[str, Any]) -> None:
    loader = fastload.DataLoader(dataset, **arguments)
    assert loader.collate_fn is torch.utils.data.default_collate
    unbatched = fastload.DataLoader(dataset, batch_size=None)
    assert unbatched.collate_fn is torch.utils.data.default_convert


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system has no processor affinity")
def test_too_many_workers_warn_of_threads_at_construction_and_not_again(dataset: Any) -> None:
    available = len(os.sched_getaffinity(0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Threads(dataset, num_workers=available)
    with pytest.warns(UserWarning, match=f"will use {available + 1} worker threads, more than the {available}"):
        loader = Threads(dataset, num_workers=available + 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        next(iter(loader))
    assert [str(warning.message) for warning in caught if "worker" in str(warning.message)] == []


@pytest.mark.parametrize("num_workers", [0, 1])
def test_pin_memory_without_an_accelerator_warns_and_goes_on(dataset: Any, num_workers: int) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is an accelerator")

    def texts(kind: Any) -> list[str]:
        loader = kind(dataset, batch_size=4, pin_memory=True, num_workers=num_workers)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert not any(batch.is_pinned() for batch, _ in loader)
        return [str(warning.message) for warning in caught if "pin_memory" in str(warning.message)]

    assert_same(texts)
