"""plan(): the samples and draws of any batch, exactly those of the loaded one, and nothing is decoded for it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from image_folders import synthetic_image
from resumed_runs import BATCH_SIZE, NUM_IMAGES, Case, program_bytes, seed_program, set_epoch
from torch.utils.data import DistributedSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload

NUM_EPOCHS = 3


@pytest.fixture(scope="module")
def motley(folder: Path, mixed_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clean files, all kinds that Pillow decodes, headers behind long metadata, and files that fail in their header."""
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
    """One for which some images are too small."""
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


def reports_of(iterator: Any) -> Iterator[Any]:
    """Of each batch, failed ones too, as plan() tells it."""
    while True:
        try:
            next(iterator)
        except StopIteration:
            return
        except fastload.SampleError:
            pass
        yield [replace(report, source="planned") for report in iterator.batch_report()]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("sampler", ["shuffle", "sharded", "in order"])
def test_batches_of_seeded_epochs_are_planned_as_they_are_loaded(
    sampler: str, transform: str, num_workers: int, motley: Path
) -> None:
    loader = loader_of(motley, transform, sampler, rng="sample", seed=7, num_workers=num_workers)
    loaded = []
    for epoch in range(NUM_EPOCHS):
        set_epoch(loader, epoch)
        loaded.append(list(reports_of(iter(loader))))
    before, stats = program_bytes(), loader.stats()
    dice = random.Random(3)
    for _ in range(25):
        epoch, step = dice.randrange(NUM_EPOCHS), dice.randrange(len(loader))
        assert loader.plan(epoch, step) == loaded[epoch][step]
    assert program_bytes() == before
    assert (loader.stats() - stats).bytes_read == 0
    assert loader.stats().samples_native == stats.samples_native


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_batches_behind_a_state_are_planned_with_torchs_draws(
    sampler: str, transform: str, num_workers: int, motley: Path
) -> None:
    seed_program(4)
    loader = loader_of(motley, transform, sampler, num_workers=num_workers, persistent_workers=True)
    list(reports_of(iter(loader)))
    set_epoch(loader, 1)
    iterator = iter(loader)
    states, loaded = [loader.state_dict()], []
    for reports in reports_of(iterator):
        loaded.append(reports)
        states.append(loader.state_dict())
    before, dice = program_bytes(), random.Random(5)
    for _ in range(12):
        first = dice.randrange(len(loader))
        step = dice.randrange(first, len(loader))
        assert loader.plan(state=states[first], step=step) == loaded[step], (first, step)
    assert loader.plan(state=states[1]) == loaded[1]
    assert program_bytes() == before


@pytest.mark.filterwarnings("ignore:num_workers=0")
def test_without_workers_the_draws_are_those_of_the_programs_generator_now(motley: Path) -> None:
    loader = loader_of(motley, "training", "shuffle")
    loaded = reports_of(iter(loader))
    next(loaded)
    state, before = loader.state_dict(), program_bytes()
    planned = [loader.plan(state=state, step=step) for step in range(1, len(loader))]
    assert program_bytes() == before
    assert planned == list(loaded)


