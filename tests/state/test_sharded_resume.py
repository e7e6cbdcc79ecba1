"""A state of a loader whose samples a ShardedSampler shards: another number of ranks resumes from it."""

from __future__ import annotations

import contextlib
import shutil
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from resumed_runs import NUM_IMAGES

import fastload


def _loaders(folder: Path, num_ranks: int, batch_size: int, num_workers: int, **arguments: Any) -> list[Any]:
    """Returns the loader of each rank. With counted draws a sample is the same on every rank."""
    return [
        fastload.DataLoader(
            recipes.numbered_images(folder, recipes.training(32)),
            batch_size,
            sampler=fastload.ShardedSampler(NUM_IMAGES, num_replicas=num_ranks, rank=rank, seed=2, **arguments),
            num_workers=num_workers,
            rng="sample",
            seed=4,
        )
        for rank in range(num_ranks)
    ]


def _rest(iterators: list[Any]) -> list[tuple[int, bytes]]:
    """Returns (index, bytes) of the ranks' samples, in the order of the epoch: one of each rank in turn."""
    return [sample for round_ in zip(*map(recipes.samples_of, iterators), strict=True) for sample in round_]


@pytest.mark.parametrize(("num_ranks", "batch_size"), [(4, 2), (2, 4), (1, 8), (8, 1), (3, 2)])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_other_ranks_go_on_with_the_samples_that_are_left(
    num_ranks: int, batch_size: int, num_workers: int, folder: Path
) -> None:
    loaders = _loaders(folder, 4, 2, num_workers)
    before = [iter(loader) for loader in loaders]
    for iterator in before:
        next(iterator)
    states = [loader.state_dict() for loader in loaders]
    assert all(state["fastload"]["sampler"]["state"]["position"] == 8 for state in states)
    expected = _rest(before)

    after = _loaders(folder, num_ranks, batch_size, num_workers)
    is_same_batch = num_ranks * batch_size == 8
    for loader in after:
        if not is_same_batch:
            with pytest.raises(fastload.StateError, match=r"batch_size: .*has 8, .* has 6"):
                loader.load_state_dict(states[0])
            with pytest.warns(UserWarning, match="batch"):
                loader.load_state_dict(states[0], strict=False)
        else:
            loader.load_state_dict(states[0])
    found = _rest([iter(loader) for loader in after])
    left = NUM_IMAGES - 8
    assert found[:left] == expected[:left]
    assert len({index for index, _ in found[:left]}) == left


@pytest.mark.parametrize("next_epoch", [0, 1])
def test_after_the_last_batch_the_next_epoch_begins(next_epoch: int, folder: Path) -> None:
    (loader,) = _loaders(folder, 1, 4, 2)
    list(loader)
    state = loader.state_dict()
    (again,) = _loaders(folder, 1, 4, 2)
    again.load_state_dict(state)
    for each in (loader, again):
        each.sampler.set_epoch(next_epoch)
    expected = _rest([iter(loader)])
    assert len(expected) == NUM_IMAGES
    assert _rest([iter(again)]) == expected


def test_with_weights_the_draws_go_on(folder: Path) -> None:
    weights = torch.arange(1.0, NUM_IMAGES + 1)
    (loader,) = _loaders(folder, 1, 4, 2, weights=weights)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    (again,) = _loaders(folder, 1, 4, 2, weights=weights)
    again.load_state_dict(state)
    assert _rest([iter(again)]) == _rest([iterator])


def test_a_loader_of_steps_has_no_state(folder: Path) -> None:
    loader = fastload.DataLoader(recipes.numbered_images(folder, recipes.training(32)), 4, steps=3)
    assert "in an epoch state_dict() raises StateError: with steps=" in loader.explain()
    for call in (loader.state_dict, lambda: loader.load_state_dict({})):
        with pytest.raises(fastload.StateError, match="Leave out steps"):
            call()


def _stopped(folder: Path, num_batches: int, **arguments: Any) -> tuple[dict[str, Any], list[Any]]:
    """Returns the state after that many batches, and the next three."""
    (loader,) = _loaders(folder, 1, 4, 2, **arguments)
    iterator = iter(loader)
    for _ in range(num_batches):
        next(iterator)
    return loader.state_dict(), [next(iterator)[1].tolist() for _ in range(3)]


