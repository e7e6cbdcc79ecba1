"""at(state=, step=): the batches before `step` change nothing, whether they are loaded and dropped or passed over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from image_folders import synthetic_image
from resumed_runs import BATCH_SIZE, Case, program_bytes, seed_program, set_epoch
from torch.utils.data import DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload


@pytest.fixture(scope="module")
def motley(folder: Path, mixed_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a folder of clean files, all kinds that Pillow decodes, late headers, and files with a bad header."""
    root = tmp_path_factory.mktemp("motley")
    shutil.copytree(folder, root / "clean")
    shutil.copytree(mixed_folder, root / "mixed")
    far = root / "far"
    far.mkdir()
    for number, length in enumerate((3000, 5000, 30_000, 64_000)):
        exif = b"Exif\0\0" + b"MM\0*\0\0\0\x08\0\0" + bytes(length)
        synthetic_image(number, 120 + number, 90).save(far / f"{number}.jpg", exif=exif, icc_profile=bytes(20 * length))
    for number, contents in enumerate((b"no image", b"", b"\xff\xd8\xff")):
        (far / f"{number}_fails.jpg").write_bytes(contents)
    (far / "absent.jpg").symlink_to("nowhere")
    return root


def cropped(height: int, width: int) -> Any:
    """Returns a transform for which some images are too small."""
    steps = [transforms.RandomCrop((height, width)), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
    return transforms.Compose(steps)


def jittered() -> Any:
    jitter = transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)
    return transforms.Compose([jitter, transforms.RandomResizedCrop(16), transforms.ToTensor()])


TRANSFORMS: dict[str, Callable[[], Any]] = {
    "training": lambda: recipes.training(32),
    "too small": lambda: cropped(100, 100),
    "views": lambda: fastload.MultiView([recipes.training(32), recipes.training(16), cropped(20, 30)]),
    "jitter": jittered,
    "no draws": lambda: recipes.evaluation(40, 32),
}
SAMPLERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "shuffle": lambda _: {"shuffle": True},
    "in order": lambda _: {},
    "replacement": lambda dataset: {"sampler": torch.utils.data.RandomSampler(dataset, True, 30)},
    "distributed": lambda dataset: {"sampler": DistributedSampler(dataset, 2, 1, seed=4)},
    "sharded": lambda dataset: {"sampler": fastload.ShardedSampler(dataset, num_replicas=2, rank=1, seed=4)},
}


def loader_of(root: Path, transform: str, sampler: str, **arguments: Any) -> Any:
    dataset = ImageFolder(str(root), TRANSFORMS[transform](), is_valid_file=lambda _: True)
    loader = fastload.DataLoader(dataset, BATCH_SIZE, **SAMPLERS[sampler](dataset), **arguments)
    assert loader.explain().is_native, loader.explain()
    return loader


@pytest.mark.parametrize("rng", ["torch", "sample"])
@pytest.mark.parametrize("sampler", ["random", "random with two generators", "distributed", "sequential"])
def test_skipped_batches_change_nothing(sampler: str, rng: str, folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "some"
    shutil.copytree(folder, root)
    case = Case(sampler=sampler, num_workers=2, rng=rng)
    loader = case.make_loader(root)
    set_epoch(loader, 1)
    iterator = iter(loader)
    state = loader.state_dict()
    batches = [(images, iterator.batch_report()) for images, _ in iterator]
    before = program_bytes()
    for step in range(len(batches)):
        part = loader.at(state=state, step=step)
        taken = iter(part)
        images, _ = next(taken)
        assert torch.equal(images, batches[step][0])
        assert taken.batch_report() == batches[step][1]
        assert len(part) == len(batches) - step
    assert program_bytes() == before
    if rng == "torch":
        return
    last = {report.path for report in batches[-1][1]}
    for path in root.rglob("*.JPEG"):  # with rng="sample" no other file is read
        if str(path) not in last:
            path.unlink()
    assert torch.equal(next(iter(loader.at(state=state, step=len(batches) - 1)))[0], batches[-1][0])


def test_skipped_batches_are_not_copied_to_the_device_nor_transformed_there(folder: Path) -> None:
    seen: list[int] = []

    def transform(batch: Any) -> Any:
        seen.append(len(batch[1]))
        return batch

    loader = loader_of(folder, "training", "shuffle", num_workers=2, device_transform=transform)
    iterator = iter(loader)
    state = loader.state_dict()
    batches = [images for images, _ in iterator]
    seen.clear()
    part = [images for images, _ in loader.at(state=state, step=5)]
    assert len(seen) == len(part)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(part, batches[5:], strict=True))


