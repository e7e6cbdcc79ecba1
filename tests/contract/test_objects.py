"""The loader and its iterator as objects: attributes, guards, pickles, copies, re-creation by frameworks."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
import torch
import torch.utils.data
from both_loaders import assert_same, labels_of, on_both, outcome
from torch.utils.data.dataloader import _BaseDataLoaderIter
from user_datasets import Stream

import fastload


def test_it_is_torchs_dataloader(dataset: Any) -> None:
    loader = fastload.DataLoader(dataset)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert isinstance(iter(loader), _BaseDataLoaderIter)
    assert fastload.DataLoader[Any] is not None


def test_every_argument_is_an_attribute_of_its_name(dataset: Any) -> None:
    loader = fastload.DataLoader(dataset)
    names = set(inspect.signature(fastload.DataLoader.__init__).parameters) - {"self", "shuffle"}
    assert [name for name in sorted(names) if not hasattr(loader, name)] == []
    visible = {name for name in vars(loader) if not name.startswith("_")}
    # Lightning looks for attributes in vars(), and adds this property.
    assert names - visible == {"multiprocessing_context"}


@pytest.mark.parametrize(
    "arguments", [{"shuffle": True, "rng": "sample", "seed": 3}, {"num_workers": 2, "timeout": 60}], ids=str
)
def test_frameworks_can_make_it_again_from_its_attributes(dataset: Any, arguments: dict[str, Any]) -> None:
    first = fastload.DataLoader(
        dataset, batch_size=4, drop_last=True, memory_format=torch.contiguous_format, **arguments
    )
    names = set(inspect.signature(type(first).__init__).parameters) - {"self", "shuffle"}
    found = {name: getattr(first, name) for name in names}
    sampler = torch.utils.data.DistributedSampler(dataset, num_replicas=2, rank=1, shuffle=False)
    again = type(first)(**{**found, "sampler": sampler, "batch_sampler": None})
    assert {name: getattr(again, name) for name in names - {"sampler", "batch_sampler"}} == {
        name: found[name] for name in names - {"sampler", "batch_sampler"}
    }
    assert labels_of(again) == [[1, 3, 5, 7]]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("is_persistent", [False, True])
@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda loader: pickle.loads(pickle.dumps(loader))])
def test_loaders_can_be_copied_before_and_while_iterating(
    threaded: Any, num_workers: int, is_persistent: bool, duplicate: Any
) -> None:
    if is_persistent and num_workers == 0:
        pytest.skip("torch refuses it")
    loader = fastload.DataLoader(
        threaded, batch_size=4, num_workers=num_workers, persistent_workers=is_persistent, rng="sample", seed=3
    )
    expected = labels_of(duplicate(loader))
    iterator = iter(loader)
    next(iterator)
    twin = duplicate(loader)
    assert twin.stats() == fastload.DataLoader(threaded).stats()
    assert labels_of(twin) == expected == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert labels_of(iterator) == expected[1:]
    assert (twin.rng, twin.seed) == ("sample", 3)
    with pytest.raises(ValueError, match="should not be set"):
        twin.batch_size = 3


def test_a_copy_counts_its_own_samples_in_torchs_iterator() -> None:
    loader = fastload.DataLoader([1, 2, 3])
    list(loader)
    for twin in (copy.copy(loader), copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert twin.stats().samples_python == 0
        list(twin)
        assert twin.stats().samples_python == 3
    assert loader.stats().samples_python == 3


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_iterators_cannot_be_copied(dataset: Any, num_workers: int, duplicate: Any) -> None:
    theirs, mine = on_both(lambda kind: outcome(lambda: duplicate(iter(kind(dataset, num_workers=num_workers)))))
    assert mine == theirs == ("raised", NotImplementedError)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_profilers_see_a_step_named_by_torchs_scheme_for_each_batch(dataset: Any, num_workers: int) -> None:
    def run(kind: Any, samples: Any) -> Any:
        iterator = iter(kind(samples, batch_size=6, num_workers=num_workers))
        with torch.profiler.profile() as profile:
            list(iterator)
        events = [event.name for event in profile.events() if event.name.startswith("enumerate(DataLoader)#")]
        return [name.replace(type(iterator).__name__, "<class of the iterator>") for name in events]

    for samples in (dataset, Stream()):
        names = assert_same(lambda kind, samples=samples: run(kind, samples))
        assert set(names) == {"enumerate(DataLoader)#<class of the iterator>.__next__"}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_reports_of_batches_are_refused_in_words_where_python_ends_the_samples(
    images_with_python_part: Any, num_workers: int
) -> None:
    iterator = iter(fastload.DataLoader(images_with_python_part, num_workers=num_workers))
    assert not hasattr(iterator, "batch_report")
    with pytest.raises(AttributeError, match=r"batch_report\(\) needs native batches: .* explain\(\) says why"):
        iterator.batch_report()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_worker_info_is_none_in_the_main_process(dataset: Any, num_workers: int) -> None:
    for _ in fastload.DataLoader(dataset, num_workers=num_workers):
        assert torch.utils.data.get_worker_info() is None


@pytest.mark.parametrize("num_workers", [0, 2])
def test_stats_are_zero_before_and_count_all_samples_after(dataset: Any, num_workers: int) -> None:
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=num_workers)
    before = loader.stats()
    loader.explain()
    assert (before.samples, before.samples_failed, before.batches_delivered, before.bytes_held) == (0, 0, 0, 0)
    list(loader)
    list(loader)
    stats = loader.stats()
    assert stats.samples == 2 * len(dataset)
    assert stats.samples_python == (stats.samples if loader.explain().startswith("not native") else 0)
    assert stats.samples_python_tail == (stats.samples if loader.explain().startswith("partly native") else 0)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_every_pickle_protocol_keeps_the_memory_format(memory_format: torch.memory_format, protocol: int) -> None:
    loader = fastload.DataLoader([1, 2, 3], memory_format=memory_format)
    twin = pickle.loads(pickle.dumps(loader, protocol))
    assert twin.memory_format is loader.memory_format is memory_format
