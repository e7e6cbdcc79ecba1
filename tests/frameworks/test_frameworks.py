"""Lightning, Accelerate, the Hugging Face Trainer and timm load with fastload what they load with torch's loader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from framework_recipes import (
    NUM_IMAGES,
    Drawing,
    Recording,
    collate_as_dict,
    digest,
    lightning_module,
    run_recipe,
    training_arguments,
)
from torchvision.datasets import ImageFolder

import fastload

EPOCHS = 2


@pytest.fixture(params=["images", "in Python"])
def dataset(request: pytest.FixtureRequest) -> Any:
    """Returns a data set that loads natively, or one that does not; both draw."""
    if request.param == "in Python":
        return Drawing(13)
    return ImageFolder(str(request.getfixturevalue("folder")), recipes.training(32))


def assert_loaded_by_fastload(loader: Any, dataset: Any, *, num_passes: int) -> None:
    stats = loader.stats()
    is_native = isinstance(dataset, ImageFolder)
    # With persistent workers the next pass of an evaluation begins ahead.
    ahead = NUM_IMAGES if is_native and loader.persistent_workers else 0
    assert 0 <= stats.samples_native - (NUM_IMAGES * num_passes if is_native else 0) <= ahead
    assert stats.samples_python == (0 if is_native else len(dataset) * num_passes)
    assert stats.batches_delivered == -(-len(dataset) // 4) * num_passes


def twice(title: str, names: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the names a recipe leaves with fastload and with torch's loader; `names` makes its first names."""
    results = []
    for with_torch in (False, True):
        torch.manual_seed(0)
        results.append(run_recipe(title, names(), with_torch=with_torch))
    return results[0], results[1]


@pytest.mark.smoke
def test_lightning_trains_on_the_batches_of_torchs_loader(dataset: Any) -> None:
    pytest.importorskip("lightning")
    mine, theirs = twice("Lightning", lambda: {"dataset": dataset, "model": lightning_module(), "options": LIGHTNING})
    assert mine["model"].inner.seen == theirs["model"].inner.seen
    assert len(mine["model"].inner.seen) == EPOCHS * 4
    assert_loaded_by_fastload(mine["trainer"].train_dataloader, dataset, num_passes=EPOCHS)


LIGHTNING = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def test_lightning_makes_a_loader_anew_with_every_argument() -> None:
    pytest.importorskip("lightning")
    from lightning.fabric.utilities.data import _update_dataloader as update_for_fabric
    from lightning.pytorch.trainer.states import RunningStage
    from lightning.pytorch.utilities.data import _update_dataloader

    arguments = {
        "batch_size": 3,
        "num_workers": 2,
        "collate_fn": list,
        "timeout": 9.0,
        "generator": torch.Generator(),
        "multiprocessing_context": "spawn",
        "prefetch_factor": 3,
        "persistent_workers": True,
        "in_order": False,
        "native_images": False,
        "rng": "sample",
        "seed": 5,
        "memory_format": torch.contiguous_format,
    }
    loader = fastload.DataLoader(Drawing(13), shuffle=True, **arguments)
    sampler = torch.utils.data.DistributedSampler(loader.dataset, num_replicas=2, rank=1)
    for again in (_update_dataloader(loader, sampler), update_for_fabric(loader, sampler)):
        assert type(again) is fastload.DataLoader
        assert again.sampler is sampler
        for name in arguments:
            same = getattr(again, name), getattr(loader, name)
            assert type(same[0]) is type(same[1])
            assert name == "multiprocessing_context" or same[0] == same[1]
    predicting = _update_dataloader(loader, sampler, RunningStage.PREDICTING)
    assert type(predicting) is fastload.DataLoader
    assert [index for batch in predicting.batch_sampler for index in batch] == list(sampler)


def test_lightning_makes_a_loader_of_a_hook_anew_also_under_the_patch(folder: Path) -> None:
    pytest.importorskip("lightning")
    from lightning.fabric.utilities.data import _replace_dunder_methods
    from lightning.pytorch.utilities.data import _update_dataloader

    dataset = ImageFolder(str(folder), recipes.evaluation(40, 32))
    with _replace_dunder_methods(torch.utils.data.DataLoader, "dataset"), fastload.patch_torch():
        loader = torch.utils.data.DataLoader(dataset, 4, num_workers=1)
    again = _update_dataloader(loader, torch.utils.data.SequentialSampler(dataset))
    assert type(again) is fastload.DataLoader
    assert recipes.bytes_of(again) == recipes.bytes_of(torch.utils.data.DataLoader(dataset, 4))
    assert again.stats().samples_native == NUM_IMAGES


