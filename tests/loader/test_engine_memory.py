"""Batch memory that torch owns: kept while threads may write to it, released by Python threads alone."""

from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
import recipes
import torch
from child_loader import wait_for
from image_folders import synthetic_image
from native_steps import make_placed_plan
from torchvision.datasets import ImageFolder

from fastload import _native
from fastload.sources._lowering import LoweredSource, lower_dataset
from fastload.transforms._lowering import LoweredTransform, lower_transform


@pytest.fixture(scope="module")
def lowered(clean_folder: Path) -> tuple[LoweredSource, LoweredTransform]:
    source = lower_dataset(ImageFolder(str(clean_folder), recipes.evaluation(64, 56)))
    transform = lower_transform(source.transforms[0])
    return source, transform


def open_iteration(
    engine: _native.Engine, lowered: tuple[LoweredSource, LoweredTransform], index: _native.SampleIndex | None = None
) -> _native.Iteration:
    source, transform = lowered
    plan = make_placed_plan(
        transform.steps,
        element_size=transform.form.dtype.itemsize,
        channels_last=False,
        table=transform.form.table,
        allow_variable_size=False,
    )
    return engine.open_iteration(index or source.table.index, [plan], 0, 0)


def engine_of(num_threads: int) -> _native.Engine:
    limits = {"max_free_buffers": 4, "max_file_bytes": 1 << 30, "max_pixels": 1 << 30}
    return _native.Engine(num_threads=num_threads, native_jpeg=True, **limits)


@pytest.fixture
def engine() -> _native.Engine:
    return engine_of(2)


def submit(iteration: _native.Iteration, indices: list[int]) -> torch.Tensor:
    images = torch.zeros(len(indices), 3, 56, 56)
    iteration.submit((np.array(indices), [(images.data_ptr(), images.nbytes)], images, None, None), [])
    return images


def test_a_tensor_of_torch_is_filled_and_then_only_the_users(
    engine: _native.Engine, lowered: tuple[LoweredSource, LoweredTransform]
) -> None:
    iteration = open_iteration(engine, lowered)
    images = submit(iteration, [0, 1, 2])
    assert isinstance(iteration.next(0.0), _native.Batch)
    assert bool((images.abs().amax(dim=(1, 2, 3)) > 0).all())
    reference = weakref.ref(images)
    iteration.cancel()  # a call that releases what threads have left
    del images
    gc.collect()
    assert reference() is None


def test_a_cancelled_batch_keeps_its_tensor_until_no_thread_writes_and_then_releases_it(
    engine: _native.Engine, lowered: tuple[LoweredSource, LoweredTransform]
) -> None:
    for _ in range(20):
        iteration = open_iteration(engine, lowered)
        references = [weakref.ref(submit(iteration, list(range(22)))) for _ in range(3)]
        assert all(reference() is not None for reference in references)  # nothing here holds them
        iteration.cancel()
        assert engine.stats()["batches_in_flight"] == 0
        del iteration
    assert engine.close(5.0)
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]


def test_dropping_a_stream_lets_go_of_its_tensors_at_once(
    engine: _native.Engine, lowered: tuple[LoweredSource, LoweredTransform]
) -> None:
    iteration = open_iteration(engine, lowered)
    reference = weakref.ref(submit(iteration, [0, 1, 2]))
    assert wait_for(lambda: engine.stats()["queue_depth"] > 0)
    del iteration
    assert reference() is None


def test_a_batch_handed_over_is_not_kept_by_the_engine(
    engine: _native.Engine, lowered: tuple[LoweredSource, LoweredTransform]
) -> None:
    iteration = open_iteration(engine, lowered)
    images = submit(iteration, [0, 1, 2])
    batch = iteration.next(0.0)
    assert isinstance(batch, _native.Batch)
    assert batch.take_owner() is images
    reference = weakref.ref(images)
    del images
    assert reference() is None
    with pytest.raises(RuntimeError, match="taken before"):
        batch.take_owner()


def test_pixels_for_a_fallback_task_must_be_contiguous_and_come_once(
    lowered: tuple[LoweredSource, LoweredTransform], tmp_path: Path
) -> None:
    synthetic_image(1, 80, 70).save(tmp_path / "a.png")
    arena = np.frombuffer(os.fsencode(tmp_path / "a.png"), np.uint8)
    index = _native.SampleIndex(arena, np.array([0, arena.size]))
    engine = engine_of(0)
    iteration = open_iteration(engine, lowered, index)
    images = submit(iteration, [0])
    dropped = iteration.next(0.0)
    assert isinstance(dropped, _native.FallbackTask)
    del dropped  # like an interrupt; the sample comes again
    task = iteration.next(0.0)
    assert isinstance(task, _native.FallbackTask)
    pixels = np.ones((70, 80, 3), np.uint8)
    with pytest.raises(ValueError, match="one after the other"):
        task.complete(pixels[::-1], 80, 70)
    task.complete(pixels, 80, 70)
    with pytest.raises(RuntimeError, match="already finished"):
        task.complete(pixels, 80, 70)
    batch = iteration.next(0.0)
    assert isinstance(batch, _native.Batch)
    assert batch.is_whole
    assert task.path == index.path(0)
    assert bool((images != 0).all())


def test_bad_submissions_are_refused_with_their_numbers(
    engine: _native.Engine, lowered: tuple[LoweredSource, LoweredTransform]
) -> None:
    iteration = open_iteration(engine, lowered)
    images = torch.zeros(1, 3, 56, 56)
    memory = [(images.data_ptr(), images.nbytes)]
    with pytest.raises(IndexError, match=r"sample index 22 is not in \[0, 22\)"):
        iteration.submit((np.array([22]), memory, images, None, None), [])
    with pytest.raises(ValueError, match=r"exactly 1 samples of 37632 bytes, got 100 bytes"):
        iteration.submit((np.array([0]), [(images.data_ptr(), 100)], images, None, None), [])
    with pytest.raises(ValueError, match=r"memory for 1 views, got 2"):
        iteration.submit((np.array([0]), memory * 2, images, None, None), [])
    with pytest.raises(ValueError, match=r"1 draw_numbers, one for each sample, got 2"):
        iteration.submit((np.array([0]), memory, images, None, np.zeros(2, np.uint32)), [])
