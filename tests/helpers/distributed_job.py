"""The program of each rank in the tests under torchrun: `distributed_job.py FOLDER OUTPUT PART...` writes
OUTPUT/RANK.json.

Every part runs with torch's loader and with fastload's and reports its samples; the tests compare.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed
import torchvision_shim  # noqa: F401
from bad_folders import ByHand
from framework_recipes import (
    Drawing,
    Recording,
    collate_as_dict,
    digest,
    lightning_checkpoints,
    lightning_module,
    run_recipe,
    training_arguments,
)
from recipes import evaluation, numbered_images, training
from torch.utils.data import DistributedSampler
from torchvision.datasets import ImageFolder

import fastload

EPOCHS = 3


def epochs_of(loader: Any, sampler: DistributedSampler[Any]) -> list[Any]:
    epochs = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        epochs.append([[digest(images), labels.tolist()] for images, labels in loader])
    return epochs


def bad_samples(folder: str) -> dict[str, Any]:
    """Returns the same for a folder with missing and bad files that others replace, and the ledger's entries."""
    dataset = numbered_images(folder, training(32))
    for index, (path, _) in enumerate(dataset.samples):
        if index % 5 == 1:
            dataset.samples[index] = (f"{path}.gone" if index % 2 else __file__, index)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as ledgers:
        arguments = {"batch_size": 3, "num_workers": 2}
        for name in ("torch", "fastload"):
            torch.manual_seed(torch.distributed.get_rank())
            sampler = DistributedSampler(dataset, seed=5)
            if name == "torch":
                loader = torch.utils.data.DataLoader(ByHand(dataset, None), sampler=sampler, **arguments)
            else:
                bad: dict[str, Any] = {"on_error": "replace", "max_errors": 1, "ledger": f"{ledgers}/bad.jsonl"}
                loader = fastload.DataLoader(dataset, sampler=sampler, **arguments, **bad)
            result[name] = epochs_of(loader, sampler)
        (ledger,) = Path(ledgers).iterdir()
        result["ledger"] = [json.loads(line) for line in ledger.read_text().splitlines()]
        result["ledger's name"] = ledger.name
    result["bad"] = list(range(1, len(dataset), 5))
    return result


class RankStrided(torch.utils.data.Sampler[int]):
    """A user's own sharding."""

    def __iter__(self) -> Any:
        return iter(range(torch.distributed.get_rank(), 13, torch.distributed.get_world_size()))


def loaders(folder: str) -> dict[str, Any]:
    """Returns digests and indices of all epochs of one loader of each kind over native images that draw."""
    result: dict[str, Any] = {}
    for name, kind in (("torch", torch.utils.data.DataLoader), ("fastload", fastload.DataLoader)):
        dataset = numbered_images(folder, training(32))
        for drop_last in (False, True):
            torch.manual_seed(torch.distributed.get_rank())
            sampler = DistributedSampler(dataset, seed=5, drop_last=drop_last)
            loader = kind(dataset, batch_size=3, sampler=sampler, num_workers=2)
            result[f"{name} {drop_last}"] = epochs_of(loader, sampler)
            if isinstance(loader, fastload.DataLoader):
                result[f"native {drop_last}"] = loader.stats().samples_native
    return result


def processors(folder: str) -> list[int]:
    """Returns the number of threads that "auto" gives this rank of 16 processors, and a program without ranks."""
    os.sched_getaffinity = lambda process: set(range(16))
    with_ranks = fastload.DataLoader(Drawing(13), num_workers="auto").num_workers
    told = os.environ.pop("LOCAL_WORLD_SIZE")
    alone = fastload.DataLoader(Drawing(13), num_workers="auto").num_workers
    os.environ["LOCAL_WORLD_SIZE"] = told
    return [with_ranks, alone]


def warned(folder: str) -> list[list[str]]:
    """Returns the warnings of iterating over sharded loaders, then over unsharded ones, one after the other."""
    dataset = Drawing(13)
    arguments: list[dict[str, Any]] = [
        {"sampler": DistributedSampler(dataset)},
        {"batch_sampler": [[0], [1]]},
        {"sampler": RankStrided()},
        {},
        {"shuffle": True},
        {"num_workers": 1},
    ]
    texts = []
    for given in arguments:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(fastload.DataLoader(dataset, **given))
        texts.append([str(warning.message) for warning in caught if "process group" in str(warning.message)])
    return texts


# The resume point of four ranks that have taken one batch of two in epoch 1.
STOPPED = {"epoch": 1, "position": 8, "length": 14, "seed": 5}
BLOCKS = {"block_size": 3, "window_blocks": 2, "canonical_nodes": 4}


