"""Loaders that give the same bytes have no differences, and the comparison leaves no trace."""

from __future__ import annotations

import multiprocessing
import random
from typing import Any

import numpy as np
import pytest
import recipes
import torch
from child_loader import num_native_threads, wait_for
from fake_cuda import FakeDevice
from numbered import Made
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler, SequentialSampler, Subset
from torchvision import transforms
from torchvision.datasets import ImageFolder

import fastload
from fastload._pillow._pillow import is_reference
from fastload._planning._verdicts import Mode
from fastload._tools.verify._rng_states import Generators
from fastload._tools.verify._runner import LoaderRunner

NUM_SAMPLES = 11  # in the folder


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_torch_and_fastload_are_equal_on_evaluation(
    evaluation: ImageFolder, num_workers: int, is_shuffled: bool
) -> None:
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": is_shuffled, "num_workers": num_workers}
    report = fastload.verify(DataLoader(evaluation, **arguments), fastload.DataLoader(evaluation, **arguments))
    assert report.is_equal, report
    assert report.exit_code == 0
    assert (report.batches_compared, report.samples_compared) == (3, NUM_SAMPLES)
    assert report.bytes_compared == NUM_SAMPLES * (3 * 32 * 32 * 4 + 8)


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("recipe", ["evaluation", "training"])
def test_loader_that_delivers_to_a_device_is_compared_by_copies_on_the_host(
    recipe: str, num_workers: int, request: pytest.FixtureRequest
) -> None:
    dataset = request.getfixturevalue(recipe)
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "num_workers": num_workers}
    device = FakeDevice()
    on_device = fastload.DataLoader(dataset, **arguments, device=device)
    report = fastload.verify(DataLoader(dataset, **arguments), on_device)
    assert report.is_equal, report
    assert report.samples_compared == NUM_SAMPLES
    assert device.gpu.call_count("cudaMemcpyAsync") >= 6
    changed = fastload.DataLoader(
        dataset, **arguments, device=device, device_transform=lambda batch: [-batch[0], batch[1]]
    )
    report = fastload.verify(DataLoader(dataset, **arguments), changed)
    assert dict(report.stages) == {"values": NUM_SAMPLES}
    text = "the images differ, and the cause is not known; known to differ: device_transform None against "
    assert all(example.detail.startswith(text) for example in report.examples)


def test_threads_may_be_the_old_loader_and_processes_the_new_one(evaluation: ImageFolder) -> None:
    arguments: dict[str, Any] = {"batch_size": 4, "num_workers": 2, "persistent_workers": True}
    assert fastload.verify(fastload.DataLoader(evaluation, **arguments), DataLoader(evaluation, **arguments)).is_equal


@pytest.mark.parametrize("num_workers", [0, 2])
def test_random_transforms_draw_the_same_on_both_sides(training: ImageFolder, num_workers: int) -> None:
    loaders = [DataLoader(training, 4, shuffle=True, num_workers=num_workers) for _ in range(2)]
    report = fastload.verify(*loaders)
    assert report.is_equal, report
    torch.manual_seed(1)  # the caller's state must not matter
    assert fastload.verify(*loaders).is_equal


def test_one_loader_may_be_compared_with_itself(training: ImageFolder) -> None:
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(training, 4, shuffle=True, generator=generator)
    assert fastload.verify(loader, loader).is_equal


def test_two_loaders_may_share_a_generator_and_a_sampler(evaluation: ImageFolder) -> None:
    generator = torch.Generator().manual_seed(3)
    sampler = BatchSampler(RandomSampler(evaluation, generator=generator), 4, False)
    old = DataLoader(evaluation, batch_sampler=sampler, generator=generator)
    new = fastload.DataLoader(evaluation, batch_sampler=sampler, generator=generator, num_workers=2)
    assert fastload.verify(old, new).is_equal


