"""The measurements of `benchmarks.many_cores`, each in a process of its own."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset

from benchmarks._gpu_training import make_model, training_step
from benchmarks._gpu_turns import take_turn
from benchmarks._harness import interleave
from benchmarks._process_tree import cpu_seconds, process_tree
from benchmarks._turns import Figures, Rounds, add_batch, new_loader
from benchmarks._user_datasets import PATTERNS, Files, FunctionalCalls, ListOfFiles, TwoCrops, train_transform

NUM_CLASSES = 1000
_BATCH_SIZE, _BATCH_SIZE_OF_TRAINING = 32, 256
_NUM_COMPARED = 32  # batches
_SMALL_SIZE, _NUM_SMALL = 32, 256
_WARM_STEPS_PER_WORKER = 2
_PROBE_STEPS = 10
_PR_SET_TIMERSLACK = 29


def timed_epoch(loader: Any) -> Figures:
    """Returns the speed of an epoch, and the CPU time of all processes and of this one."""
    pid = os.getpid()
    cpu_begin, own_begin, begin = cpu_seconds(pid), time.process_time(), time.perf_counter()
    num_samples = sum(len(tree_leaves(batch)[0]) for batch in loader)
    seconds, own = time.perf_counter() - begin, time.process_time() - own_begin
    return {
        "samples_per_second": num_samples / seconds,
        "cpu_ms_per_sample": 1000 * (cpu_seconds(pid) - cpu_begin) / num_samples,
        "own_ms_per_sample": 1000 * own / num_samples,
    }


def _digest(loader: Any) -> str:
    """Returns a checksum of the first batches of an epoch, all of which is taken."""
    torch.manual_seed(1)
    digest = hashlib.sha256()
    for number, batch in enumerate(loader):
        if number < _NUM_COMPARED:
            add_batch(digest, batch)
    return digest.hexdigest()


def _open(name: str, dataset: Any, workers: int, batch_size: int = _BATCH_SIZE, **keywords: Any) -> Any:
    return new_loader(name, dataset, batch_size, shuffle=True, num_workers=workers, persistent_workers=True, **keywords)


def _close(loaders: Mapping[str, Any]) -> None:
    for loader in loaders.values():
        if hasattr(loader, "close"):
            loader.close()


# ---- measured --------------------------------------------------------------------------------------------------------


def measure_turns(
    make: Callable[[], Any], loaders: Sequence[str], workers: int, num_rounds: int, seconds: float
) -> Rounds:
    """Returns the rounds of each loader, taking turns; or checksums alone if the batches differ.

    Args:
        seconds: no round begins that would end later, except for the first.
    """
    begin = time.perf_counter()
    dataset = make()
    opened: dict[str, Any] = {}
    known: dict[str, Figures] = {}
    for name in loaders:
        before = set(process_tree(os.getpid()))
        opened[name] = _open(name, dataset, workers)
        digest = _digest(opened[name])
        num_processes = 1 + len(set(process_tree(os.getpid())) - before)
        known[name] = {"workers": workers, "processes": num_processes, "sha256": digest}
    if len({figures["sha256"] for figures in known.values()}) > 1:
        return {name: [figures] for name, figures in known.items()}
    rounds: Rounds = {name: [] for name in loaders}
    for _ in range(num_rounds):
        begin_of_round = time.perf_counter()
        for name, loader in opened.items():
            rounds[name].append({**timed_epoch(loader), **known[name]})
        now = time.perf_counter()
        if now + (now - begin_of_round) > begin + seconds:
            break
    _close(opened)
    return rounds


def measure_training(
    make: Callable[[int], Any],
    machine: Any,
    model: str,
    loaders: Sequence[str],
    workers: int,
    num_rounds: int,
    seconds: float,
) -> Rounds:
    """Returns the rounds of each loader beside a training on the machine's device.

    Args:
        make: makes the data set, given its number of samples.
        machine: a `_gpu_training.Machine`.
        model: a name in torchvision.models.
        seconds: time that the model alone takes for a timed stretch.
    """
    step = training_step(make_model(model, NUM_CLASSES), machine.device)
    image = make(1)[0][0]
    batch = torch.stack([image] * _BATCH_SIZE_OF_TRAINING), torch.zeros(_BATCH_SIZE_OF_TRAINING, dtype=torch.int64)
    resident = next(_on_device([batch], machine.device))
    probe = take_turn(machine, itertools.repeat(resident), step, _PROBE_STEPS, _PROBE_STEPS)
    steps = max(_PROBE_STEPS, math.ceil(1000 * seconds * _PROBE_STEPS / probe.milliseconds))
    warm_steps = max(_PROBE_STEPS, _WARM_STEPS_PER_WORKER * workers)
    dataset = make((warm_steps + steps + workers) * _BATCH_SIZE_OF_TRAINING)
    pins = {"pin_memory": machine.device != "cpu"}
    opened = {name: _open(name, dataset, workers, _BATCH_SIZE_OF_TRAINING, **pins) for name in loaders}
    rounds: Rounds = {name: [] for name in loaders}
    for _, name in interleave(loaders, num_rounds):
        batches = _on_device(opened[name], machine.device)
        turn = take_turn(machine, batches, step, warm_steps, steps)
        for _ in batches:  # to the end, so that no loader is at work while another is timed
            pass
        rounds[name].append(
            {
                "samples_per_second": turn.images_per_second,
                "device_wait_share": turn.device_wait_share,
                "host_wait_share": turn.host_wait_share,
                "model_alone": _BATCH_SIZE_OF_TRAINING * _PROBE_STEPS * 1000 / probe.milliseconds,
                "workers": workers,
            }
        )
    _close(opened)
    return rounds


def _on_device(batches: Any, device: str) -> Iterator[Any]:
    for images, labels in batches:
        on_device = images.to(device, memory_format=torch.channels_last, non_blocking=True)
        yield on_device, labels.to(device, non_blocking=True) % NUM_CLASSES


# ---- simulated -------------------------------------------------------------------------------------------------------

# Data sets whose images can be of any size: paths and the size that an image is cropped to.
SIMULATED: dict[str, Callable[[Sequence[Path], int], Any]] = {
    "list-train": lambda paths, size: ListOfFiles(paths, train_transform(size)),
    "functional": FunctionalCalls,
    "two-crops": lambda paths, size: ListOfFiles(paths, TwoCrops(size)),
}


class Paused(Dataset[Any]):
    """A data set whose samples take some time more, in which no processor and no GIL is held."""

    def __init__(self, dataset: Any, seconds: float) -> None:
        self.dataset, self.seconds = dataset, seconds

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        sample = self.dataset[index]
        time.sleep(self.seconds)
        return sample


def write_small(files: Files) -> None:
    """Writes images so small that native code takes next to no time for them."""
    for number, path in enumerate(files.paths(_NUM_SMALL)):
        with Image.open(path) as image:
            image.convert("RGB").resize((_SMALL_SIZE, _SMALL_SIZE)).save(files.made / f"{number:04d}.jpg")


def measure_cost(name: str, loader: str, files: Files) -> Figures:
    """Returns the figures of an epoch of a pattern with one worker, after one that is compared."""
    opened = _open(loader, PATTERNS[name].make(files), 1)
    digest = _digest(opened)
    return {**timed_epoch(opened), "sha256": digest}


def small_cost(name: str, files: Files) -> Figures:
    """Returns the same for threads and small images: the time of the pattern's Python."""
    opened = _open("threads", _small(name, files, files.num_samples), 1)
    list(opened)
    return timed_epoch(opened)


def measure_paused(name: str, files: Files, workers: Sequence[int], seconds: float) -> Rounds:
    """Returns an epoch with each number of worker threads, with a pause for native work."""
    # Else a pause lasts 50 microseconds longer. Threads inherit it.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
    found: Rounds = {}
    for number in workers:
        loader = _open("threads", Paused(_small(name, files, number * files.num_samples), seconds), number)
        list(loader)
        found[str(number)] = [timed_epoch(loader)]
        loader.close()
    return found


def _small(name: str, files: Files, num_samples: int) -> Any:
    small = Files(files.made, files.made, num_samples)
    return SIMULATED[name](small.paths(), _SMALL_SIZE // 2)
