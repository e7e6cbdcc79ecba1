"""Trains with torch's loader, tuned as its guides say, with fastload's, and on a batch that stays on the device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

import fastload
from benchmarks._compare import ResultsDiffer
from benchmarks._gpu_turns import Clock, Copies, Step, Turn, gigabytes_per_second, take_turn
from benchmarks._harness import Log, interleave
from benchmarks._protocol import LoaderSettings
from benchmarks._torchvision import load_torchvision
from benchmarks.contenders._torch_common import image_folder, open_loader, pil_transform
from fastload._delivery._device import Device

LOADERS = ("torch", "fastload")
RESIDENT = "resident"
"""The batch that lies on the device: what the model could do if loading took no time."""

_COMPARED_BATCHES = 4
_PROBE_STEPS = 10
_COPIED_BATCHES = 8
_COPY_ROUNDS = 15


class Machine(Clock, Protocol):
    """The interface of `_gpu_machine.Gpu`; tests have one without a GPU."""

    @property
    def device(self) -> str: ...
    def staging_device(self) -> Device: ...


@dataclass(frozen=True)
class GpuPlan:
    """The plan of a run.

    Attributes:
        settings: settings of both loaders; the number of images is each stretch's own.
        models: names in torchvision.models.
        rounds: rounds per loader; medians are shown.
        seconds: time that the model alone takes for a timed stretch.
        cache: fastload's argument. With "auto" later rounds find the indexes that earlier ones left.
    """

    settings: LoaderSettings
    models: tuple[str, ...]
    rounds: int
    seconds: float
    cache: str | None

    @property
    def warm_steps(self) -> int:
        """The number of untimed steps: torch's workers make whole batches, so the first ones come in bursts."""
        return max(_PROBE_STEPS, 2 * self.settings.workers)

    def num_batches(self, steps: int) -> int:
        """Returns the length of an epoch in which each worker still has a batch to load when the timed steps end."""
        return self.warm_steps + steps + max(1, self.settings.workers)


@dataclass(frozen=True)
class GpuFindings:
    """All findings of a run.

    Attributes:
        compared_images: number of images that were equal byte for byte.
        batch_bytes: size of a copied batch.
        copies: for each kind the rounds in 10^9 bytes a second.
        alone: for each loader the rounds without a model.
        training: for each model, for each loader and RESIDENT, the rounds.
    """

    compared_images: int
    batch_bytes: int
    copies: dict[str, list[float]]
    alone: dict[str, list[Turn]]
    training: dict[str, dict[str, list[Turn]]]


def measure(machine: Machine, plan: GpuPlan, log: Log) -> GpuFindings:
    """Measures everything in the plan. Raises ResultsDiffer before anything is timed if the loaders' batches differ."""
    log("comparing the loaders' batches")
    compared, batch = compare(machine, plan)
    log("copying")
    copies = Copies(machine, machine.staging_device(), plan.settings.batch_size, _COPIED_BATCHES)
    copied = gigabytes_per_second(copies, _COPIED_BATCHES, _COPY_ROUNDS)
    batch_bytes = copies.batch_bytes
    del copies
    log("loading alone")
    alone_steps = max(64, 4 * plan.settings.workers)
    # The first round is not shown: it page-locks memory that later ones reuse.
    rounds = _take_turns(machine, replace(plan, rounds=plan.rounds + 1), lambda *_: None, alone_steps, None)
    alone = {name: turns[1:] for name, turns in rounds.items()}
    num_classes = sum(folder.is_dir() for folder in Path(plan.settings.data).iterdir())
    training = {}
    for name in plan.models:
        log(f"training {name}")
        step = training_step(make_model(name, num_classes), machine.device)
        probe = take_turn(machine, itertools.repeat(batch), step, _PROBE_STEPS, _PROBE_STEPS)
        steps = max(_PROBE_STEPS, math.ceil(1000 * plan.seconds / (probe.milliseconds / _PROBE_STEPS)))
        training[name] = _take_turns(machine, plan, step, steps, batch)
    return GpuFindings(compared, batch_bytes, copied, alone, training)