def elastic(folder: str, blocks: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
    """Returns a rank's samples until it is stopped, when 8 are dealt to all, and its samples when it resumes from
    STOPPED, whichever ranks stopped there: samples as (index, digest), and the states. Two ranks are two nodes."""
    dataset = numbered_images(folder, training(32))

    def samples(batches: Any) -> list[Any]:
        return [[int(label), digest(image)] for batch in batches for image, label in zip(*batch, strict=True)]

    def loader_of(sampler: fastload.ShardedSampler) -> Any:
        size = 8 // sampler.num_replicas
        loader = fastload.DataLoader(dataset, size, sampler=sampler, num_workers=2, rng="sample", seed=3)
        loader.set_epoch(1)
        return loader

    nodes: Any = {"nodes": 2} if blocks and os.environ["WORLD_SIZE"] == "2" else {}  # else as torchrun tells
    stopped, resumed = (fastload.ShardedSampler(dataset, seed=5, **blocks, **nodes) for _ in range(2))
    stopped.set_epoch(1)
    iterator = iter(loader_of(stopped))
    before = samples([next(iterator)])
    state = stopped.state_at(1, 8 // stopped.num_replicas)
    del iterator
    resumed.load_state_dict({**STOPPED, **blocks})
    loader = loader_of(resumed)
    after = samples(loader)
    real = [loader.real_in(step) for step in range(1, len(loader))]
    told = {"before": before, "state": state, "after": after, "num_real": resumed.num_real, "real": real}
    return {**told, "node": resumed.node}


def left_alone_by_lightning(folder: str) -> dict[str, Any]:
    """Labels of two epochs under Lightning's Trainer and under Fabric, of a loader with a ShardedSampler."""
    import lightning

    dataset = numbered_images(folder, training(32))
    result: dict[str, Any] = {}

    def loader_of() -> Any:
        sampler = fastload.ShardedSampler(dataset, seed=5)
        return fastload.DataLoader(dataset, batch_size=3, sampler=sampler, num_workers=2)

    loader, module = loader_of(), lightning_module()
    trainer = lightning.Trainer(max_epochs=2, **of_lightning(Recording())["options"])
    trainer.fit(module, loader)
    result["trainer"] = module.labels
    result["same"] = trainer.train_dataloader.sampler is loader.sampler
    fabric = lightning.Fabric(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp")
    fabric.launch()
    prepared = fabric.setup_dataloaders(loader_of())
    result["fabric"] = []
    for epoch in range(2):
        prepared.sampler.set_epoch(epoch)
        result["fabric"] += [labels.tolist() for _, labels in prepared]
    return result


def dealt_twice_by_accelerate(folder: str) -> dict[str, Any]:
    """Returns a rank's samples of a loader with a ShardedSampler, prepared by Accelerate and not; and warnings."""
    import accelerate

    dataset = numbered_images(folder, evaluation(40, 32))
    accelerator = accelerate.Accelerator(cpu=True)
    result: dict[str, Any] = {}
    for name in ("prepared", "kept out"):
        sampler = fastload.ShardedSampler(dataset, seed=5)
        loader: Any = fastload.DataLoader(dataset, batch_size=2, sampler=sampler, num_workers=1)
        with fastload.patch_torch(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loader = accelerator.prepare(loader) if name == "prepared" else loader
            labels = [labels.tolist() for _, labels in loader]
        texts = [str(warning.message) for warning in caught if "sharded twice" in str(warning.message)]
        result[name] = {"labels": labels, "warned": texts}
    return result


def recipe_of(title: str, names: Callable[[Any], dict[str, Any]], loader_of: Callable[[Any], Any]) -> Any:
    """Returns a part that runs a recipe on native images."""

    def part(folder: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for with_torch in (True, False):
            torch.manual_seed(0)
            dataset = ImageFolder(folder, evaluation(40, 32))
            left = run_recipe(title, {"dataset": dataset, **names(left_model := Recording())}, with_torch=with_torch)
            model = getattr(left["model"], "inner", left_model)
            result["torch" if with_torch else "fastload"] = model.seen
        stats = loader_of(left).stats()
        result["native"] = stats.samples_native
        result["images"] = stats.samples
        return result

    return part


class Numbers(torch.utils.data.IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(13))


SETTINGS: dict[str, dict[str, Any]] = {
    "even": {},
    "not even": {"even_batches": False},
    "split": {"split_batches": True},
    "seedable": {"use_seedable_sampler": True},
    "dispatched": {"dispatch_batches": True},
    "dispatched and split": {"dispatch_batches": True, "split_batches": True},
}


def accelerates_ways(folder: str) -> dict[str, Any]:
    """Runs a prepared loader twice and once without a batch, with each setting, over images and a stream."""
    import accelerate
    from accelerate.data_loader import prepare_data_loader

    accelerate.Accelerator(cpu=True)
    result: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        for source in ("images", "stream"):
            if (name, source) == ("not even", "stream"):  # it is of batch samplers only
                continue
            told: dict[str, Any] = {}
            for kind in (torch.utils.data.DataLoader, fastload.DataLoader):
                torch.manual_seed(0)
                is_mine = kind is fastload.DataLoader
                dataset = Numbers() if source == "stream" else numbered_images(folder, evaluation(40, 32))
                loader = kind(dataset, batch_size=4, shuffle=None if source == "stream" else True, num_workers=1)
                # By default Accelerate dispatches streams.
                ways = {"dispatch_batches": False, **setting}
                with fastload.patch_torch() if is_mine else contextlib.nullcontext():
                    prepared = prepare_data_loader(loader, torch.device("cpu"), put_on_device=True, **ways)
                    skipping = accelerate.skip_first_batches(prepared, 1)
                passes = [[as_told(batch) for batch in each] for each in (prepared, prepared, skipping)]
                told["fastload" if is_mine else "torch"] = passes
            stats = prepared.stats()
            told.update(batches=stats.batches_delivered, native=stats.samples_native, by_python=stats.samples_python)
            result[f"{name}, {source}"] = told
    return result


def as_told(batch: Any) -> Any:
    return batch.tolist() if isinstance(batch, torch.Tensor) else [digest(batch[0]), batch[1].tolist()]


def with_optimizer(model: Recording) -> dict[str, Any]:
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), 0.1), "options": {"cpu": True}}


def of_lightning(model: Recording) -> dict[str, Any]:
    options = {"strategy": "ddp", "devices": int(os.environ["WORLD_SIZE"]), "accelerator": "cpu", "logger": False}
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return {"model": lightning_module(), "options": {**options, **quiet}}


def of_trainer(model: Recording) -> dict[str, Any]:
    arguments = training_arguments(tempfile.mkdtemp(), num_train_epochs=2, ddp_backend="gloo")
    return {"model": model, "arguments": arguments, "collate": collate_as_dict}


def resumed_by_lightning(folder: str) -> dict[str, Any]:
    """Returns the batches of a whole run of Lightning, and of new runs that resume from its checkpoints."""
    shared = [tempfile.mkdtemp()]
    torch.distributed.broadcast_object_list(shared)  # rank 0 writes the checkpoints

    def seen(checkpoint: str | None) -> list[str]:
        names = of_lightning(Recording())
        if checkpoint is None:
            names["options"]["enable_checkpointing"] = True
            names["options"]["callbacks"] = lightning_checkpoints(shared[0])
        names["checkpoint"] = None if checkpoint is None else str(Path(shared[0], f"{checkpoint}.ckpt"))
        run_recipe("Resuming Lightning", {"dataset": ImageFolder(folder, training(32)), **names})
        return list(names["model"].inner.seen)

    return {str(checkpoint): seen(checkpoint) for checkpoint in (None, "1", "2", "3", "end 0")}


PARTS: dict[str, Callable[[str], Any]] = {
    "loaders": loaders,
    "bad samples": bad_samples,
    "processors": processors,
    "warned": warned,
    "elastic": elastic,
    "elastic in blocks": functools.partial(elastic, blocks=BLOCKS),
    "Lightning's treatment": left_alone_by_lightning,
    "Lightning's checkpoints": resumed_by_lightning,
    "Accelerate's treatment": dealt_twice_by_accelerate,
    "DistributedDataParallel": recipe_of("DistributedDataParallel", with_optimizer, lambda names: names["loader"]),
    "Accelerate's ways": accelerates_ways,
    "Lightning": recipe_of("Lightning", of_lightning, lambda names: names["trainer"].train_dataloader),
    "Accelerate": recipe_of("Accelerate", with_optimizer, lambda names: names["loader"]),
    "Hugging Face Trainer": recipe_of(
        "Hugging Face Trainer", of_trainer, lambda names: names["trainer"].callback_handler.train_dataloader
    ),
}


def main(folder: str, output: str, *parts: str) -> None:
    faulthandler.dump_traceback_later(140, exit=True)  # no process outlives a test that was given up
    torch.distributed.init_process_group("gloo")
    results = {}
    for part in parts:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results[part] = PARTS[part](folder)
        if part != "warned":
            alarms = [str(warning.message) for warning in caught if "process group" in str(warning.message)]
            assert not alarms, (part, alarms)
    Path(output, f"{torch.distributed.get_rank()}.json").write_text(json.dumps(results))
    torch.distributed.barrier()
    time.sleep(1)  # gloo's thread lets go of its last work, for which it needs the GIL
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
