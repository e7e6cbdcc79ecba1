"""fastload.benchmark(): its measurements on loaders of every kind, and that it leaves the loader as it was."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import recipes
import torch
import torch.utils.data
from numbered import Made
from torchvision.datasets import ImageFolder

import fastload
from fastload._loader._loader import DataLoader
from fastload._tools._benchmark import SampleCount

KINDS = {
    "fastload": {"num_workers": 2},
    "fastload, persistent": {"num_workers": 1, "persistent_workers": True},
    "fastload, processes": {"num_workers": 1, "workers": "processes", "persistent_workers": True},
    "torch": {"num_workers": 1, "persistent_workers": True},
}


@pytest.mark.parametrize("name", KINDS)
def test_samples_waits_and_cpu_time_are_those_of_the_steady_state(clean_folder: Path, name: str) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.training(48))
    kind = torch.utils.data.DataLoader if name == "torch" else fastload.DataLoader
    loader: Any = kind(dataset, batch_size=4, **KINDS[name])
    shares: list[float] = []
    result = fastload.benchmark(loader, seconds=0.3, warmup_seconds=0.05, progress=shares.append)
    assert sum(result.wait_counts.values()) == result.batches >= 1
    assert 0.3 <= result.seconds < 30
    # Whole epochs, and parts of the first and the last one.
    assert (result.batches - 1) * len(dataset) / len(loader) - 4 <= result.samples <= 4 * result.batches
    assert 0 < result.wait_seconds <= result.seconds
    assert result.first_batch_seconds > 0
    assert 0 < result.cpu_seconds < 4 * result.seconds + 1
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] == 1.0
    assert (result.stats is None) == (name == "torch")
    if result.stats is not None:
        assert result.stats.batches_delivered == result.batches


def benchmarked(loader: Any) -> None:
    fastload.benchmark(loader, seconds=0.05, warmup_seconds=0.0)


def examined(loader: Any) -> None:
    fastload.doctor(loader, seconds=0.05)


@pytest.mark.parametrize("measured", [benchmarked, examined])
def test_the_loader_is_as_it_was_and_no_thread_is_left(clean_folder: Path, measured: Any) -> None:
    dataset = ImageFolder(str(clean_folder), recipes.training(48))
    loader = fastload.DataLoader(dataset, batch_size=4, num_workers=1, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    before = threading.active_count()
    measured(loader)
    assert threading.active_count() == before
    assert loader._iterator is iterator
    assert len(list(iterator)) == len(loader) - 1
    assert loader.stats().batches_delivered == len(loader)


def test_a_step_is_slept_and_is_no_wait() -> None:
    loader = fastload.DataLoader(list(range(50)), batch_size=10)
    result = fastload.benchmark(loader, seconds=0.2, warmup_seconds=0.0, step_seconds=0.02)
    assert 1 <= result.batches <= 10
    assert result.wait_seconds <= result.seconds - 0.02 * result.batches


def test_a_slow_first_batch_is_not_in_the_steady_state() -> None:
    slow = Made(lambda index: index or time.sleep(0.3) or index, 10**6)  # type: ignore[func-returns-value]
    result = fastload.benchmark(fastload.DataLoader(slow), seconds=0.05, warmup_seconds=0.0)
    assert result.first_batch_seconds > 0.3
    assert result.wait_longest_seconds < 0.3
    assert result.epochs == 0


def test_a_result_is_a_table_a_dict_and_html() -> None:
    loader = fastload.DataLoader(list(range(10)), batch_size=5)
    result = fastload.benchmark(loader, seconds=0.05, warmup_seconds=0.0)
    lines = str(result).splitlines()
    assert lines[0] == f"fastload benchmark: {result.samples_per_second:,.0f} samples/s"
    assert lines[1] == f"  loader        {loader!r}"
    assert [line[2:14].strip() for line in lines[2:]] == [
        *("first batch", "steady state", "epoch starts", "waits", "CPU time"),
    ]
    assert max(map(len, lines)) <= 100
    values = json.loads(json.dumps(result.as_dict()))
    assert values["samples_per_second"] == result.samples_per_second
    assert values["stats"]["samples_python"] == result.stats.samples_python  # type: ignore[union-attr]
    assert len(ElementTree.fromstring(result._repr_html_()).findall("tr")) == len(lines) - 1


@pytest.mark.parametrize(
    ("loader", "arguments", "error", "message"),
    [
        ([1, 2], {}, TypeError, "loader must be a torch.utils.data.DataLoader, got list"),
        (DataLoader([1]), {"seconds": 0}, ValueError, "seconds must be a positive number, got 0"),
        (DataLoader([1]), {"seconds": float("nan")}, ValueError, "seconds must be a positive number, got nan"),
        (DataLoader([1]), {"step_seconds": -1}, ValueError, "step_seconds must not be negative, got -1"),
        (DataLoader([]), {}, ValueError, "gives no batch, so there is nothing to measure: <fastload.DataL"),
        (DataLoader([1, 2], collate_fn=abs), {}, TypeError, "bad operand type for abs"),
    ],
)
def test_a_loader_that_cannot_be_measured_is_refused(
    loader: Any, arguments: dict[str, float], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fastload.benchmark(loader, **arguments)


def _two_views(samples: list[int]) -> Any:
    return [[torch.zeros(len(samples), 3)] * 2, torch.tensor(samples)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"batch_size": 4}, [4, 4, 3]),
        ({"batch_size": 4, "drop_last": True}, [4, 4]),
        ({"batch_size": None}, [1] * 11),
        ({"batch_sampler": [[0, 1], [2], [3, 4, 5]]}, [2, 1, 3]),
        ({"batch_sampler": [[0, 1, 2], [2]], "collate_fn": _two_views}, [3, 2]),  # one label for two views
        ({"batch_sampler": [[0, 1], [2]], "collate_fn": lambda samples: {"x": samples}}, [2, 1]),
    ],
)
def test_samples_are_counted_by_the_settings_or_by_the_batch(arguments: dict[str, Any], expected: list[int]) -> None:
    loader = torch.utils.data.DataLoader(list(range(11)), **arguments)
    count = SampleCount(loader)
    for _ in range(2):
        count.begin_epoch()
        assert [count.of(batch) for batch in loader] == expected


def test_a_steady_state_that_is_shorter_than_a_batch_has_one() -> None:
    result = fastload.benchmark(fastload.DataLoader([1]), seconds=1e-9, warmup_seconds=0.0)
    assert (result.batches, result.samples) == (1, 1)
    assert result.seconds > 0
    assert 0 < result.samples_per_second < float("inf")
