"""States of torchdata's own StatefulDataLoader, in the layout that it gives them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import recipes
import torch
from resumed_runs import NUM_IMAGES, StatefulCounter
from stream_runs import StatefulDataset, rest_of
from torch.utils.data import BatchSampler, DistributedSampler
from torchvision.datasets import ImageFolder

import fastload


def torchdata_state(
    num_workers: int, position: int, sampler_iter: Any = None, index_sampler: Any = None, since: int = 0, **changes: Any
) -> dict[str, Any]:
    """As torchdata 0.11 gives one."""
    sampled = {
        "_index_sampler_state": index_sampler,
        "_sampler_iter_state": sampler_iter,
        "_sampler_iter_yielded": position - since,
        "_IterableDataset_len_called": None,
        "_shared_seed": None,
    }
    finished = {"_iterator_finished": False, **changes}
    if num_workers == 0:
        return {**sampled, "_num_yielded": position, "fetcher_state": None, "dataset_state": None, **finished}
    snapshot = {
        "_snapshot_step": position - since,
        "_last_yielded_worker_id": (position - 1) % num_workers,
        "_main_snapshot": {"_num_workers": num_workers, "_base_seed": 5, **sampled},
        "_worker_snapshots": {
            f"worker_{worker}": {"worker_id": worker, "dataset_state": None, "fetcher_state": None}
            for worker in range(num_workers)
        },
    }
    return {"_snapshot": snapshot, "_steps_since_snapshot": since, **finished}


def load(loader: Any, state: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="of torchdata's StatefulDataLoader: its position and order count"):
        loader.load_state_dict(state)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_position_and_fixed_order_go_on(num_workers: int) -> None:
    def make() -> Any:
        return fastload.DataLoader(list(range(22)), batch_size=3, num_workers=num_workers)

    loader = make()
    load(loader, torchdata_state(num_workers, 4, since=num_workers))
    assert [batch.tolist() for batch in loader] == [batch.tolist() for batch in make()][4:]
    load(loader, torchdata_state(num_workers, 8, _iterator_finished=True))
    assert len(list(loader)) == 8


def test_native_batches_go_on_in_the_order_of_a_distributed_sampler(folder: Path) -> None:
    dataset = ImageFolder(str(folder), recipes.training(32))

    def make() -> Any:
        return fastload.DataLoader(dataset, 3, sampler=DistributedSampler(dataset, 2, 1, seed=4), num_workers=2)

    loader = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader.load_state_dict(torchdata_state(2, 2))
        assert [labels.tolist() for _, labels in loader] == [labels.tolist() for _, labels in make()][2:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_state_of_a_sampler_goes_on(num_workers: int) -> None:
    dataset = list(range(NUM_IMAGES))
    own = {"given": 6}
    for arguments, state in (
        ({"sampler": StatefulCounter(22), "batch_size": 3}, {"sampler_iter": {"sampler_state": own}}),
        ({"sampler": StatefulCounter(22), "batch_size": None}, {"index_sampler": own}),
        ({"batch_sampler": BatchSampler(StatefulCounter(22), 3, False)}, {"sampler_iter": {"sampler_state": own}}),
    ):
        loader = fastload.DataLoader(dataset, num_workers=num_workers, **arguments)  # type: ignore[arg-type]
        since = 1 if num_workers else 0
        position = (6 if arguments.get("batch_size", 3) is None else 2) + since
        load(loader, torchdata_state(num_workers, position, since=since, **state))
        found = [int(index) for batch in loader for index in torch.atleast_1d(torch.as_tensor(batch))]
        counter = StatefulCounter(22)
        counter.given = 6
        passed_over = since * (1 if arguments.get("batch_size", 3) is None else 3)
        assert found == list(counter)[passed_over:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_stream_is_asked_again(num_workers: int) -> None:
    def make() -> Any:
        return fastload.DataLoader(StatefulDataset(), batch_size=2, num_workers=num_workers)

    loader = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader.load_state_dict(torchdata_state(num_workers, 3))
        assert [batch[1] for batch in rest_of(iter(loader))] == [batch[1] for batch in rest_of(iter(make()))][3:]


def test_what_is_not_known_or_does_not_fit_is_named(folder: Path) -> None:
    def field(loader: Any, state: dict[str, Any]) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(fastload.StateError) as caught:
                loader.load_state_dict(state)
        return caught.value.field

    shuffled = fastload.DataLoader(list(range(22)), shuffle=True, num_workers=2)
    main = "_snapshot._main_snapshot."
    assert field(shuffled, torchdata_state(2, 3)) == main + "_sampler_iter_state"
    assert field(shuffled, torchdata_state(3, 3)) == main + "_num_workers"
    assert field(shuffled, torchdata_state(0, 3)) == "_num_workers"
    wrong = torchdata_state(2, 3)
    wrong["_snapshot"]["_snapshot_step"] = -1
    assert field(shuffled, wrong) == "_snapshot._snapshot_step"
    assert field(fastload.DataLoader(list(range(22)), num_workers=2), torchdata_state(2, 23)) == "_num_yielded"
    counted = fastload.DataLoader(list(range(22)), sampler=StatefulCounter(22), num_workers=2)
    assert field(counted, torchdata_state(2, 3, {"sampler_state": None})) == main + "_sampler_iter_state.sampler_state"
    dataset = ImageFolder(str(folder), recipes.training(32))
    native = fastload.DataLoader(dataset, 3, sampler=StatefulCounter(22), num_workers=2)
    between = torchdata_state(2, 3, {"sampler_state": {"given": 6}}, since=1)
    assert field(native, between) == "_steps_since_snapshot"
