"""The messages between the harness and the children that run the contenders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MODES = ("train", "eval", "decode")

OUTPUT_DTYPES = {"float32": np.dtype(np.float32), "uint8": np.dtype(np.uint8), "bfloat16": np.dtype(np.uint16)}
"""Output of a loader -> element type of `Batch.images`. NumPy has no bfloat16, so its bits cross the pipe."""


@dataclass(frozen=True)
class LoaderSettings:
    """The settings of a loader, the same for every contender of a comparison.

    Attributes:
        data: folder with one folder of images per class.
        mode: "train" (RandomResizedCrop 224, flip), "eval" (Resize 256, CenterCrop 224), or "decode" (files in memory
            to RGB pixels, one image a batch, uint8 [1, height, width, 3]).
        image_count: number of images in one round; a part of `data` evenly spread over it, or `data` repeated.
        workers: processes or threads that load.
        cache: folder for files that a contender makes from `data` once, such as a converted copy.
        output: a key of OUTPUT_DTYPES; "float32" and "bfloat16" are normalised, "uint8" is not.
    """

    data: str
    mode: str
    batch_size: int
    workers: int
    image_count: int
    seed: int = 0
    prefetch_factor: int = 2
    persistent_workers: bool = True
    cache: str = "build"
    output: str = "float32"


@dataclass(frozen=True)
class Hello:
    """A child's first answer.

    Attributes:
        unavailable: why the contender cannot run here; None if it can.
        versions: package -> version, as the child's interpreter sees them.
        details: more that is printed as it is, such as a kernel table.
    """

    unavailable: str | None
    promises_equal_bytes: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleReport:
    """A loader's report on one sample; `fastload._tools.verify._replay.apply_steps` repeats the steps."""

    index: int
    path: str
    source: str
    steps: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Batch:
    """One batch as arrays: images [batch, 3, height, width] of the output's element type, labels int64 [batch]."""

    images: NDArray[Any]
    labels: NDArray[np.int64]
    reports: list[SampleReport] | None = None


@dataclass(frozen=True)
class Round:
    """One timed epoch. CPU time counts the child and all its descendants."""

    image_count: int
    wall_seconds: float
    cpu_seconds: float
    first_batch_seconds: float

    @property
    def images_per_second(self) -> float:
        return self.image_count / self.wall_seconds

    @property
    def cpu_ms_per_image(self) -> float:
        return 1000 * self.cpu_seconds / self.image_count


@dataclass(frozen=True)
class Memory:
    """Memory of a child and its descendants while the queue is full: every prefetched batch is waiting.

    Attributes:
        idle_pss_bytes: before the loader was opened (interpreter and imports).
        pss_bytes: proportional set size; pages that several processes map are counted once.
        unmapped_shared_bytes: waiting batches in shared memory that no process has mapped at that moment.
    """

    idle_pss_bytes: int
    pss_bytes: int
    unmapped_shared_bytes: int
    process_count: int

    @property
    def total_bytes(self) -> int:
        return self.pss_bytes + self.unmapped_shared_bytes
