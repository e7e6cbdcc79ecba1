"""Two loaders side by side, one batch of each at a time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import torch.utils.data

from fastload._verify._causes import Causes, same_index
from fastload._verify._compare import (
    ValueDifference,
    Where,
    count_bytes,
    difference,
    fields,
    fingerprint,
    split_batch,
    structure_difference,
)
from fastload._verify._findings import BatchFindings, Finding, Findings
from fastload._verify._report import VerifyReport
from fastload._verify._rng_states import Generators
from fastload._verify._runner import DeliveredSample, LoaderRunner, Outcome, error_kind

# A loader whose workers have died raises for ever.
_MAX_ERRORS_IN_A_ROW = 100


def verify(
    old_loader: torch.utils.data.DataLoader[Any],
    new_loader: torch.utils.data.DataLoader[Any],
    *,
    batches: int | None = None,
    seed: int = 0,
) -> VerifyReport:
    """Compares what two loaders give, bit for bit, and says of each differing sample what can be proved of it.

    Both run one epoch from the same seed, one batch of each at a time; two batches and what the loaders prefetch are
    in memory. Each runs on a copy of itself: persistent workers, epochs and iterators of the loaders given are not
    touched. All generators, the process's and those that the loaders, samplers, data sets or transforms hold, are in
    the end where they were found, and workers and threads are gone. Where the same generator is in both loaders, each
    begins at the state it was found in.

    Args:
        old_loader: usually torch's DataLoader.
        new_loader: usually fastload's; either may be of either kind.
        batches: compare at most this many; None: the whole epoch.
        seed: of torch's default generator, ``random`` and NumPy's global generator at the beginning of each loader.

    Returns:
        A report; ``print(report)`` shows it, ``report.is_equal`` is the verdict. docs/verify.md has the rules by which
        samples get their stage.

    Raises:
        TypeError: an argument is not a torch.utils.data.DataLoader, or not an int.
        ValueError: batches is not positive, or seed is not in [0, 2**64).
        Exception: what iter() of a loader raises. What next() raises is compared instead.

    Example:
        >>> report = fastload.verify(torch.utils.data.DataLoader(dataset), fastload.DataLoader(dataset), batches=20)
        >>> assert report.is_equal, report
    """
    for name, loader in (("old_loader", old_loader), ("new_loader", new_loader)):
        if not isinstance(loader, torch.utils.data.DataLoader):
            raise TypeError(f"{name} must be a torch.utils.data.DataLoader, got {type(loader).__name__}")
    if batches is not None and (_int(batches, "batches") < 1):
        raise ValueError(f"batches must be None or a positive int, got {batches}")
    if not 0 <= _int(seed, "seed") < 2**64:
        raise ValueError(f"seed must be in [0, 2**64), got {seed}")
    generators = Generators([old_loader, new_loader])
    with ExitStack() as cleanup:
        runners = [LoaderRunner(loader, generators, seed) for loader in (old_loader, new_loader)]
        comparison = _Comparison(runners[0], runners[1], generators)
        # Processes first: a process should be forked before there are threads.
        for runner in sorted(runners, key=lambda runner: not runner.uses_processes):
            cleanup.callback(runner.close)
            runner.start()
        comparison.run(batches)
    return comparison.findings.report(runners[0].describe(), runners[1].describe(), seed=seed, batches_limit=batches)


def _int(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {value!r}")
    return value


class _Comparison:
    """Compares what two running loaders deliver, and keeps what it finds."""

    def __init__(self, old: LoaderRunner, new: LoaderRunner, generators: Generators) -> None:
        self._old = old
        self._new = new
        self._causes = Causes(old, new, generators)
        self.findings = Findings()

    def run(self, limit: int | None) -> None:
        """Compares batch after batch until a loader ends or `limit` is reached."""
        errors = 0
        for batch in itertools.count() if limit is None else range(limit):
            old, new = self._old.next(), self._new.next()
            if old is None and new is None:
                self._compare_final_states()
                return
            if old is None or new is None:
                self._compare_ends(batch, old, new)
                return
            self._compare(batch, old, new)
            errors = errors + 1 if old.error is not None or new.error is not None else 0
            if errors == _MAX_ERRORS_IN_A_ROW:
                self.findings.notes.append(f"Stopped after {errors} errors in a row.")
                return

    def _compare_ends(self, batch: int, old: Outcome | None, new: Outcome | None) -> None:
        given = old or new
        assert given is not None
        ended, goes_on, runner = ("new", "old", self._old) if new is None else ("old", "new", self._new)
        detail = f"the {ended} loader ends after {batch} batches, the {goes_on} one gives {_length(runner, batch)}"
        record = BatchFindings(batch, len(given.indices or [None]), 0)
        for position, index in enumerate(given.indices or [None]):
            indices = (None, index) if old is None else (index, None)
            record.add(Finding("order", detail), indices, self._causes.paths(*indices), {}, position)
        self.findings.add(record)

    def _compare_final_states(self) -> None:
        if self._old.final_states() != self._new.final_states():
            self.findings.notes.append(
                "The loaders leave the random generators in different states: code after them draws other numbers."
            )

    def _compare(self, batch: int, old: Outcome, new: Outcome) -> None:
        if old.error is None and new.error is None:
            self._compare_batches(batch, old, new)
        elif old.error is not None and new.error is not None and error_kind(old.error) == error_kind(new.error):
            self._compare_failed_alike(batch, old.indices, new.indices)
        else:
            finding, index = self._causes.of_error(old, new)
            record = BatchFindings(batch, len(old.indices or new.indices or [None]), 0)
            record.add(finding, (index, index), self._causes.paths(index, index), {}, None)
            self.findings.add(record)

    def _compare_failed_alike(self, batch: int, old: list[Any] | None, new: list[Any] | None) -> None:
        """Of batches that both failed only the indices are left to compare."""
        record = BatchFindings(batch, len(old or new or [None]), 0)
        if old is not None and new is not None:
            self._compare_samples(
                record, *([DeliveredSample(index, {}, None) for index in side] for side in (old, new))
            )
        self.findings.add(record, is_failed_alike=not record.samples)

    def _compare_batches(self, batch: int, old: Outcome, new: Outcome) -> None:
        lefts, rights = _samples(self._old, old), _samples(self._new, new)
        record = BatchFindings(batch, max(len(lefts), len(rights)), count_bytes(old.batch))
        structure = structure_difference(old.batch, new.batch) if len(lefts) == len(rights) else None
        if structure is not None:
            finding = Finding("structure", structure)
            for position, (left, right) in enumerate(zip(lefts, rights, strict=True)):
                self._add(record, finding, left, right, {}, position)
            record.differing_bytes = record.bytes_compared
        elif difference(old.batch, new.batch) is not None or not _have_same_indices(lefts, rights):
            self._compare_samples(record, lefts, rights)
            if not record.samples:  # what the samples do not show, the batches do
                record.add(Finding("structure", "the batches differ as a whole"), (None, None), (None, None), {}, None)
        self.findings.add(record)

    def _compare_samples(
        self, record: BatchFindings, lefts: list[DeliveredSample], rights: list[DeliveredSample]
    ) -> None:
        elsewhere = _Elsewhere(lefts, rights)
        for position, (left, right) in enumerate(itertools.zip_longest(lefts, rights)):
            if left is None or right is None:
                finding = Finding("order", f"batches of {len(lefts)} and {len(rights)} samples")
                self._add(record, finding, left, right, {}, position)
                continue
            differing = _differing_values(left, right)
            if elsewhere.has(left, right, differing):
                self._add(
                    record, Finding("order", "the batch has it in another place"), left, right, differing, position
                )
            elif differing or not same_index(left.index, right.index):
                finding = self._causes.of_sample(left, right, differing)
                self._add(record, finding, left, right, differing, position)

    def _add(
        self,
        record: BatchFindings,
        finding: Finding,
        left: DeliveredSample | None,
        right: DeliveredSample | None,
        differing: Mapping[Where, ValueDifference],
        position: int,
    ) -> None:
        indices = (left and left.index, right and right.index)
        record.add(finding, indices, self._causes.paths(*indices), differing, position)
        if left is not None and right is not None:
            self.findings.offer_twins(record.last, left.values, right.values)


class _Elsewhere:
    """Finds samples in other places of a batch whose indices nobody knows; looks only when asked."""

    def __init__(self, lefts: list[DeliveredSample], rights: list[DeliveredSample]) -> None:
        self._lefts = lefts
        self._rights = rights
        self._fingerprints: tuple[set[bytes], set[bytes]] | None = None

    def has(self, left: DeliveredSample, right: DeliveredSample, differing: Mapping[Where, ValueDifference]) -> bool:
        """Whether two samples differ only because the batches have them in other places."""
        if not differing or (left.index is not None and right.index is not None):
            return False
        if self._fingerprints is None:
            mine, theirs = ({fingerprint(side.values) for side in sides} for sides in (self._lefts, self._rights))
            self._fingerprints = mine, theirs
        return fingerprint(left.values) in self._fingerprints[1] and fingerprint(right.values) in self._fingerprints[0]


def _samples(runner: LoaderRunner, delivery: Outcome) -> list[DeliveredSample]:
    """The samples of a batch; the batch as one of no known index where it cannot be taken apart."""
    indices, reports = delivery.indices, delivery.reports
    if not runner.is_batched:
        return [DeliveredSample(indices[0] if indices else None, fields(delivery.batch), None)]
    values = split_batch(delivery.batch, None if indices is None else len(indices))
    if values is None:
        return [DeliveredSample(None, fields(delivery.batch), None)]
    return [
        DeliveredSample(indices[place] if indices else None, sample, reports[place] if reports else None)
        for place, sample in enumerate(values)
    ]


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
    try:
        length = len(runner.loader)
    except TypeError:
        length = 0
    return f"{length}" if length > at_least else "more"