def test_planning_reads_headers_only_and_opens_no_other_file(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "large"
    shutil.copytree(folder, root)
    for path in root.rglob("*.JPEG"):
        path.write_bytes(path.read_bytes() + bytes(100_000))
    loader = loader_of(root, "training", "shuffle", num_workers=2)
    iterator = iter(loader)
    state = loader.state_dict()
    loaded = list(reports_of(iterator))
    seeded = loader_of(root, "training", "shuffle", rng="sample", seed=2)
    kept = {report.path for report in seeded.plan(4, 2)}
    before = bytes_read()
    assert loader.plan(state=state, step=len(loader) - 1) == loaded[-1]
    assert bytes_read() - before <= NUM_IMAGES * 4096 + 1000
    for path in root.rglob("*.JPEG"):
        if str(path) not in kept:
            path.unlink()
    assert {report.source_size for report in seeded.plan(4, 2)}.isdisjoint({(0, 0)})


def bytes_read() -> int:
    """By this thread."""
    counters = dict(line.split(": ") for line in Path("/proc/thread-self/io").read_text().splitlines())
    return int(counters["rchar"])


def test_a_file_that_is_damaged_behind_its_header_is_planned_as_a_good_one(faulty_folder: Path) -> None:
    loader = loader_of(faulty_folder, "training", "in order", rng="sample", seed=1, num_workers=1)
    iterator = iter(loader)
    outcomes = []
    for _ in range(len(loader)):
        try:
            next(iterator)
            outcomes.append([replace(report, source="planned") for report in iterator.batch_report()])
        except fastload.SampleError:
            outcomes.append(None)
    planned = [loader.plan(0, step) for step in range(len(loader))]
    sizes = [report.source_size for batch in planned for report in batch]
    assert sizes.count((0, 0)) == 2, "no image, and an empty file"
    assert outcomes.count(None) == 3, "a file that is cut short fails, too"
    for outcome, batch in zip(outcomes, planned, strict=True):
        assert outcome is None or outcome == batch


@pytest.mark.parametrize("sampler", ["random", "random with two generators", "distributed", "sequential"])
def test_skipped_batches_are_not_loaded_and_change_nothing(sampler: str, folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "some"
    shutil.copytree(folder, root)
    case = Case(sampler=sampler, num_workers=2)
    loader = case.make_loader(root)
    set_epoch(loader, 1)
    iterator = iter(loader)
    state = loader.state_dict()
    batches = [(images, iterator.batch_report()) for images, _ in iterator]
    for step in range(len(batches)):
        (images, _), reports = next(iter(part := loader.at(state=state, step=step))), batches[step][1]
        assert torch.equal(images, batches[step][0])
        assert len(part) == len(batches) - step
        assert [report.index for report in loader.plan(state=state, step=step)] == [entry.index for entry in reports]
    last = {report.path for report in batches[-1][1]}
    for path in root.rglob("*.JPEG"):  # of the others nothing is left but their headers
        if str(path) not in last:
            path.write_bytes(path.read_bytes()[:1500])
    assert torch.equal(next(iter(loader.at(state=state, step=len(batches) - 1)))[0], batches[-1][0])


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


@pytest.mark.filterwarnings("ignore:the order goes on where it was")
@pytest.mark.parametrize("init_fn", [None, reseed])
def test_skipped_batches_of_a_moved_state_draw_anew_as_loaded_ones(init_fn: Any, folder: Path) -> None:
    loader = Case(sampler="sequential").make_loader(folder, worker_init_fn=init_fn)
    iterator = iter(loader)
    next(iterator)
    moved = {**loader.state_dict(), "_num_yielded": 2, "_sampler_iter_yielded": 2}  # by a framework
    loaded = [images for images, _ in loader.at(state=moved)]
    skipped = [images for images, _ in loader.at(state=moved, step=5)]
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(skipped, loaded[3:], strict=True))


class OwnSamples(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> Any:
        return index


def test_batches_that_python_makes_have_indices_and_paths_but_no_draws(folder: Path) -> None:
    blurred = ImageFolder(str(folder), transforms.Compose([recipes.PythonBlur(3), recipes.training(16)]))
    for dataset in (blurred, OwnSamples()):
        loader = fastload.DataLoader(dataset, 4, shuffle=True, rng="sample", seed=3)
        assert not loader.explain().is_native
        order = [list(indices) for indices in loader.batch_sampler]
        planned = loader.plan(0, 1)
        assert [report.index for report in planned] == order[1]
        paths = [dataset.samples[index][0] if dataset is blurred else "" for index in order[1]]
        assert [report.path for report in planned] == paths
        assert {(report.source, report.source_size, report.views) for report in planned} == {("planned", (0, 0), ((),))}


def test_a_batch_that_the_sampler_spoils_has_its_error(folder: Path) -> None:
    dataset = ImageFolder(str(folder), recipes.training(16))
    for batches, error in (([[0], [1, 99]], IndexError), ([[0], []], IndexError), ([[0], [1, "a"]], TypeError)):
        loader = fastload.DataLoader(dataset, batch_sampler=batches, rng="sample", seed=1)
        with pytest.raises(error):
            loader.plan(0, 1)
        with pytest.raises(error):
            next(iter(loader.at(0, 1)))


REFUSED: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "neither": (lambda loader, _, state: loader.plan(), r"plan\(\) takes an epoch or a state"),
    "both": (lambda loader, _, state: loader.plan(0, state=state), r"plan\(\) takes an epoch or a state"),
    "torch's draws": (lambda _, other, state: other.plan(0, 0), r"rng='sample' and seed=.*pass state="),
    "an epoch": (lambda loader, _, state: loader.plan(-1, 0), "epoch must be an int"),
    "too far": (lambda loader, _, state: loader.plan(0, 8), r"step must be an int in \[0, 8\), .*got 8"),
    "a float": (lambda loader, _, state: loader.plan(0, 1.0), "step must be an int in .*got 1.0"),
    "behind it": (lambda _, other, state: other.plan(state=state, step=1), r"step must be an int in \[2, 8\).*got 1"),
    "a stream": (lambda loader, _, state: stream().plan(0, 0), "epoch 0 cannot be made again"),
    "before iter()": (
        lambda _, other, state: other.plan(state=fresh(other).state_dict()),
        r"before epoch 0 has begun.*behind iter\(\)",
    ),
}


class Stream(torch.utils.data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def stream() -> Any:
    return fastload.DataLoader(Stream(), 2)


def fresh(loader: Any) -> Any:
    return fastload.DataLoader(loader.dataset, BATCH_SIZE, num_workers=2)


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_that_cannot_be_made_says_why(name: str, folder: Path) -> None:
    call, text = REFUSED[name]
    loader = loader_of(folder, "training", "shuffle", rng="sample", seed=1)
    other = loader_of(folder, "training", "in order", num_workers=2)
    iterator = iter(other)
    next(iterator), next(iterator)
    with pytest.raises(ValueError, match=text):
        call(loader, other, other.state_dict())


def test_states_of_another_number_of_workers_are_refused(folder: Path) -> None:
    loader = loader_of(folder, "training", "in order", num_workers=2)
    next(iter(loader))
    with pytest.raises(fastload.StateError, match=r"fastload\.num_workers.*is 2, and this loader has 1"):
        loader_of(folder, "training", "in order", num_workers=1).plan(state=loader.state_dict())