def test_accelerate_trains_on_the_batches_of_torchs_loader(dataset: Any) -> None:
    pytest.importorskip("accelerate")
    mine, theirs = twice("Accelerate", lambda: {"dataset": dataset, "options": {"cpu": True}, **model_and_optimizer()})
    assert mine["model"].seen == theirs["model"].seen
    assert len(mine["model"].seen) == EPOCHS * 4
    assert_loaded_by_fastload(mine["loader"], dataset, num_passes=EPOCHS)


def model_and_optimizer() -> dict[str, Any]:
    model = Recording()
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), 0.1)}


def test_accelerate_makes_torchs_loader_of_fastloads_where_there_is_no_patch(dataset: Any) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    loader = fastload.DataLoader(dataset, native_images=False, num_workers="auto")
    assert type(accelerator.prepare(loader).base_dataloader) is torch.utils.data.DataLoader
    with fastload.patch_torch():
        prepared = accelerator.prepare(loader)
    assert type(prepared.base_dataloader) is fastload.DataLoader
    assert prepared.num_workers == loader.num_workers
    assert prepared.native_images  # torch's arguments only go over


def test_trainer_trains_and_evaluates_on_the_batches_of_torchs_loader(dataset: Any, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    if not transformers.utils.is_torch_available():
        pytest.skip(f"this transformers takes no torch {torch.__version__}")
    more = {"num_train_epochs": EPOCHS, "per_device_eval_batch_size": 4, "dataloader_num_workers": 2}

    def names() -> dict[str, Any]:
        return {
            "dataset": dataset,
            "model": Recording(),
            "arguments": training_arguments(str(tmp_path), **more),
            "collate": collate_as_dict,
        }

    mine, theirs = twice("Hugging Face Trainer", names)
    assert_loaded_by_fastload(mine["trainer"].callback_handler.train_dataloader, dataset, num_passes=EPOCHS)
    torch.manual_seed(1)
    with fastload.patch_torch():
        mine["trainer"].evaluate(dataset)
    torch.manual_seed(1)
    theirs["trainer"].evaluate(dataset)
    assert_loaded_by_fastload(mine["trainer"].callback_handler.eval_dataloader, dataset, num_passes=1)
    assert mine["model"].seen == theirs["model"].seen
    assert len(mine["model"].seen) == EPOCHS * 4 + 4


@pytest.mark.parametrize("kind", ["torchvision's ImageFolder", "timm's ImageDataset"])
@pytest.mark.parametrize("use_prefetcher", [True, False])
def test_timm_evaluates_on_the_batches_of_torchs_loader(folder: Path, kind: str, use_prefetcher: bool) -> None:
    timm_data = pytest.importorskip("timm.data")
    make = ImageFolder if kind == "torchvision's ImageFolder" else timm_data.ImageDataset
    options = {"use_prefetcher": use_prefetcher, "device": torch.device("cpu")}
    mine, theirs = twice("timm", lambda: {"dataset": make(str(folder)), "model": Recording(), "options": options})
    assert mine["model"].seen == theirs["model"].seen
    assert len(mine["model"].seen) == 4
    loader = mine["loader"].loader if use_prefetcher else mine["loader"]
    assert_loaded_by_fastload(loader, mine["dataset"], num_passes=1)


def test_timms_own_class_of_loaders_is_fastloads(folder: Path) -> None:
    timm_data = pytest.importorskip("timm.data")

    def batches_of(loader: Any) -> list[str]:
        return [digest(images) for _ in range(EPOCHS) for images, _ in loader]

    def make() -> Any:
        return timm_data.create_loader(
            ImageFolder(str(folder)), 32, 4, use_prefetcher=False, num_workers=2, use_multi_epochs_loader=True
        )

    expected = batches_of(make())
    with fastload.patch_torch():
        loader = make()
    assert batches_of(loader) == expected
    assert type(loader).__name__ == "MultiEpochsDataLoader"
    assert isinstance(loader, fastload.DataLoader)
