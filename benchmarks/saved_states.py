"""The cost of saved states: their time and size, a loop that saves before each batch, and an epoch that resumes late.

    python -m benchmarks.saved_states
    python -m benchmarks.saved_states --rounds 9 --data photos

It runs in this process, on the cores it may use. The loops take turns, and their batches are compared before a figure
is shown; so is the first batch of the resumed epoch with the batch of that number. Medians are shown. Times are
processor time of this thread unless noted, so loading threads are neither waited for nor counted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tabulate import tabulate

from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
from benchmarks._turns import BatchesDiffer, add_batch

_WORKERS = 8
_LARGE = 1_280_000  # samples of ImageNet's kind
_CALLS = 200


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.saved_states",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each figure (default: %(default)s)")
    parser.add_argument("--samples", type=int, default=_LARGE, help="samples of the long epoch (default: %(default)s)")
    parser.add_argument("--data", type=Path, help="folder with one folder of images per class")
    options = parser.parse_args(arguments)
    if options.data is None:
        options.data = ensure_sample_set(DEFAULT_FOLDER).root
    try:
        print(format_costs(list(state_costs(options.data, options.rounds))))
        share = saving_share(options.data, options.rounds)
        fresh, resumed = first_batches(options.data, options.samples, options.rounds)
    except BatchesDiffer as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"A loop that asks for a state before each batch: {share:.3f} times the images/s of one that does not.")
    print(
        f"First batch of a new epoch of {options.samples:,} samples: {fresh * 1000:.1f} ms; of one that goes on at "
        f"nine tenths, with loading the state: {resumed * 1000:.1f} ms ({resumed / fresh:.2f} times)."
    )
    return 0


# ---- one state -------------------------------------------------------------------------------------------------------


def state_costs(data: Path, rounds: int) -> Iterator[tuple[str, float, float, int]]:
    """Returns per kind of loader: microseconds of a state before iter() and in an epoch, the latter's JSON bytes."""
    for name, make in _loaders(data).items():
        loader = make()
        before = _microseconds(loader.state_dict, rounds)
        batches = iter(loader)
        for _ in range(_WORKERS):  # until every worker has begun
            next(batches)
        inside = _microseconds(loader.state_dict, rounds)
        yield name, before, inside, len(json.dumps(loader.state_dict()))


def format_costs(costs: Sequence[tuple[str, float, float, int]]) -> str:
    lines = [(name, f"{before:.1f}", f"{inside:.1f}", f"{size / 1000:.1f}") for name, before, inside, size in costs]
    headers = (f"{_WORKERS} workers", "before iter() us", "in an epoch us", "kB")
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


def _loaders(data: Path) -> dict[str, Callable[[], Any]]:
    import numpy as np
    import torch

    import fastload

    class OwnOrder(torch.utils.data.Sampler[int]):
        """A sampler that draws from NumPy, so that a state contains NumPy's generator."""

        def __init__(self, length: int) -> None:
            self.length = length

        def __iter__(self) -> Iterator[int]:
            return iter(np.random.permutation(self.length).tolist())

        def __len__(self) -> int:
            return self.length

    class Numbers(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 10_000

        def __getitem__(self, index: int) -> Any:
            return torch.rand(4) + index

    def loader(dataset: Any, **arguments: Any) -> Any:
        return fastload.DataLoader(dataset, batch_size=4, num_workers=_WORKERS, **arguments)

    training, evaluation = (_images(data, is_training=value, length=10_000) for value in (True, False))
    return {
        "native, random transforms": lambda: loader(training, shuffle=True),
        "native, no draws": lambda: loader(evaluation),
        "native, no draws, own sampler that draws": lambda: loader(evaluation, sampler=OwnOrder(10_000)),
        "made by Python": lambda: loader(Numbers(), shuffle=True),
    }


def _microseconds(call: Callable[[], Any], rounds: int) -> float:
    """Returns this thread's time for one call."""
    call()
    times = []
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(_CALLS):
            call()
        times.append((time.thread_time() - begin) / _CALLS * 1e6)
    return median(times)


# ---- a loop that saves, and one that goes on -------------------------------------------------------------------------


def saving_share(data: Path, rounds: int) -> float:
    """Returns images/s of a loop that saves before each batch, as a share of one that does not, by the clock.

    Raises:
        BatchesDiffer: their batches do.
    """
    import fastload

    dataset = _images(data, is_training=True, length=1024)
    loader: Any = fastload.DataLoader(dataset, batch_size=32, shuffle=True, num_workers=1)
    expected, found = (_digest(loader, asks=asks) for asks in (False, True))
    _check("the epochs", expected, found)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(rounds):
        for asks in (False, True) if number % 2 else (True, False):
            begin = time.perf_counter()
            for _ in _batches(loader, asks=asks):
                pass
            seconds[asks].append(time.perf_counter() - begin)
    return median(seconds[False]) / median(seconds[True])


def _digest(loader: Any, *, asks: bool) -> str:
    digest = hashlib.sha256()
    for batch in _batches(loader, asks=asks):
        add_batch(digest, batch)
    return digest.hexdigest()


def _batches(loader: Any, *, asks: bool) -> Iterator[Any]:
    """Yields the batches of an epoch, always the same one."""
    import torch

    torch.manual_seed(1)
    for batch in loader:
        if asks:
            loader.state_dict()
        yield batch


def first_batches(data: Path, num_samples: int, rounds: int) -> tuple[float, float]:
    """Returns seconds to the first batch of a new epoch, and of one resumed at nine tenths of it, by the clock.

    Raises:
        BatchesDiffer: the latter is not the batch with its number.
    """
    import fastload

    dataset, batch_size = _images(data, is_training=True, length=num_samples), 32
    step = num_samples * 9 // 10 // batch_size

    def loader() -> Any:
        return fastload.DataLoader(dataset, batch_size, shuffle=True, num_workers=2, rng="sample", seed=1)

    def digest_of(batch: Any) -> str:
        digest = hashlib.sha256()
        add_batch(digest, batch)
        return digest.hexdigest()

    begun = loader()
    next(iter(begun))
    # A position changed from outside counts.
    state = {**begun.state_dict(), "_num_yielded": step, "_sampler_iter_yielded": step}
    expected = digest_of(next(iter(begun.at(epoch=0, step=step))))
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for resumes in times:
            subject = loader()
            begin = time.perf_counter()
            if resumes:
                subject.load_state_dict(state)
            batch = next(iter(subject))
            times[resumes].append(time.perf_counter() - begin)
        _check("the batches", expected, digest_of(batch))
    return median(times[False]), median(times[True])


def _check(what: str, expected: str, found: str) -> None:
    if found != expected:
        raise BatchesDiffer(f"{what} differ: no figure is worth showing")


def _images(data: Path, *, is_training: bool, length: int) -> Any:
    """Returns the images of a folder, repeated up to that length."""
    from benchmarks._torchvision import load_torchvision

    load_torchvision()
    from torchvision import datasets, transforms

    choose = (
        [transforms.RandomResizedCrop(224)] if is_training else [transforms.Resize(256), transforms.CenterCrop(224)]
    )
    dataset = datasets.ImageFolder(str(data), transforms.Compose([*choose, transforms.ToTensor()]))
    dataset.samples = (dataset.samples * (length // len(dataset.samples) + 1))[:length]
    return dataset


if __name__ == "__main__":
    sys.exit(main())
