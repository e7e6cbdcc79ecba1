"""The keys at the top of a state: the keys of torchdata's StatefulDataLoader, with the same meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastload._resume._fields import Fields
from fastload._resume._user_state import UserState

_SNAPSHOT = "_snapshot"
_WORKERS = "_worker_snapshots"


@dataclass(frozen=True)
class TorchdataKeys:
    """The values of these keys.

    Attributes:
        num_yielded: Number of the epoch's batches that were handed out.
        steps_since: Number of batches after the snapshot. A loader resumes at the snapshot and makes them again.
        is_finished: Whether the epoch is over.
        num_workers: The loader's number of workers.
        base_seed: The workers' base seed.
        last_worker: Number of the worker that made the batch before the snapshot.
        is_of_stream: Whether the samples come from a stream.
        users: States of the data set and the stream in each worker, or in the program without workers; None if there
            are none.
    """

    num_yielded: int
    steps_since: int
    is_finished: bool
    num_workers: int
    base_seed: int | None
    last_worker: int
    is_of_stream: bool
    users: tuple[UserState, ...] | None

    def as_dict(self) -> dict[str, Any]:
        """Returns a new dict for each call."""
        users = self.users or (UserState(),) * max(1, self.num_workers)
        dicts = [user_dict(user, is_of_stream=self.is_of_stream) for user in users]
        top: dict[str, Any] = {
            **_sampled(self.num_yielded),
            "_num_yielded": self.num_yielded,
            **(dicts[0] if self.num_workers == 0 else {}),
            "_iterator_finished": self.is_finished,
        }
        if self.num_workers > 0:
            step = self.num_yielded - self.steps_since
            top[_SNAPSHOT] = {
                "_snapshot_step": step,
                "_last_yielded_worker_id": self.last_worker,
                "_main_snapshot": {"_num_workers": self.num_workers, "_base_seed": self.base_seed, **_sampled(step)},
                _WORKERS: {f"worker_{number}": {"worker_id": number, **each} for number, each in enumerate(dicts)},
            }
            top["_steps_since_snapshot"] = self.steps_since
        return top


def _sampled(num_yielded: int) -> dict[str, Any]:
    return {
        "_index_sampler_state": None,
        "_sampler_iter_state": None,
        "_sampler_iter_yielded": num_yielded,
        "_IterableDataset_len_called": None,
        "_shared_seed": None,
    }


def user_dict(user: UserState, *, is_of_stream: bool) -> dict[str, Any]:
    of_stream = {"dataset_iter_state": user.iterator, "fetcher_ended": user.has_ended}
    return {"dataset_state": user.dataset, "fetcher_state": of_stream if is_of_stream else None}


def user_fields(top: Fields, num_workers: int) -> list[Fields]:
    """Returns the dicts with the states of data set and stream: one per worker, or the program's. Raises StateError."""
    if num_workers == 0:
        return [top]
    workers = top.dict(_SNAPSHOT).dict(_WORKERS)
    return [workers.dict(f"worker_{number}") for number in range(num_workers)]


def user_path(num_workers: int, worker: int) -> str:
    """Returns the path of one of these dicts, for a message."""
    return f"{_SNAPSHOT}.{_WORKERS}.worker_{worker}." if num_workers > 0 else ""


def parsed_user(fields: Fields) -> UserState:
    """Reads a dict made by user_dict(). Raises StateError if it is not one."""
    if fields.any("fetcher_state") is None:
        return UserState(fields.any("dataset_state"))
    stream = fields.dict("fetcher_state")
    return UserState(fields.any("dataset_state"), stream.any("dataset_iter_state"), stream.flag("fetcher_ended"))