def test_epochs_without_an_end_go_on_without_a_warning(folder: Path, recwarn: pytest.WarningsRecorder) -> None:
    state, expected = _stopped(folder, NUM_IMAGES // 4 + 2, infinite=True)
    assert state["fastload"]["sampler"]["state"]["epoch"] == 1
    (again,) = _loaders(folder, 1, 4, 2, infinite=True)
    again.load_state_dict(state)
    iterator = iter(again)
    assert [next(iterator)[1].tolist() for _ in range(3)] == expected
    assert not recwarn.list


def test_the_epoch_of_a_state_wins_over_another_one_and_says_so(folder: Path) -> None:
    state, expected = _stopped(folder, 2)
    (again,) = _loaders(folder, 1, 4, 2)
    again.load_state_dict(state)
    again.sampler.set_epoch(5)
    with pytest.warns(UserWarning, match=r"ShardedSampler\.set_epoch\(5\) was called after load.*resumes epoch 0"):
        iterator = iter(again)
    assert [next(iterator)[1].tolist() for _ in range(3)] == expected


BLOCKS = {"block_size": 3, "window_blocks": 2, "canonical_nodes": 12}


def _real(loaders: list[Any]) -> list[list[tuple[int, bytes]]]:
    """Returns (index, bytes) of each rank's samples without the repeats."""
    return [recipes.samples_of(loader)[: loader.sampler.num_real] for loader in loaders]


def _global_batches(by_rank: list[list[tuple[int, bytes]]], batch_size: int) -> list[set[tuple[int, bytes]]]:
    longest = max(map(len, by_rank))
    return [
        {sample for samples in by_rank for sample in samples[first : first + batch_size]}
        for first in range(0, longest, batch_size)
    ]


@pytest.mark.parametrize(
    ("num_ranks", "num_nodes", "batch_size"), [(2, 1, 4), (2, 2, 4), (3, 3, 2), (8, 4, 1), (8, 2, 1), (4, 4, 2)]
)
def test_with_blocks_other_nodes_go_on_with_the_same_images(
    num_ranks: int, num_nodes: int, batch_size: int, folder: Path
) -> None:
    before = _loaders(folder, 4, 2, 2, nodes=2, **BLOCKS)
    iterators = [iter(loader) for loader in before]
    for iterator in iterators:
        next(iterator)
    state = before[3].state_dict()
    whole = _real(_loaders(folder, 4, 2, 2, nodes=2, **BLOCKS))
    expected = [samples[2:] for samples in whole]
    after = _loaders(folder, num_ranks, batch_size, 1, nodes=num_nodes, **BLOCKS)
    is_same_batch = num_ranks * batch_size == 8
    for loader in after:
        with contextlib.nullcontext() if is_same_batch else pytest.warns(UserWarning, match="samples of a batch"):
            loader.load_state_dict(state, strict=is_same_batch)
    found = _real(after)
    samples = sorted(chain(*found))
    assert samples == sorted(chain(*expected))
    assert len(samples) == NUM_IMAGES - 8
    if is_same_batch:
        assert _global_batches(found, batch_size) == _global_batches(expected, 2)


def test_with_blocks_a_node_opens_the_files_of_its_own_part_alone(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "part"
    shutil.copytree(folder, root)
    loaders = _loaders(root, 4, 2, 1, nodes=2, **BLOCKS)
    paths = [path for path, _ in loaders[0].dataset.samples]
    for node in range(2):
        own = loaders[2 * node : 2 * node + 2]
        kept = {index for loader in own for index in loader.sampler}
        assert len(kept) == NUM_IMAGES // 2
        for number, path in enumerate(paths):
            if number not in kept:
                Path(path).rename(f"{path}.gone")
        for epoch in range(3):
            for loader in own:
                loader.sampler.set_epoch(epoch)
                assert {int(label) for _, labels in loader for label in labels} <= kept
        for path in paths:
            if not Path(path).exists():
                Path(f"{path}.gone").rename(path)


def test_with_blocks_batches_have_addresses(folder: Path) -> None:
    loader = _loaders(folder, 4, 2, 1, nodes=2, **BLOCKS)[3]
    loader.sampler.set_epoch(1)
    batches = [(images.numpy().tobytes(), labels.tolist()) for images, labels in loader]
    part = [(images.numpy().tobytes(), labels.tolist()) for images, labels in loader.at(1, 1)]
    assert part == batches[1:]
    iterator = iter(loader.at(1, 2))
    next(iterator)
    assert [report.index for report in iterator.batch_report()] == batches[2][1]


def test_explain_says_what_a_node_reads_at_once(folder: Path) -> None:
    loader = _loaders(folder, 4, 2, 1, nodes=2, **BLOCKS)[3]
    assert (
        "BatchSampler over ShardedSampler, rank 3 of 4; node 1 of 2 works on 12 blocks of 3 at once, 11 samples"
        in loader.explain()
    )


def test_a_state_of_other_blocks_is_refused_by_the_loader(folder: Path) -> None:
    (loader,) = _loaders(folder, 1, 4, 2, **BLOCKS)
    next(iter(loader))
    state = loader.state_dict()
    (other,) = _loaders(folder, 1, 4, 2, **{**BLOCKS, "block_size": 4})
    with pytest.raises(fastload.StateError, match=r"fastload\.fingerprint\.sampler: .*block_size=3.*block_size=4"):
        other.load_state_dict(state)
