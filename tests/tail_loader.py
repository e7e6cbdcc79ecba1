"""A fastload.DataLoader whose samples end in Python: what is native of a pipeline is said by the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils.data import Dataset
from torchvision import transforms

import fastload
from fastload import _native
from fastload._stats import LoaderStats
from fastload._tail._iterator import LoaderTails, TailIterator
from fastload._tail._plan import TailPlan
from fastload.sources._lowering import LoweredSource, lower_dataset
from fastload.transforms._lowering import LoweredTransform, TransformStage, lower_transform


@dataclass(frozen=True)
class Head:
    """The first transforms of a pipeline, lowered, and the others as they are."""

    steps: tuple[dict[str, Any], ...]
    dtype: torch.dtype
    element_size: int
    table: bytes | None
    sample: Literal["pil", "tensor"]
    is_interleaved: bool
    tail: tuple[Callable[[Any], Any], ...]
    stages: tuple[TransformStage, ...]


def head_of(pipeline: transforms.Compose, num_native: int) -> Head:
    steps = pipeline.transforms
    native, tail = list(steps[:num_native]), tuple(steps[num_native:])
    stages = tuple(
        TransformStage(number, len(steps), type(step).__name__, None if number < num_native else "it is of the tail")
        for number, step in enumerate(steps)
    )
    if not native:
        return Head((), torch.uint8, 1, None, "pil", False, tail, stages)
    is_tensor = any(isinstance(step, (transforms.ToTensor, transforms.PILToTensor)) for step in native)
    lowered = lower_transform(transforms.Compose(native if is_tensor else [*native, transforms.PILToTensor()]))
    assert isinstance(lowered, LoweredTransform), lowered
    is_interleaved = any(isinstance(step, transforms.PILToTensor) for step in native)
    form = (lowered.dtype, lowered.element_size, lowered.table, "tensor" if is_tensor else "pil", is_interleaved)
    return Head(lowered.steps, *form, tail, stages)


class TailLoader(fastload.DataLoader[Any]):
    """The first `num_native` transforms run in native code, the others in threads."""

    def __init__(
        self, dataset: Dataset[Any], num_native: int = 0, rng: Literal["torch", "sample"] = "torch", **arguments: Any
    ) -> None:
        self.num_native = num_native
        self.tails = LoaderTails()
        super().__init__(dataset, rng=rng, **arguments)

    def _get_iterator(self) -> TailIterator:
        source = lower_dataset(self.dataset, (fastload.pil_loader,))
        assert isinstance(source, LoweredSource), source
        head = head_of(source.transform, self.num_native)
        index = _native.SampleIndex(source.table.arena, source.table.offsets)
        plan = TailPlan.of(self, source, index, head, self.rng)
        return TailIterator(self, self.tails, plan, self.prefetch_factor or 2)

    def stats(self) -> LoaderStats:
        return LoaderStats.from_counters(self.tails.stats())

    def close(self) -> None:
        self.tails.close()


def torch_loader(dataset: Dataset[Any], **arguments: Any) -> torch.utils.data.DataLoader[Any]:
    """The oracle: torch's own loader, whose workers are forked, so that closures reach them."""
    if arguments.get("num_workers"):
        arguments["multiprocessing_context"] = "fork"
    return torch.utils.data.DataLoader(dataset, **arguments)