def test_batches_behind_failed_files_are_those_of_their_epoch(motley: Path) -> None:
    for num_workers in (1, 3):
        loader = loader_of(motley, "too small", "shuffle", num_workers=num_workers)
        iterator = iter(loader)
        state = loader.state_dict()
        outcomes = [outcome_of(iterator) for _ in range(len(loader))]
        assert 1 < outcomes.count(None) < len(loader) - 3
        for step in range(0, len(loader), 3):
            part = iter(loader.at(state=state, step=step))
            for expected in outcomes[step : step + 2]:
                found = outcome_of(part)
                assert (found is None) == (expected is None)
                assert expected is None or torch.equal(found, expected)


def outcome_of(iterator: Any) -> Any:
    try:
        return next(iterator)[0]
    except fastload.SampleError:
        return None


@pytest.mark.filterwarnings("ignore:num_workers=0")
def test_without_workers_skipped_batches_draw_from_the_programs_generator(folder: Path) -> None:
    loader = loader_of(folder, "training", "in order")
    seed_program(1)
    iterator = iter(loader)
    next(iterator)
    state, program = loader.state_dict(), torch.get_rng_state()
    batches = list(iterator)
    torch.set_rng_state(program)
    part = list(loader.at(state=state, step=4))
    assert all(torch.equal(ours[0], theirs[0]) for ours, theirs in zip(part, batches[3:], strict=True))


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_of_the_epoch_behind_a_state_are_skipped_too(persistent: bool, folder: Path) -> None:
    case = Case(sampler="random with generator", persistent_workers=persistent)
    loader = case.make_loader(folder)
    list(loader)
    state = loader.state_dict()
    part = loader.at(state=state, step=3)
    expected = [images for images, _ in loader][3:]
    for _ in range(2):
        assert all(torch.equal(images, wanted) for (images, _), wanted in zip(part, expected, strict=True))


def reseed(worker: int) -> None:
    torch.manual_seed(100 + worker)


@pytest.mark.filterwarnings("ignore:the order resumes where it was")
@pytest.mark.parametrize("init_fn", [None, reseed])
def test_skipped_batches_of_a_moved_state_draw_anew_as_loaded_ones(init_fn: Any, folder: Path) -> None:
    loader = Case(sampler="sequential").make_loader(folder, worker_init_fn=init_fn)
    iterator = iter(loader)
    next(iterator)
    moved = {**loader.state_dict(), "_num_yielded": 2, "_sampler_iter_yielded": 2}  # by a framework
    loaded = [images for images, _ in loader.at(state=moved)]
    skipped = [images for images, _ in loader.at(state=moved, step=5)]
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(skipped, loaded[3:], strict=True))


def test_a_batch_that_the_sampler_spoils_has_its_error(folder: Path) -> None:
    dataset = ImageFolder(str(folder), recipes.training(16))
    for batches, error in (([[0], [1, 99]], IndexError), ([[0], []], IndexError), ([[0], [1, "a"]], TypeError)):
        loader = fastload.DataLoader(dataset, batch_sampler=batches, rng="sample", seed=1)
        with pytest.raises(error):
            next(iter(loader.at(0, 1)))


def test_a_sample_of_a_state_before_its_epoch_is_refused(folder: Path) -> None:
    loader = loader_of(folder, "training", "in order", num_workers=2)
    with pytest.raises(ValueError, match=r"before the start of epoch 0.*after iter\(\)"):
        loader.replay(1, state=loader.state_dict())


def test_states_of_another_number_of_workers_are_refused(folder: Path) -> None:
    loader = loader_of(folder, "training", "in order", num_workers=2)
    next(iter(loader))
    other = loader_of(folder, "training", "in order", num_workers=1)
    for call in (
        lambda: iter(other.at(state=loader.state_dict(), step=3)),
        lambda: other.replay(9, state=loader.state_dict()),
    ):
        with pytest.raises(fastload.StateError, match=r"fastload\.num_workers.*is 2, and this loader has 1"):
            call()
