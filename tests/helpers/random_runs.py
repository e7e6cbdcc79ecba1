"""Random ways to iterate over a loader, and all that a program sees on the way."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.utils.data
from flat_values import flat


class GivenBatches:
    """A batch sampler, or a sampler, over a given list; an exception in it is raised."""

    def __init__(self, batches: list[Any]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        for batch in self.batches:
            if isinstance(batch, Exception):
                raise type(batch)(*batch.args)  # a new one: the old one's traceback would keep torch's iterator
            yield batch

    def __len__(self) -> int:
        return len(self.batches)


@dataclass
class Run:
    """A loader's arguments and the way it is iterated over: the same for the same seed.

    Attributes:
        sampling: "shuffle", "sequential", "replacement", or "given", which are the batches in `given`.
        steps: The number of steps of each epoch; None: all.
        is_interleaved: Whether two iterators run in turn.
        is_drawing: Whether the program draws, too.
    """

    seed: int
    arguments: dict[str, Any] = field(default_factory=dict)
    own_generator: str | None = None
    sampling: str = ""
    given: list[Any] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)
    is_interleaved: bool = False
    is_drawing: bool = False

    def choose_steps(self, choose: random.Random) -> None:
        self.steps = [choose.choice([None, None, choose.randrange(6)]) for _ in range(choose.choice([1, 2, 3]))]
        self.is_interleaved = choose.random() < 0.15
        self.is_drawing = choose.random() < 0.3

    def make_loader(self, kind: Any, dataset: Any, *, is_empty: bool) -> tuple[Any, torch.Generator | None]:
        """Returns the loader and the generator that it was given."""
        for seed in (torch.manual_seed, random.seed, np.random.seed):
            seed(self.seed)
        generators = {"own": torch.Generator().manual_seed(self.seed), "default": torch.default_generator}
        generator = generators.get(str(self.own_generator))
        arguments = {**self.arguments, "generator": generator}
        if self.sampling == "given" and arguments.get("batch_size", 1) is None:
            arguments["sampler"] = GivenBatches(self.given)
        elif self.sampling == "given":
            arguments = {name: value for name, value in arguments.items() if name not in ("batch_size", "drop_last")}
            arguments["batch_sampler"] = GivenBatches(self.given)
        elif self.sampling == "shuffle" and not is_empty:
            arguments["shuffle"] = True
        elif self.sampling == "replacement" and not is_empty:
            arguments["sampler"] = torch.utils.data.RandomSampler(dataset, True, 17, generator=generator)
        return kind(dataset, **arguments), generator

    def seen(
        self, loader: Any, generator: torch.Generator | None, error_form: Callable[[Exception], Any]
    ) -> list[tuple[Any, ...]]:
        """Returns each step's batch, or the form of its error, with the states of all generators after it."""
        seen: list[tuple[Any, ...]] = []

        def note(action: Callable[[], Any]) -> Any:
            try:
                found = flat(action())
            except StopIteration:
                found = "end"
            except Exception as error:  # noqa: BLE001 - what is raised is what is compared
                found = error_form(error)
            states = [torch.get_rng_state(), *([] if generator is None else [generator.get_state()])]
            seen.append((found, flat(states), random.getstate(), flat(np.random.get_state())))
            return found

        def draw() -> None:
            if self.is_drawing:
                torch.randn(3)
                random.gauss(0, 1)
                np.random.randn()

        note(lambda: len(loader))
        for steps in self.steps:
            iterators: list[Iterator[Any]] = []
            for _ in range(2 if self.is_interleaved and not self.arguments.get("persistent_workers") else 1):
                note(lambda begun=iterators: begun.append(iter(loader)))
            draw()
            for _ in itertools.count() if steps is None else range(steps):
                found = [note(lambda iterator=iterator: next(iterator)) for iterator in iterators]
                draw()
                if found == ["end"] * len(found):
                    break
        return seen


def first_difference(theirs: list[Any], mine: list[Any]) -> str | None:
    for step, (expected, found) in enumerate(itertools.zip_longest(theirs, mine)):
        if found != expected:
            return f"step {step}: {[str(side and side[0])[:300] for side in (expected, found)]}"
    return None
