"""Index batches of torch's own samplers and fastload's, made without Python code for each index.

Each step can be repeated, so that an interrupt costs no batch and no draw: Note [interrupts]. A step that cannot be
repeated is one call of C code, which keeps what it takes or draws.

Note [lazy draws]: a generator may be shared with user code. So after each batch it must be in the state in which
torch's samplers leave it: nothing is drawn before the batch that needs it, and RandomSampler's last permutation is
drawn even if none of it is used.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler
from torch.utils.data import sampler as torch_samplers

from fastload._process._interrupts import append_result
from fastload.samplers._blocks import Indices
from fastload.samplers._seeded_shuffle import SeededShuffle, sharded_in
from fastload.samplers._sharded_sampler import Pass, ShardedSampler

# Number of indices in order that are made at once: one small batch at a time would cost more than the batch.
_RANGE_PIECE = 4096
# Number of indices that RandomSampler draws in one call with replacement.
_DRAWS_PER_CALL = 32
_SHARDED = (ShardedSampler, SeededShuffle)


def own_batches(batch_sampler: Any) -> OwnBatches | None:
    """Returns a pass over the batches of torch's own samplers or fastload's; None for any other."""
    # torch's __iter__ raises for larger batches.
    if not is_torchs_own(batch_sampler, BatchSampler) or batch_sampler.batch_size > sys.maxsize:
        return None
    sampler = batch_sampler.sampler
    if is_torchs_own(sampler, SequentialSampler):
        return OwnBatches(batch_sampler, lambda _: _in_order(sampler))
    if is_torchs_own(sampler, RandomSampler) and _draws_as_this_torch():
        return OwnBatches(batch_sampler, functools.partial(_random, sampler))
    if type(sampler) in _SHARDED:
        return OwnBatches(batch_sampler, functools.partial(_sharded, sampler))
    return None


def draws_order(batch_sampler: Any) -> bool | None:
    """Returns whether torch's own sampler draws the order of an epoch, all at once; None for any other sampler."""
    if own_batches(batch_sampler) is None or type(batch_sampler.sampler) in _SHARDED:
        return None
    return type(batch_sampler.sampler) is RandomSampler


def sequential_key(batch_sampler: Any) -> tuple[int, int, bool] | None:
    """Returns length, batch size and drop_last of a batch sampler that draws nothing and gives the same batches in each
    epoch; None for any other."""
    if own_batches(batch_sampler) is None or type(batch_sampler.sampler) is not SequentialSampler:
        return None
    return len(batch_sampler.sampler.data_source), batch_sampler.batch_size, batch_sampler.drop_last


def is_torchs_own(sampler: Any, kind: type) -> bool:
    """Returns whether `sampler` is exactly a `kind`, whose ``__iter__`` nobody replaced."""
    return type(sampler) is kind and getattr(kind.__iter__, "__globals__", None) is vars(torch_samplers)


# C code that draws a piece of the indices when it is called.
_Draw = Callable[[], torch.Tensor]


class _Source(NamedTuple):
    """`num_samples` indices in pieces, drawn on demand; the last piece may have more.

    `draw_after` takes the number of indices that were drawn and the number of those wanted next. It returns a function
    that draws the next piece, or None at the end. The piece may have any length, but is drawn with no more of torch's
    calls than the wanted indices need. `passed` is the iteration over a ShardedSampler, which counts the batches.
    """

    num_samples: int
    draw_after: Callable[[int, int], _Draw | None]
    passed: Pass | None = None


def _in_order(sampler: SequentialSampler) -> _Source:
    """Returns the indices of a SequentialSampler."""
    num_samples = len(sampler.data_source)

    def draw_after(num_drawn: int, wanted: int) -> _Draw | None:
        stop = min(num_drawn + max(wanted, _RANGE_PIECE), num_samples)
        return functools.partial(torch.arange, num_drawn, stop, device="cpu") if num_drawn < stop else None

    return _Source(num_samples, draw_after)


def _random(sampler: RandomSampler, seeds: list[torch.Tensor]) -> _Source:
    """Returns the indices of a RandomSampler. A seed that is drawn for it is kept in `seeds`."""
    generator: torch.Generator | None = sampler.generator
    if generator is None:
        if not seeds:
            append_result(seeds, torch.empty((), dtype=torch.int64).random_)
        generator = torch.Generator()
        generator.manual_seed(int(seeds[0].item()))
    return _drawn(sampler, generator)


