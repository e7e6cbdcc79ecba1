"""Two loaders side by side, one batch of each at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from fastload._process._config import TorchDataLoader
from fastload._tools.verify._causes import Causes, same_index
from fastload._tools.verify._compare import (
    ValueDifference,
    Where,
    count_bytes,
    difference,
    structure_difference,
)
from fastload._tools.verify._report import Finding, Findings, VerifyReport
from fastload._tools.verify._rng_states import Generators
from fastload._tools.verify._runner import DeliveredSample, LoaderRunner, Outcome

# A loader whose workers have died raises for ever.
_MAX_ERRORS_IN_A_ROW = 100


def verify(
    old_loader: TorchDataLoader[Any],
    new_loader: TorchDataLoader[Any],
    *,
    batches: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int | None], object] | None = None,
) -> VerifyReport:
    """Compares two loaders bit by bit, and says what can be proved about each sample that differs.

    Both run one epoch from the same seed, one batch of each at a time; two batches and what the loaders prefetch are
    in memory. Each runs on a copy of itself: persistent workers, epochs and iterators of the given loaders are not
    touched. At the end, all generators of the process, the loaders, samplers, data sets and transforms are in the
    states in which they were found, and workers and threads are gone. If both loaders have the same generator, each
    begins at the state in which it was found.

    Args:
        old_loader: usually torch's DataLoader.
        new_loader: usually fastload's; either may be of either kind.
        batches: number of batches to compare at most; None: the whole epoch.
        seed: seed of torch's default generator, ``random`` and NumPy's global generator at the start of each loader.
        progress: called after each batch with the number of batches compared so far, and their total; None if unknown.

    Returns:
        A report; ``print(report)`` shows it, ``report.is_equal`` is the verdict. docs/verify.md has the rules by which
        samples get their stage.

    Raises:
        TypeError: an argument is not a torch.utils.data.DataLoader, or not an int.
        ValueError: batches is not positive, or seed is not in [0, 2**64).
        Exception: any exception that iter() of a loader raises. Exceptions from next() are compared instead.

    Example:
        >>> report = fastload.verify(torch.utils.data.DataLoader(dataset), fastload.DataLoader(dataset), batches=20)
        >>> assert report.is_equal, report
    """
    for name, loader in (("old_loader", old_loader), ("new_loader", new_loader)):
        if not isinstance(loader, TorchDataLoader):
            raise TypeError(f"{name} must be a torch.utils.data.DataLoader, got {type(loader).__name__}")
    if batches is not None and (_int(batches, "batches") < 1):
        raise ValueError(f"batches must be None or a positive int, got {batches}")
    if not 0 <= _int(seed, "seed") < 2**64:
        raise ValueError(f"seed must be in [0, 2**64), got {seed}")
    generators = Generators([old_loader, new_loader])
    with ExitStack() as cleanup:
        runners = [LoaderRunner(loader, generators, seed) for loader in (old_loader, new_loader)]
        comparison = _Comparison(*runners)
        # torch's first: its processes should be forked before there are threads.
        for runner in sorted(runners, key=lambda runner: runner.mode is not None):
            cleanup.callback(runner.close)
            runner.start()
        comparison.run(batches, progress or (lambda done, total: None))
    return comparison.findings.report(runners[0].describe(), runners[1].describe(), seed=seed, batches_limit=batches)


def _int(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {value!r}")
    return value


class _Comparison:
    """Compares what two running loaders deliver, and keeps what it finds."""

    def __init__(self, old: LoaderRunner, new: LoaderRunner) -> None:
        self._old = old
        self._new = new
        # Stands for a sample that a loader did not give.
        self._no_sample = DeliveredSample(old, None)
        self._causes = Causes(old, new)
        self.findings = Findings()

    def run(self, limit: int | None, progress: Callable[[int, int | None], object]) -> None:
        """Compares batch after batch until a loader ends or `limit` is reached."""
        errors = 0
        total = _num_batches(self._old, limit)
        for batch in itertools.count() if limit is None else range(limit):
            old, new = self._old.next(), self._new.next()
            if old is None and new is None:
                if not self._old.leaves_generators_as(self._new):
                    self.findings.notes.append(
                        "The loaders leave the random generators in different states: "
                        "code after them draws other numbers."
                    )
                return
            if old is None or new is None:
                self._compare_ends(batch, old, new)
                return
            self._compare(old, new)
            progress(batch + 1, total)
            errors = errors + 1 if old.error is not None or new.error is not None else 0
            if errors == _MAX_ERRORS_IN_A_ROW:
                self.findings.notes.append(f"Stopped after {errors} errors in a row.")
                return

    def _compare_ends(self, batch: int, old: Outcome | None, new: Outcome | None) -> None:
        given = old or new
        assert given is not None
        ended, goes_on, runner = ("new", "old", self._old) if new is None else ("old", "new", self._new)
        finding = Finding(
            "order", f"the {ended} loader ends after {batch} batches, the {goes_on} one gives {_length(runner, batch)}"
        )
        samples = [DeliveredSample(runner, index) for index in given.indices or [None]]
        for position, sample in enumerate(samples):
            pair = (self._no_sample, sample) if old is None else (sample, self._no_sample)
            self.findings.add(finding, *pair, position=position)
        self.findings.end_batch(len(samples))

    def _compare(self, old: Outcome, new: Outcome) -> None:
        if old.error is None and new.error is None:
            self._compare_batches(old, new)
            return
        is_failed_alike = old.error_kind == new.error_kind
        if not is_failed_alike:
            finding, index = self._causes.of_error(old, new)
            self.findings.add(finding, DeliveredSample(self._old, index), DeliveredSample(self._new, index))
        elif old.indices is not None and new.indices is not None:  # nothing else is left to compare
            self._compare_samples(
                [DeliveredSample(self._old, index) for index in old.indices],
                [DeliveredSample(self._new, index) for index in new.indices],
            )
        self.findings.end_batch(len(old.indices or new.indices or [None]), is_failed_alike=is_failed_alike)

    def _compare_batches(self, old: Outcome, new: Outcome) -> None:
        lefts, rights = self._old.samples_of(old), self._new.samples_of(new)
        bytes_compared, differing_bytes = count_bytes(old.batch), None
        structure = structure_difference(old.batch, new.batch) if len(lefts) == len(rights) else None
        if structure is not None:
            for position, pair in enumerate(zip(lefts, rights, strict=True)):
                self.findings.add(Finding("structure", structure), *pair, position=position)
            differing_bytes = bytes_compared
        elif difference(old.batch, new.batch) is not None or not _have_same_indices(lefts, rights):
            self._compare_samples(lefts, rights)
            if not self.findings.has_batch_differences:  # the samples do not show the difference, but the batches do
                self.findings.add(
                    Finding("structure", "the batches differ as a whole"), self._no_sample, self._no_sample
                )
        self.findings.end_batch(max(len(lefts), len(rights)), bytes_compared, differing_bytes=differing_bytes)

    def _compare_samples(self, lefts: list[DeliveredSample], rights: list[DeliveredSample]) -> None:
        pairs = itertools.zip_longest(lefts, rights, fillvalue=self._no_sample)
        for position, (left, right) in enumerate(pairs):
            differing: dict[Where, ValueDifference] = {}
            if left is self._no_sample or right is self._no_sample:
                finding = Finding("order", f"batches of {len(lefts)} and {len(rights)} samples")
            elif (differing := _differing_values(left, right)) and _are_elsewhere(left, right, lefts, rights):
                finding = Finding("order", "the batch has it in another place")
            elif differing or not same_index(left.index, right.index):
                finding = self._causes.of_sample(left, right, differing)
            else:
                continue
            self.findings.add(finding, left, right, differing, position)


def _are_elsewhere(
    left: DeliveredSample, right: DeliveredSample, lefts: list[DeliveredSample], rights: list[DeliveredSample]
) -> bool:
    """Returns whether two samples of unknown index are each in the other batch."""
    if left.index is not None and right.index is not None:
        return False
    return all(
        any(other.fingerprint == sample.fingerprint for other in others)
        for sample, others in ((left, rights), (right, lefts))
    )


def _have_same_indices(lefts: list[DeliveredSample], rights: list[DeliveredSample]) -> bool:
    return all(same_index(left.index, right.index) for left, right in zip(lefts, rights, strict=False))


def _differing_values(left: DeliveredSample, right: DeliveredSample) -> dict[Where, ValueDifference]:
    found = {}
    for where in left.values.keys() | right.values.keys():
        gap = difference(left.values.get(where), right.values.get(where))
        if gap is not None:
            found[where] = gap
    return dict(sorted(found.items(), key=lambda entry: list(map(str, entry[0]))))


def _length(runner: LoaderRunner, at_least: int) -> str:
    length = _num_batches(runner, None) or 0
    return f"{length}" if length > at_least else "more"


def _num_batches(runner: LoaderRunner, limit: int | None) -> int | None:
    """Returns the number of batches in an epoch, at most `limit`; None if unknown."""
    try:
        length = len(runner.loader)
    except TypeError:
        return limit
    return length if limit is None else min(length, limit)
