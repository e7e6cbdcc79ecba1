"""Process groups: under torchrun a rank gets what torch's loader gives it, and a loader without shards is noticed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import socket
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from children import RunChild
from framework_recipes import NUM_IMAGES, Drawing
from loopback import need_loopback
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, Subset

import fastload
from fastload._process import _distributed

JOB = Path(__file__).resolve().parents[1] / "helpers" / "distributed_job.py"
PLAIN_PARTS = ["loaders", "bad samples", "processors", "DistributedDataParallel", "elastic", "elastic in blocks"]
OF_TWO = ["Lightning", "Accelerate", "Accelerate's ways", "Hugging Face Trainer"]
OF_TWO += ["Lightning's treatment", "Lightning's checkpoints", "Accelerate's treatment"]
FRAMEWORKS = {"Lightning": "lightning", "Accelerate": "accelerate", "Hugging Face Trainer": "transformers"}


def is_installed(part: str) -> bool:
    """Returns whether the framework of that part of the job is installed and works with this torch."""
    module = FRAMEWORKS[part.partition("'s ")[0]]
    if importlib.util.find_spec(module) is None:
        return False
    if module != "transformers":
        return True
    return bool(importlib.import_module("transformers.utils").is_torch_available())


@pytest.fixture(scope="module")
def jobs() -> dict[int, list[dict[str, Any]]]:
    """Returns an empty dict for the ranks' reports by world size; each job runs once."""
    return {}


@pytest.fixture
def run_job(jobs: dict[int, list[dict[str, Any]]], run_child: RunChild, folder: Path, tmp_path: Path) -> Any:
    def run(world_size: int) -> list[dict[str, Any]]:
        if world_size not in jobs:
            need_loopback()
            installed = [part for part in OF_TWO if is_installed(part)]
            # The last part warns; in those before it a warning of that kind is a failure.
            parts = [*PLAIN_PARTS, *(installed if world_size == 2 else []), "warned"]
            arguments = ["--standalone", f"--nproc-per-node={world_size}", str(JOB), str(folder), str(tmp_path), *parts]
            # By loopback: the name of a machine need not lead to an address of it.
            interface = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
            environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": interface}
            run_child(f"from torch.distributed.run import main\nmain({arguments})", timeout=150, env=environment)
            jobs[world_size] = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world_size)]
        return jobs[world_size]

    return run


@pytest.fixture(params=[2, 4])
def ranks(request: pytest.FixtureRequest, run_job: Any) -> list[dict[str, Any]]:
    """Returns the report of each rank of a torchrun of 2 or 4."""
    return run_job(request.param)


def test_every_rank_replaces_its_bad_samples_and_has_as_many_batches(ranks: list[Any]) -> None:
    told = [rank["bad samples"] for rank in ranks]
    noted: list[tuple[int, int]] = []
    for number, rank in enumerate(told):
        assert rank["fastload"] == rank["torch"]
        assert rank["ledger's name"] == f"bad.rank{number:04}.jsonl"
        assert {line["rank"] for line in rank["ledger"]} <= {number}
        noted += [(line["epoch"], line["index"]) for line in rank["ledger"]]
    assert len({str([len(epoch) for epoch in rank["fastload"]]) for rank in told}) == 1
    # Each is dealt to a rank in each epoch; repeats and substitutes may come besides.
    assert set(noted) == {(epoch, index) for epoch in range(3) for index in told[0]["bad"]}


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_rank_gets_the_bytes_of_torchs_loader_in_each_epoch(ranks: list[Any], drop_last: bool) -> None:
    for rank in ranks:
        assert rank["loaders"][f"fastload {drop_last}"] == rank["loaders"][f"torch {drop_last}"]
        epochs = rank["loaders"][f"fastload {drop_last}"]
        assert epochs[0] != epochs[1] != epochs[2]
        num_samples = sum(len(indices) for epoch in epochs for _, indices in epoch)
        assert rank["loaders"][f"native {drop_last}"] == num_samples