def _drawn(sampler: RandomSampler, generator: torch.Generator) -> _Source:
    num_samples, length = sampler.num_samples, len(sampler.data_source)
    if not sampler.replacement:  # whole permutations, and one that is used in part
        num_indices = (num_samples // length + 1) * length
        permute = functools.partial(torch.randperm, length, generator=generator)
        return _Source(num_samples, lambda num_drawn, _: permute if num_drawn < num_indices else None)

    def draw_after(num_drawn: int, wanted: int) -> _Draw | None:
        # One call stands for several of torch's, because the CPU generator draws the numbers one after the other.
        whole_calls = -(-wanted // _DRAWS_PER_CALL) * _DRAWS_PER_CALL
        count = min(whole_calls, num_samples - num_drawn)
        draw = functools.partial(torch.randint, length, (count,), dtype=torch.int64, generator=generator)
        return draw if count > 0 else None

    return _Source(num_samples, draw_after)


def _sharded(sampler: Any, begun: list[Any]) -> _Source:
    """Returns the indices of a ShardedSampler or SeededShuffle. `begun` keeps where the iteration begins."""
    sharded = sharded_in(sampler)
    assert sharded is not None, "it is one, or has one"
    shards, passed = sharded._begin(begun)

    def draw_after(num_drawn: int, wanted: int) -> _Draw | None:
        piece = shards.piece(passed.begun, num_drawn, max(wanted, _RANGE_PIECE))
        return functools.partial(torch.from_numpy, piece) if len(piece) else None

    return _Source(sys.maxsize if shards.infinite else shards.num_steps(passed.begun.position), draw_after, passed)


class _Reader:
    """Joins the pieces of a source; `rest` has the indices that were drawn and not taken, of `num_drawn` in all."""

    def __init__(self, source: _Source) -> None:
        self.rest: Indices = np.empty(0, dtype=np.int64)
        self.source = source
        self.num_drawn = 0  # without the pieces
        self._pieces: list[torch.Tensor] = []

    def fill(self, count: int) -> None:
        """Draws until `rest` has at least `count` indices, or the source ends."""
        if len(self.rest) >= count:
            return
        num_new = sum(map(len, self._pieces))
        while (missing := count - len(self.rest) - num_new) > 0:
            draw = self.source.draw_after(self.num_drawn + num_new, missing)
            if draw is None:
                break
            append_result(self._pieces, draw)
            num_new = sum(map(len, self._pieces))
        if not self._pieces:
            return
        num_drawn = self.num_drawn + num_new
        num_surplus = max(0, num_drawn - self.source.num_samples)
        drawn = [self.rest, *(piece.numpy(force=True) for piece in self._pieces)]
        filled = [piece for piece in drawn if len(piece)]
        rest = filled[0] if len(filled) == 1 else np.concatenate(filled)
        rest = rest[: len(rest) - num_surplus]
        self.rest, self.num_drawn, self._pieces = rest, num_drawn, []


class _Cut(NamedTuple):
    """A batch until it is given, and the rest after it."""

    batch: list[Indices]
    rest: Indices


class OwnBatches:
    """The batches of a BatchSampler.

    Like the BatchSampler, it reads the settings when the first batch is asked for, and the size again for each batch.
    """

    num_asked = 0

    def __init__(self, batch_sampler: BatchSampler, make_source: Callable[[list[Any]], _Source]) -> None:
        self._batch_sampler = batch_sampler
        self._make_source = make_source
        self._begun: list[Any] = []  # the seed or resume point that the source begins with: Note [interrupts]
        self._reader: _Reader | None = None
        self._full_size: int | None = None  # batch size, if shorter batches are dropped
        self._cut: _Cut | None = None

    @property
    def seed(self) -> int | None:
        """The seed that was drawn for the pass; None if there is none, or none yet."""
        # isinstance() would need torch, which may be gone when the last state is made at the interpreter's end.
        item = getattr(self._begun[0], "item", None) if self._begun else None
        return None if item is None else int(item())

    def generator_after(self) -> torch.Tensor:
        """Returns the state of a RandomSampler's generator after the pass, which ends with one more draw."""
        sampler: Any = self._batch_sampler.sampler
        generator = torch.Generator()
        generator.set_state(sampler.generator.get_state())
        source = _drawn(sampler, generator)
        num_drawn = 0 if self._reader is None else self._reader.num_drawn
        while (draw := source.draw_after(num_drawn, source.num_samples)) is not None:
            num_drawn += len(draw())
        return generator.get_state()

    def skip(self, num_batches: int, seed: int | None) -> None:
        """Skips batches before the first one is asked for, with the seed that was drawn for the pass."""
        if seed is not None:
            self._begun = [torch.tensor(seed, dtype=torch.int64)]
        if num_batches:
            reader = self._begun_reader()
            num_indices = num_batches * (self._full_size or self._batch_sampler.batch_size)
            reader.fill(num_indices)
            reader.rest = reader.rest[num_indices:]

    def _begun_reader(self) -> _Reader:
        if self._reader is None:
            self._full_size = self._batch_sampler.batch_size if self._batch_sampler.drop_last else None
            self._reader = _Reader(self._make_source(self._begun))
        return self._reader

    @property
    def num_given(self) -> int:
        """Number of indices of the pass that were given or skipped."""
        reader, cut = self._reader, self._cut
        if reader is None:
            return 0
        rest = reader.rest if cut is None or cut.batch else cut.rest
        return min(reader.num_drawn, reader.source.num_samples) - len(rest)

    def give(self, given: list[Indices]) -> None:
        reader = self._begun_reader()
        if self._cut is not None and not self._cut.batch:
            reader.rest, self._cut = self._cut.rest, None
        if self._cut is None:
            size = self._full_size or self._batch_sampler.batch_size
            reader.fill(size)
            self._cut = _Cut([reader.rest[:size]], reader.rest[size:])
        if len(self._cut.batch[0]) >= (self._full_size or 1):
            append_result(given, self._cut.batch.pop)
        if (passed := reader.source.passed) is not None:
            passed.num_given = self.num_given


@functools.cache
def _draws_as_this_torch() -> bool:
    """Returns whether the installed torch's RandomSampler draws as the functions above; tried once for each process."""
    for length, num_samples, replacement in ((7, None, False), (5, 12, False), (1000, 99, True), (3, 32, True)):
        mine, theirs = torch.Generator().manual_seed(1), torch.Generator().manual_seed(1)
        sampler = RandomSampler(range(length), replacement, num_samples, mine)
        reference = list(RandomSampler(range(length), replacement, num_samples, theirs))
        reader = _Reader(_random(sampler, []))
        reader.fill(num_samples or length + 1)
        if reader.rest.tolist() != reference:
            return False
        if num_samples is None and not torch.equal(mine.get_state(), theirs.get_state()):
            return False
    return True
