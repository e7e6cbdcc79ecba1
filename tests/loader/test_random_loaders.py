"""Random loaders against torch's DataLoader with its workers: bytes, errors and generators at every step."""

from __future__ import annotations

import errno
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import parity_recipes
import pytest
import torch
from both_loaders import kind_of, on_both
from image_folders import make_mixed_folder, save_jpeg
from PIL import Image
from random_runs import Run, first_difference
from torch.utils.data import ConcatDataset, Subset
from torchvision import transforms as v1
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import fastload
from fastload import MultiView

NUM_CASES = 40


@pytest.fixture(scope="session")
def odd_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes files of every kind, small and large, between some that fail at each stage."""
    return make_odd_folder(tmp_path_factory.mktemp("odd"))


def make_odd_folder(root: Path) -> Path:
    make_mixed_folder(root)
    for number, (width, height) in enumerate([(33, 61), (20, 90), (400, 300), (64, 64), (48, 31), (7, 5)]):
        save_jpeg(root / "sizes" / f"{number}.jpg", 200 + number, width, height, subsampling="4:2:0")
    broken = root / "broken"
    shutil.copytree(root / "sizes", broken)
    paths = sorted(broken.iterdir())
    paths[0].write_bytes(b"not an image")
    paths[1].write_bytes(paths[1].read_bytes()[:-400])
    paths[2].write_bytes(paths[2].read_bytes()[:-3000])
    paths[3].write_bytes(b"")
    with Image.open(root / "sizes" / "2.jpg") as image:
        image.convert("CMYK").save(paths[4], "JPEG")
    paths[4].write_bytes(paths[4].read_bytes()[:-2000])
    paths[5].write_bytes(paths[5].read_bytes()[:100])
    return root


def image_steps(choose: random.Random, family: Any, size: int) -> list[Any]:
    """Returns steps that end in one size."""
    pool = [
        lambda: family.RandomHorizontalFlip(choose.choice([0.0, 0.3, 0.5, 1.0])),
        lambda: family.RandomVerticalFlip(choose.choice([0.0, 0.5, 1.0])),
        lambda: family.RandomRotation(choose.choice([20, (90, 180)]), fill=choose.choice([0, 200])),
        lambda: family.RandomGrayscale(choose.choice([0.0, 0.5, 1.0])),
        lambda: family.ColorJitter(
            choose.choice([0, 0.4]), choose.choice([0, 0.4]), choose.choice([0, 0.4]), choose.choice([0, 0.1])
        ),
        lambda: family.RandomApply([family.RandomHorizontalFlip(), family.RandomSolarize(128)], choose.random()),
        lambda: family.RandomPosterize(3),
        lambda: family.RandomAutocontrast(),
        lambda: family.RandomEqualize(),
        lambda: family.Pad(choose.randrange(4)),
    ]
    sizes = [
        lambda: family.RandomResizedCrop(size, scale=(choose.uniform(0.05, 0.9), 1.0)),
        lambda: family.RandomResizedCrop(size, interpolation=v1.InterpolationMode.BICUBIC),
        lambda: family.Compose([family.Resize(size + 4), family.RandomCrop(size)]),
        lambda: family.RandomCrop(size, padding=choose.choice([None, 3]), pad_if_needed=choose.random() < 0.5),
        lambda: family.CenterCrop(size),
        lambda: family.Resize((size, size + 3)),
    ]
    behind = [
        lambda: family.RandAugment(),
        lambda: family.TrivialAugmentWide(),
        lambda: family.AutoAugment(),
        *pool[:-1],
    ]
    before = [choose.choice(pool)() for _ in range(choose.choice([0, 0, 1, 2]))]
    return [*before, choose.choice(sizes)(), *(choose.choice(behind)() for _ in range(choose.choice([0, 1, 2])))]


def pipeline(choose: random.Random) -> Any:
    """Returns a pipeline that is entirely native."""
    family = choose.choice([v1, v2])
    steps = image_steps(choose, family, choose.choice([16, 24, 40]))
    ends = [
        [v1.PILToTensor()],
        [v1.ToTensor()],
        [v1.ToTensor(), parity_recipes.NORMALIZE],
        [v1.ToTensor(), parity_recipes.NORMALIZE, v1.RandomErasing(choose.choice([0.0, 0.5, 1.0]))],
        [v2.ToImage(), v2.ToDtype(torch.float16, scale=True)],
        [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)],
    ]
    return family.Compose([*steps, *choose.choice(ends)])


def transform(choose: random.Random) -> Any:
    kind = choose.randrange(4)
    if kind == 0:
        native = [recipe for recipe in parity_recipes.RECIPES.values() if recipe.is_native]
        return choose.choice(native).make()
    if kind == 1:
        return MultiView([pipeline(choose) for _ in range(choose.randrange(1, 4))])
    return pipeline(choose)


@dataclass
class Case(Run):
    """A loader of `num_samples` files, and the way it is iterated over."""

    num_samples: int = 0


def make_case(seed: int) -> Case:
    choose = random.Random(seed)
    case = Case(seed)
    case.num_samples = choose.choice([0, 1, 5, 12, 30])
    workers = choose.choice([0, 0, 1, 1, 2, 3])
    case.arguments = {"num_workers": workers}
    if workers:
        case.arguments["prefetch_factor"] = choose.choice([1, 2, 3, 5])
        case.arguments["persistent_workers"] = choose.random() < 0.4
    case.own_generator = choose.choice([None, None, "own", "default"])
    case.sampling = choose.choice(["shuffle", "shuffle", "sequential", "replacement", "given", "given"])
    if case.sampling == "given":
        reach = max(1, case.num_samples)

        def index() -> int:
            return choose.randrange(-reach - (choose.random() < 0.1), reach + (choose.random() < 0.1))

        case.given = [
            [index() for _ in range(choose.choice([0, 1, 2, 3, 4, 6]) if choose.random() < 0.3 else 3)]
            for _ in range(choose.randrange(10))
        ]
        if choose.random() < 0.2 and case.given:
            case.given[choose.randrange(len(case.given))] = [0, 1, "two"]
        if choose.random() < 0.2 and case.given:
            case.given[choose.randrange(len(case.given))] = KeyError("sampler")
    else:
        case.arguments["batch_size"] = choose.choice([1, 2, 3, 4, 7])
        case.arguments["drop_last"] = choose.random() < 0.3
    case.choose_steps(choose)
    return case


def dataset_of(case: Case, root: Path) -> Any:
    choose = random.Random(case.seed + 1)
    folder = ImageFolder(str(root), transform(choose))
    paths = [path for path, _ in folder.samples]
    good = [number for number, path in enumerate(paths) if "broken" not in path]
    share = choose.choice([0.0, 0.0, 0.1, 0.3, 1.0])
    wanted = [choose.choice(range(len(paths)) if choose.random() < share else good) for _ in range(case.num_samples)]
    if share == 1.0 and choose.random() < 0.5:
        wanted = [number for number in range(len(paths)) if "broken" in paths[number]][: case.num_samples]
    dataset: Any = Subset(folder, wanted)
    if choose.random() < 0.2:
        dataset = ConcatDataset([dataset, Subset(folder, wanted[:2])])
    elif choose.random() < 0.2:
        dataset = Subset(dataset, list(range(len(wanted))))
    return dataset


def kind_of_error(error: Exception) -> type[Exception]:
    """Returns its kind; raises the system's error that no worker process can start."""
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        raise error
    return kind_of(error)