class _NumpySampler(Sampler[int]):
    """Draws its order from its own NumPy generator."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(4)
        self.python_generator = random.Random(4)

    def __iter__(self) -> Any:
        order = self.generator.permutation(NUM_SAMPLES).tolist()
        self.python_generator.shuffle(order)
        return iter(order)

    def __len__(self) -> int:
        return NUM_SAMPLES


def test_generators_of_a_samplers_own_begin_equal_and_are_restored(evaluation: ImageFolder) -> None:
    sampler = _NumpySampler()
    before = str(sampler.generator.bit_generator.state), sampler.python_generator.getstate()
    old = DataLoader(evaluation, 4, sampler=sampler)
    new = fastload.DataLoader(evaluation, 4, sampler=sampler, num_workers=2)
    assert fastload.verify(old, new).is_equal
    assert (str(sampler.generator.bit_generator.state), sampler.python_generator.getstate()) == before


def test_a_loader_that_leaves_a_generator_elsewhere_is_noted(training: ImageFolder, evaluation: ImageFolder) -> None:
    note = "The loaders leave the random generators in different states"
    labels = [Subset(dataset, [0] * 4) for dataset in (training, evaluation)]
    report = fastload.verify(DataLoader(labels[0], collate_fn=len), DataLoader(labels[1], collate_fn=len))
    assert report.is_equal
    assert note in str(report)
    assert note not in str(fastload.verify(DataLoader(labels[0]), DataLoader(labels[0], num_workers=0)))


def test_generators_that_each_loader_has_of_its_own_are_left_alike(training: ImageFolder) -> None:
    def loader(kind: Any, seed: int, **options: Any) -> Any:
        return kind(training, 4, shuffle=True, generator=torch.Generator().manual_seed(seed), num_workers=2, **options)

    note = "The loaders leave the random generators in different states"
    report = fastload.verify(loader(DataLoader, 1), loader(fastload.DataLoader, 1))
    assert report.is_equal
    assert note not in str(report)
    assert note in str(fastload.verify(loader(DataLoader, 1), loader(DataLoader, 2)))


class _DrawsInVain(SequentialSampler):
    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset)
        self.python_generator = random.Random(4)

    def __iter__(self) -> Any:
        self.python_generator.random()
        return super().__iter__()


def test_a_generator_that_only_one_loader_holds_is_not_noted(evaluation: ImageFolder) -> None:
    old, new = DataLoader(evaluation, 4), fastload.DataLoader(evaluation, 4, sampler=_DrawsInVain(evaluation))
    assert "different states" not in str(fastload.verify(old, new))


def states(*generators: torch.Generator) -> tuple[Any, ...]:
    found = [generator.get_state().tolist() for generator in (torch.default_generator, *generators)]
    return found, random.getstate(), str(np.random.get_state())


@pytest.mark.parametrize("num_workers", [0, 2])
def test_all_generators_are_left_as_they_were_found(training: ImageFolder, num_workers: int) -> None:
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2)]
    old, new = (
        DataLoader(training, 4, shuffle=True, num_workers=num_workers, generator=generator) for generator in generators
    )
    before = states(*generators)
    assert not fastload.verify(old, new).is_equal  # so that the stages are examined, too
    assert states(*generators) == before


def test_an_iteration_under_way_is_not_disturbed(training: ImageFolder) -> None:
    def labels_and_images(is_verified: bool) -> Any:
        torch.manual_seed(2)
        loader = DataLoader(training, 4, shuffle=True, num_workers=2, persistent_workers=True)
        iterator = iter(loader)
        first = next(iterator)
        if is_verified:
            assert fastload.verify(loader, loader).is_equal
        return recipes.bytes_of([first, *iterator]), recipes.bytes_of(loader)

    assert labels_and_images(True) == labels_and_images(False)


def test_epochs_of_a_seeded_loader_go_on_where_they_were(training: ImageFolder) -> None:
    def second_epoch(is_verified: bool) -> Any:
        loader = fastload.DataLoader(training, 4, rng="sample", seed=5)
        recipes.bytes_of(loader)
        if is_verified:
            assert fastload.verify(loader, loader).is_equal
        return recipes.bytes_of(loader)

    assert second_epoch(True) == second_epoch(False)


def test_no_worker_and_no_thread_is_left(evaluation: ImageFolder) -> None:
    before, children = num_native_threads(), multiprocessing.active_children()
    arguments: dict[str, Any] = {"batch_size": 2, "num_workers": 2, "persistent_workers": True}
    old, new = DataLoader(evaluation, **arguments), fastload.DataLoader(evaluation, **arguments)
    assert fastload.verify(old, new, batches=1).is_equal
    assert set(multiprocessing.active_children()) <= set(children)
    assert wait_for(lambda: num_native_threads() <= before)
    assert old._iterator is None
    assert new._iterator is None


def test_at_most_the_batches_asked_for_are_compared(evaluation: ImageFolder) -> None:
    report = fastload.verify(DataLoader(evaluation, 2), fastload.DataLoader(evaluation, 2), batches=2)
    assert report.is_equal
    assert (report.batches_compared, report.samples_compared, report.batches_limit) == (2, 4, 2)
    assert "2 batches (at most 2 batches)" in str(report)


def test_loaders_without_batches_say_that_nothing_was_compared(evaluation: ImageFolder) -> None:
    empty = Subset(evaluation, [])
    report = fastload.verify(DataLoader(empty, 3), fastload.DataLoader(empty, 3))
    assert report.is_equal
    assert "nothing compared: the loaders give no batch" in str(report)


def blurred(dataset: ImageFolder) -> ImageFolder:
    """Returns the data set with a transform more, which ends in Python."""
    return ImageFolder(dataset.root, transforms.Compose([recipes.PythonBlur(3), *dataset.transform.transforms]))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("has_python_part", [False, True])
def test_samples_need_not_be_collated(evaluation: ImageFolder, has_python_part: bool, num_workers: int) -> None:
    dataset = blurred(evaluation) if has_python_part else evaluation
    loaders = [kind(dataset, None, num_workers=num_workers) for kind in (DataLoader, fastload.DataLoader)]
    report = fastload.verify(*loaders)
    assert report.is_equal, report
    assert report.samples_compared == NUM_SAMPLES
    assert report.new.endswith(", partly native")


@pytest.mark.parametrize(
    ("kind", "mode"),
    [(DataLoader, None), (fastload.DataLoader, Mode.NATIVE), (fastload.DataLoader, Mode.PARTLY_NATIVE)],
)
@pytest.mark.parametrize("num_workers", [0, 1, 2])
def test_indices_of_each_batch_are_those_of_the_sampler(
    evaluation: ImageFolder, kind: Any, mode: Mode | None, num_workers: int
) -> None:
    dataset = blurred(evaluation) if mode is Mode.PARTLY_NATIVE else evaluation
    loader = kind(dataset, batch_sampler=[[3, 1], [99], [2], [0, 5, 6]], num_workers=num_workers)
    runner = LoaderRunner(loader, Generators([loader]), seed=0)
    runner.start()
    deliveries = list(iter(runner.next, None))
    runner.close()
    assert [type(delivery.error) for delivery in deliveries] == [type(None), IndexError, type(None), type(None)]
    assert [delivery.indices for delivery in deliveries] == [[3, 1], [99], [2], [0, 5, 6]]
    assert runner.mode is mode
    has_reports = [delivery.reports is not None for delivery in deliveries]
    assert has_reports == [mode is Mode.NATIVE and delivery.error is None for delivery in deliveries]


def test_closing_ends_workers_though_the_frames_of_an_interrupt_hold_the_iterator(evaluation: ImageFolder) -> None:
    loader, children = DataLoader(evaluation, 4, num_workers=2), multiprocessing.active_children()
    runner = LoaderRunner(loader, Generators([loader]), seed=0)
    runner.start()
    held = runner._iterator
    runner.close()
    assert set(multiprocessing.active_children()) <= set(children)
    del held


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_processes_are_forked_before_threads_start(
    evaluation: ImageFolder, is_exchanged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = LoaderRunner.start

    def noting_start(runner: LoaderRunner) -> None:
        started.append(type(runner.loader))
        start(runner)

    monkeypatch.setattr(LoaderRunner, "start", noting_start)
    loaders = [kind(evaluation, 4, num_workers=1) for kind in (DataLoader, fastload.DataLoader)]
    assert fastload.verify(*(reversed(loaders) if is_exchanged else loaders)).is_equal
    assert started == [DataLoader, fastload.DataLoader]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"batches": 0}, ValueError, "batches must be None or a positive int, got 0"),
        ({"batches": 1.5}, TypeError, "batches must be an int, got 1.5"),
        ({"seed": -1}, ValueError, r"seed must be in \[0, 2\*\*64\), got -1"),
        ({"seed": True}, TypeError, "seed must be an int, got True"),
    ],
)
def test_wrong_arguments_are_refused(evaluation: ImageFolder, arguments: Any, kind: type[Exception], text: str) -> None:
    loader = DataLoader(evaluation)
    with pytest.raises(kind, match=text):
        fastload.verify(loader, loader, **arguments)
    with pytest.raises(TypeError, match=r"new_loader must be a torch\.utils\.data\.DataLoader, got list"):
        fastload.verify(loader, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(("loader", "expected"), [(DataLoader, 1), (fastload.DataLoader, 0)])
def test_images_of_torchs_loader_are_pillows_whatever_opener_is_registered(
    loader: Any, expected: int, num_workers: int
) -> None:
    loader = loader(Made(lambda _: int(is_reference()), 4), batch_size=4, num_workers=num_workers)
    fastload.register_opener()
    try:
        runner = LoaderRunner(loader, Generators([loader]), seed=0)
        runner.start()
        outcome = runner.next()
        runner.close()
    finally:
        fastload.unregister_opener()
    assert outcome is not None
    assert outcome.batch.tolist() == [expected] * 4
