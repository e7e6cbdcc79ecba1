"""The file in which a loader notes how each of its epochs begins: a state a line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from fastload._iteration.native._iterator import NativeIterator
from fastload._process._appended import append_lines
from fastload._process._distributed import rank_and_world_size
from fastload.samplers._resting import generators_of, kind_of, sharded_of


def check_journal(loader: Any, path: str | os.PathLike[str]) -> None:
    """Called before an epoch begins that is to be noted.

    Raises:
        ValueError: No epoch of such a loader can be made again.
        OSError: The file cannot be written.
    """
    plan = loader._native_plan_or_none()
    if plan is None:
        raise ValueError(f"journal={os.fspath(path)!r} needs native batches, but:\n{loader.explain()}")
    sampler = loader._index_sampler
    kind = kind_of(sampler)
    if kind in ("stateful", "asked again") and sharded_of(sampler) is None:
        raise ValueError(
            f"journal={os.fspath(path)!r} is of no use with a {_name_of(sampler)}, whose epochs cannot be made again: "
            "pass shuffle=True, one of torch's samplers, or a fastload.ShardedSampler"
        )
    draws_order = kind == "random" and not generators_of(sampler)
    if loader.num_workers == 0 and (plan.has_ordered_draws or draws_order):
        what = "random transforms draw" if plan.has_ordered_draws else f"a {_name_of(sampler)} draws"
        raise ValueError(
            f"journal={os.fspath(path)!r} needs num_workers >= 1 here: without workers {what} from torch's default "
            "generator while the program goes on, and no journal knows that. Take num_workers=1"
        )
    if rank_and_world_size()[0] == 0:
        _append(path, b"")


def note_epoch(iterator: NativeIterator, path: str | os.PathLike[str]) -> None:
    """Notes the epoch that `iterator` has begun; on rank 0, and not one that goes on, which was noted as it began."""
    if rank_and_world_size()[0] == 0 and iterator.position == 0:
        _append(path, json.dumps(iterator.state_dict()).encode() + b"\n")


def epoch_in_journal(path: str | os.PathLike[str], epoch: int) -> dict[str, Any]:
    """The state at that epoch's beginning: of an epoch that was begun several times the last one.

    Lines that are none, as a run leaves one that is killed while it writes, are passed over.

    Raises:
        ValueError: There is none, or the file cannot be read.
    """
    states: dict[int, dict[str, Any]] = {}
    try:
        with Path(path).open("rb") as lines:
            for line in lines:
                state = _state_in(line)
                if state is not None:
                    states[state["fastload"]["epoch"]] = state
    except OSError as error:
        raise ValueError(f"epoch {epoch} cannot be made again: the journal cannot be read: {error}") from error
    if epoch in states:
        return states[epoch]
    known = f"which has {len(states)} from {min(states)} to {max(states)}" if states else "in which no line is a state"
    raise ValueError(f"epoch {epoch} is not in the journal {os.fspath(path)!r}, {known}")


def _state_in(line: bytes) -> dict[str, Any] | None:
    try:
        state = json.loads(line)
    except (ValueError, RecursionError):
        return None
    ours = state.get("fastload") if isinstance(state, dict) else None
    return state if isinstance(ours, dict) and type(ours.get("epoch")) is int else None


def _append(path: str | os.PathLike[str], lines: bytes) -> None:
    name = os.fspath(path)
    try:
        append_lines(name, lines, is_first=True, is_synced=True)
    except OSError as error:
        problem = f"the journal cannot be written ({error.strerror or error}): pass journal= a file in a folder that is"
        raise OSError(error.errno, f"{problem} there, or leave it out", name) from error


def _name_of(index_sampler: Any) -> str:
    return type(getattr(index_sampler, "sampler", index_sampler)).__name__