def run_case(kind: Any, case: Case, root: Path) -> list[Any]:
    """Returns everything that can be seen from outside, step by step."""
    dataset = dataset_of(case, root)
    loader, generator = case.make_loader(kind, dataset, is_empty=not len(dataset))
    if kind is fastload.DataLoader:
        assert loader.explain().startswith("native"), loader.explain()
    return case.seen(loader, generator, kind_of_error)


def run_until_begun(kind: Any, case: Case, root: Path) -> list[Any]:
    """Runs a case again if one of torch's worker processes cannot start.

    A thread of multiprocessing closes its queue's pipe when the pipe's object ends, so the descriptor is closed twice,
    and the second time it was another one's.
    """
    for _ in range(3):
        try:
            return run_case(kind, case, root)
        except OSError as error:
            if kind is fastload.DataLoader or error.errno != errno.EBADF:
                raise
    return run_case(kind, case, root)


def assert_case(seed: int, root: Path) -> None:
    case = make_case(seed)
    theirs, mine = on_both(lambda kind: run_until_begun(kind, case, root))
    different = first_difference(theirs, mine)
    assert different is None, f"{different}\n{case}\n{described(dataset_of(case, root))}"


def described(dataset: Any) -> str:
    while isinstance(dataset, (Subset, ConcatDataset)):
        dataset = dataset.dataset if isinstance(dataset, Subset) else dataset.datasets[0]
    return str(dataset)


@pytest.mark.filterwarnings("ignore:This DataLoader will", "ignore:Exception in thread QueueFeederThread")
@pytest.mark.parametrize("first", range(0, NUM_CASES, 10))
def test_loaders_made_at_random_equal_torchs_at_every_step(odd_folder: Path, first: int) -> None:
    for seed in range(first, first + 10):
        assert_case(seed, odd_folder)