@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_take_equally_many_steps_and_share_all_samples(ranks: list[Any], drop_last: bool) -> None:
    world_size = len(ranks)
    for epoch in range(3):
        batches = [rank["loaders"][f"fastload {drop_last}"][epoch] for rank in ranks]
        assert len({tuple(len(indices) for _, indices in of_rank) for of_rank in batches}) == 1
        counts = Counter(index for of_rank in batches for _, indices in of_rank for index in indices)
        if drop_last:
            assert max(counts.values()) == 1
            assert len(counts) == NUM_IMAGES // world_size * world_size
        else:
            assert sorted(counts) == list(range(NUM_IMAGES))
            assert counts.total() == -(-NUM_IMAGES // world_size) * world_size
            assert max(counts.values()) <= 2


def test_auto_shares_the_processors_among_the_ranks(ranks: list[Any]) -> None:
    for rank in ranks:
        shared, alone = rank["processors"]
        assert shared == max(1, alone // len(ranks))


def test_only_unsharded_loaders_are_warned_of_and_only_once(ranks: list[Any]) -> None:
    for rank in ranks:
        *sharded, first, second, third = rank["warned"]
        assert sharded == [[], [], []]
        (text,) = first
        assert text.startswith(f"The process group has {len(ranks)} ranks, and this DataLoader gives every sample to")
        assert second == third == []


def assert_recipe_holds(ranks: list[Any], title: str, samples_per_epoch: int) -> None:
    for rank in ranks:
        told = rank[title]
        assert told["fastload"] == told["torch"]
        assert len(told["fastload"]) == 2 * -(-NUM_IMAGES // len(ranks) // 4)
        assert told["native"] == told["images"] == 2 * samples_per_epoch
    assert len({tuple(rank[title]["fastload"]) for rank in ranks}) == len(ranks)


def test_the_recipe_of_plain_ddp_trains_on_torchs_batches(ranks: list[Any]) -> None:
    assert_recipe_holds(ranks, "DistributedDataParallel", -(-NUM_IMAGES // len(ranks)))


@pytest.mark.parametrize("title", FRAMEWORKS)
def test_recipes_of_frameworks_train_on_torchs_batches_on_two_ranks(run_job: Any, title: str) -> None:
    if not is_installed(title):
        pytest.skip(f"{FRAMEWORKS[title]} is not installed, or takes no torch {torch.__version__}")
    # Accelerate, and Trainer with it, deal out batches of 4 and fill up the last one; Lightning deals out samples.
    assert_recipe_holds(run_job(2), title, 7 if title == "Lightning" else 8)


def test_accelerates_ways_to_share_out_batches_give_those_of_torchs_loader(run_job: Any) -> None:
    pytest.importorskip("accelerate")
    ranks = run_job(2)
    for name in ranks[0]["Accelerate's ways"]:
        for number, rank in enumerate(ranks):
            told = rank["Accelerate's ways"][name]
            assert told["fastload"] == told["torch"], name
            assert all(told["fastload"]), name
            # Dispatched batches are taken by the first rank, and sent by it.
            assert (told["batches"] > 0) == (number == 0 or "dispatched" not in name), name
            if told["batches"] > 0:  # else threads have begun some that nobody waits for
                assert (told["by_python"] == 0) == ("images" in name), name
                assert (told["native"] == 0) == ("stream" in name), name


# ---- fastload.ShardedSampler -----------------------------------------------------------------------------------------


def in_turn(lists: list[list[Any]]) -> list[Any]:
    """Returns the samples in the order in which they were dealt out to the ranks."""
    steps = range(max(map(len, lists)))
    return [of_rank[step] for step in steps for of_rank in lists if step < len(of_rank)]


def test_two_ranks_go_on_where_four_were_stopped(run_job: Any) -> None:
    stopped, resumed = ([rank["elastic"] for rank in run_job(world_size)] for world_size in (4, 2))
    assert [rank["state"] for rank in stopped] == [{"epoch": 1, "position": 8, "length": 14, "seed": 5}] * 4
    assert [len(rank["after"]) for rank in resumed] == [3, 3]
    whole = in_turn([rank["before"] for rank in stopped]) + in_turn([rank["after"] for rank in resumed])
    assert sorted(index for index, _ in whole) == list(range(NUM_IMAGES))
    uninterrupted = in_turn([rank["before"] for rank in resumed])
    uninterrupted += in_turn([rank["after"][: rank["num_real"]] for rank in stopped])
    rank_of_four = fastload.ShardedSampler(NUM_IMAGES, num_replicas=1, rank=0, seed=5)
    rank_of_four.set_epoch(1)
    assert [index for index, _ in whole] == list(rank_of_four)
    assert whole == uninterrupted  # digests of the images, too
    # Six samples are left to four ranks: two of them get a repeat, in their last step.
    assert [rank["real"] for rank in stopped] == [[2], [2], [1], [1]]


def test_with_blocks_two_nodes_go_on_where_four_ranks_of_one_were_stopped(run_job: Any) -> None:
    stopped, resumed = ([rank["elastic in blocks"] for rank in run_job(world_size)] for world_size in (4, 2))
    blocks = {"block_size": 3, "window_blocks": 2, "canonical_nodes": 4}
    state = {"epoch": 1, "position": 8, "length": NUM_IMAGES, "seed": 5, **blocks}
    assert [rank["state"] for rank in stopped] == [state] * 4
    assert ([rank["node"] for rank in stopped], [rank["node"] for rank in resumed]) == ([0] * 4, [0, 1])

    def samples(ranks: list[Any], name: str) -> list[Any]:
        return sorted(
            sample for rank in ranks for sample in rank[name][: rank["num_real"] if name == "after" else None]
        )

    assert samples(stopped, "before") == samples(resumed, "before")  # digests of the images, too
    assert samples(stopped, "after") == samples(resumed, "after")
    whole = samples(stopped, "before") + samples(resumed, "after")
    assert sorted(index for index, _ in whole) == list(range(NUM_IMAGES))


def test_lightning_leaves_the_samples_as_they_are_dealt(run_job: Any) -> None:
    pytest.importorskip("lightning")
    for number, rank in enumerate(run_job(2)):
        told = rank["Lightning's treatment"]
        sampler = torch.utils.data.DistributedSampler(range(NUM_IMAGES), 2, number, seed=5)  # type: ignore[arg-type]
        expected = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            expected += list(BatchSampler(sampler, 3, False))
        assert told["trainer"] == told["fabric"] == expected
        assert told["same"]


def test_ranks_that_lightning_resumes_have_the_batches_of_a_whole_run(run_job: Any) -> None:
    pytest.importorskip("lightning")
    batches = -(-NUM_IMAGES // 2 // 4)  # of an epoch and rank
    for rank in run_job(2):
        told = rank["Lightning's checkpoints"]
        whole = told.pop("None")
        assert len(set(whole)) == len(whole) == 3 * batches
        for name, resumed in told.items():
            assert resumed == whole[batches if name == "end 0" else int(name) :], name


def test_accelerate_deals_out_again_and_is_warned_of(run_job: Any) -> None:
    pytest.importorskip("accelerate")
    told = [rank["Accelerate's treatment"] for rank in run_job(2)]
    for rank in told:
        (text,) = rank["prepared"]["warned"]
        assert text.startswith("The samples of this DataLoader are sharded twice: Accelerate shards the batches")
        assert rank["kept out"]["warned"] == []
    seen = {name: {i for rank in told for batch in rank[name]["labels"] for i in batch} for name in told[0]}
    assert len(seen["prepared"]) < NUM_IMAGES
    assert seen["kept out"] == set(range(NUM_IMAGES))


# ---- which loaders are warned of, on a process group that is pretended -----------------------------------------------


@pytest.fixture
def four_ranks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    _distributed._warn.cache_clear()
    yield
    _distributed._warn.cache_clear()


class Endless(torch.utils.data.IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class Shuffled(RandomSampler):
    """May know its rank."""


class OwnPart(Drawing):
    def __init__(self) -> None:
        super().__init__(13)
        self.rank = 1


DATASET = Drawing(13)
UNSHARDED: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "with a RandomSampler": {"sampler": RandomSampler(DATASET)},
    "with a SequentialSampler": {"sampler": SequentialSampler(DATASET)},
    "without batches": {"batch_size": None},
    "of a part of another size": {"dataset": Subset(DATASET, range(9))},
    "with threads": {"num_workers": 2, "persistent_workers": True},
}
SHARDED: dict[str, dict[str, Any]] = {
    "with a DistributedSampler": {"sampler": torch.utils.data.DistributedSampler(DATASET, 4, 1)},
    "with a ShardedSampler": {"sampler": fastload.ShardedSampler(DATASET, num_replicas=4, rank=1)},
    "with a batch_sampler": {"batch_sampler": BatchSampler(RandomSampler(DATASET), 2, False)},
    "with a sampler of the user's": {"sampler": range(1, 13, 4)},
    "with a sampler that derives from torch's": {"sampler": Shuffled(DATASET)},
    "of an iterable dataset": {"dataset": Endless()},
    "of a dataset that knows its rank": {"dataset": OwnPart(), "shuffle": True},
    "of this rank's part": {"dataset": Subset(DATASET, range(1, 13, 4)), "shuffle": True},
}


def warnings_of(arguments: dict[str, Any]) -> list[Any]:
    loader = fastload.DataLoader(**{"dataset": DATASET, **arguments})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        iter(loader)
    return [(str(warning.message), warning.filename) for warning in caught]


@pytest.mark.usefixtures("four_ranks")
@pytest.mark.parametrize("arguments", UNSHARDED.values(), ids=UNSHARDED)
def test_a_loader_that_gives_every_rank_everything_is_warned_of(arguments: dict[str, Any]) -> None:
    ((text, place),) = warnings_of(arguments)
    assert text == (
        "The process group has 4 ranks, and this DataLoader gives every sample to each of them: its sampler does not "
        "know the rank. To load each sample on one rank, pass sampler=fastload.ShardedSampler(dataset, "
        "shuffle=...) instead of shuffle=..., and call loader.sampler.set_epoch(epoch) before each epoch. If the "
        "dataset is this rank's part already, or every rank is to see all samples, ignore this."
    )
    assert place == __file__
    assert warnings_of(arguments) == []


@pytest.mark.usefixtures("four_ranks")
@pytest.mark.parametrize("arguments", SHARDED.values(), ids=SHARDED)
def test_a_loader_that_may_know_its_rank_is_not_warned_of(arguments: dict[str, Any]) -> None:
    assert warnings_of(arguments) == []


@pytest.mark.smoke
@pytest.mark.usefixtures("four_ranks")
def test_a_forked_child_is_warned_for_itself() -> None:
    assert len(warnings_of({})) == 1
    child = os.fork()
    if child == 0:
        os._exit(len(warnings_of({})))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_process_without_a_group_is_not_warned() -> None:
    assert warnings_of({}) == []