def compare(machine: Machine, plan: GpuPlan) -> tuple[int, tuple[torch.Tensor, torch.Tensor]]:
    """Returns how many images of both loaders were equal, byte for byte, and a batch of them on the device."""
    settings = replace(plan.settings, image_count=_COMPARED_BATCHES * plan.settings.batch_size)
    batches: dict[str, list[Any]] = {}
    for name, source in _open(machine, settings, plan.cache).items():
        torch.manual_seed(settings.seed)
        batches[name] = list(source.batches())
        source.close()
    found = [[(_bytes(images), labels.tolist()) for images, labels in batches[name]] for name in LOADERS]
    if found[0] != found[1]:
        raise ResultsDiffer("fastload's batches differ from those that torch's DataLoader gives with the same seed")
    return settings.image_count, batches["fastload"][0]


def _bytes(images: torch.Tensor) -> bytes:
    return bytes(images.cpu().contiguous().view(torch.uint8).numpy().data)


def _take_turns(
    machine: Machine, plan: GpuPlan, step: Step, steps: int, resident: tuple[torch.Tensor, torch.Tensor] | None
) -> dict[str, list[Turn]]:
    """Measures the rounds of each loader and, if there is one, of the resident batch, taking turns."""
    image_count = plan.num_batches(steps) * plan.settings.batch_size
    sources = _open(machine, replace(plan.settings, image_count=image_count), plan.cache)
    names = (*sources, RESIDENT) if resident is not None else tuple(sources)
    turns: dict[str, list[Turn]] = {name: [] for name in names}
    for _, name in interleave(names, plan.rounds):
        batches = sources[name].batches() if name in sources else itertools.repeat(resident, plan.num_batches(steps))
        turns[name].append(take_turn(machine, batches, step, plan.warm_steps, steps))
        for _ in batches:  # to the end, so that no loader is at work while another is timed
            pass
    for source in sources.values():
        source.close()
    return turns


# ---- loaders ---------------------------------------------------------------------------------------------------------


class Source:
    """A loader and its user's code to get the batches on the device."""

    def __init__(self, loader: Any, to_device: Callable[[Any], Any]) -> None:
        self._loader = loader
        self._to_device = to_device

    def batches(self) -> Iterator[Any]:
        """Yields an epoch of (images, labels) on the device."""
        return map(self._to_device, self._loader)

    def close(self) -> None:
        """Ends the loader's threads or processes."""
        if isinstance(self._loader, fastload.DataLoader):
            self._loader.close()
        self._loader = None


def _open(machine: Machine, settings: LoaderSettings, cache: str | None) -> Mapping[str, Source]:
    """Opens LOADERS over the same images. torch's comes first, because it forks before fastload has threads."""
    dataset = image_folder(settings, pil_transform("train"))

    def to_device(batch: Any) -> Any:
        images, labels = batch
        on_device = images.to(machine.device, memory_format=torch.channels_last, non_blocking=True)
        return on_device, labels.to(machine.device, non_blocking=True)

    theirs = open_loader(torch.utils.data.DataLoader, dataset, settings, pin_memory=True)
    delivery = {"device": machine.device, "memory_format": torch.channels_last, "cache": cache}
    ours = open_loader(fastload.DataLoader, dataset, settings, **delivery)
    return {"torch": Source(theirs, to_device), "fastload": Source(ours, tuple)}


# ---- models ----------------------------------------------------------------------------------------------------------


def make_model(name: str, num_classes: int) -> torch.nn.Module:
    """Returns torchvision's model of that name with random weights, for ImageNet's classes or more."""
    load_torchvision()
    from torchvision import models

    model: torch.nn.Module = models.get_model(name, weights=None, num_classes=max(1000, num_classes))
    return model


def training_step(model: torch.nn.Module, device: str) -> Step:
    """Returns a step of SGD in bfloat16 autocast and channels_last, as the guides write it."""
    torch.backends.cudnn.benchmark = True
    model = model.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step
