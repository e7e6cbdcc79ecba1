"""The native abilities at each stage of a loader, and the obstacles: the rows of explain()."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils import collate
from torch.utils.data._utils.collate import default_collate

from fastload._display._stats import LoaderStats
from fastload._pillow import _pillow
from fastload._workers._native_draws import UnknownDrawsError, uniform_rule
from fastload._workers._user_functions import uses_dataset
from fastload.samplers._sharded_sampler import ShardedSampler, blocks_text
from fastload.transforms._lowering import LoweredTransform


class Mode(enum.IntEnum):
    """The maker of the batches; a larger value needs more Python."""

    NATIVE = 0
    PARTLY_NATIVE = 1  # native code begins the samples, the user's own Python ends them
    PYTHON = 2  # the user's dataset makes the samples


@dataclass(frozen=True)
class StageVerdict:
    """One row of explain(): what was found at a stage, why it is not native, if so, and the mode that it requires."""

    stage: str
    what: str
    reason: str | None = None
    mode: Mode = Mode.NATIVE

    def __str__(self) -> str:
        return f"{self.stage:<10} {self.what}: {self.reason or 'native'}"


def transform_verdicts(
    transform: LoweredTransform, where: str, *, calls_are_native: bool = False
) -> list[StageVerdict]:
    """Returns the rows for `transform`.

    With `calls_are_native`, native code gets Python's calls with images: fastload/_images/_pipelines.py.
    """
    rows = [
        (
            f"{number} of {len(transform.stages)}, {stage.name}",
            "natively, when Python calls it with an image"
            if calls_are_native and stage.is_called_natively
            else stage.problem,
        )
        for number, stage in enumerate(transform.stages, start=1)
    ]
    if all(problem is None for _, problem in rows) and (reason := _result_obstacle(transform)):
        rows.append(("as a whole", reason))
    return [_partly("transform", where + what, problem) for what, problem in rows]


def _partly(stage: str, what: str, problem: str | None) -> StageVerdict:
    """Returns a verdict on a stage that Python takes over if there is a problem."""
    return StageVerdict(stage, what, problem, Mode.NATIVE if problem is None else Mode.PARTLY_NATIVE)


def _result_obstacle(transform: LoweredTransform) -> str | None:
    """Returns why native code cannot make batches if all steps are native, or None."""
    if not transform.stages:
        return "there is no transform, so the samples are PIL images"
    if transform.form.sample == "pil":
        return "the result is a PIL image (native: with a PILToTensor or ToTensor)"
    if transform.size is None:
        return (
            "the size of the result depends on the image (native: with a CenterCrop, a RandomResizedCrop or a Resize "
            "to height and width)"
        )
    return None


def random_verdict(rng: str, num_workers: int) -> StageVerdict:
    if rng == "sample":
        return StageVerdict("random", "a counter for each sample")
    what = f"torch's numbers for num_workers={num_workers}"
    try:
        uniform_rule()
    except UnknownDrawsError as error:
        return StageVerdict("random", what, str(error), Mode.PYTHON)
    return StageVerdict("random", what)


def decoder() -> str:
    exactness = _pillow.native_jpeg_is_exact()
    return "clean JPEG, others by Pillow" if exactness.is_exact else f"all by Pillow: {exactness.reason}"


def batching_verdicts(loader: DataLoader[Any]) -> list[StageVerdict]:
    sampler = _sampler_name(getattr(loader.batch_sampler, "sampler", loader.sampler))
    if loader.batch_sampler is None:
        verdicts = [StageVerdict("batches", f"sampler {sampler}", "batch_size=None runs in Python", Mode.PARTLY_NATIVE)]
    else:
        verdicts = [StageVerdict("batches", f"{type(loader.batch_sampler).__qualname__} over {sampler}")]
        name = getattr(loader.collate_fn, "__qualname__", type(loader.collate_fn).__qualname__)
        verdicts.append(_partly("collate", name, _collate_obstacle(loader.collate_fn)))
    if loader.worker_init_fn is not None and loader.num_workers > 0:
        verdicts.append(_init_fn_verdict(loader))
    return verdicts


def _sampler_name(sampler: object) -> str:
    name = type(sampler).__qualname__
    if not isinstance(sampler, ShardedSampler):
        return name
    blocks = blocks_text(sampler)
    return f"{name}, rank {sampler.rank} of {sampler.num_replicas}{f'; {blocks}' if blocks else ''}"


def _init_fn_verdict(loader: DataLoader[Any]) -> StageVerdict:
    if uses_dataset(loader.worker_init_fn, loader.dataset):
        reason = "it may change the dataset of its worker"
        return StageVerdict("workers", "worker_init_fn", reason, Mode.PYTHON)
    return StageVerdict("workers", "worker_init_fn, called for each")


def _collate_obstacle(collate_fn: object) -> str | None:
    """Returns why `collate_fn` does not make native batches, or None."""
    if collate_fn is not default_collate:
        return "only default_collate is native"
    for kind, function in collate.default_collate_fn_map.items():
        is_torchs = getattr(function, "__module__", None) == collate.__name__
        if not is_torchs and any(issubclass(part, kind) for part in (tuple, torch.Tensor, int)):
            return f"default_collate_fn_map has a function of another module for {kind}"
    return None


# Two processes were 1.6 to 1.8 times as fast as two threads if these found the GIL held more often than this. In some
# runs they were only as fast with the GIL held just as often: docs/environments.md.
_BUSY_GIL_SHARE = 0.5
_ENOUGH_GIL_CHECKS = 10


def gil_advice(stats: LoaderStats) -> str | None:
    """Returns a row of explain() on the GIL if threads waited for one another; otherwise None."""
    if stats.gil_checks < _ENOUGH_GIL_CHECKS or stats.gil_held_share < _BUSY_GIL_SHARE:
        return None
    return (
        f"{'GIL':<10} held {stats.gil_held_share:.0%} of the time: the dataset's own Python keeps threads from running "
        "in parallel. workers='processes' is faster on processors that are free; or move its work into functions that "
        "release the GIL (NumPy, PIL, torch, zlib, reading files), or into native transforms"
    )
