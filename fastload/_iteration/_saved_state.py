"""The state that state_dict() returns and load_state_dict() takes.

Note [layout of a state]
The keys at the top are the keys of torchdata's StatefulDataLoader, with the same meaning, because frameworks read and
write them. Everything that fastload needs is in one more key, "fastload". A state contains only dict, list, str, int,
float, bool and None, except the results of a sampler's, a data set's or a stream's own state_dict(), which are included
unchanged. A state is saved at one of three moments:

| moment | position | next |
|---|---|---|
| before the first epoch | 0 | an epoch that draws its seeds, as always |
| in an epoch | batches handed out in it | the rest of it, which draws nothing from the program's generators |
| between epochs | 0, in the next one | as in the first row, but persistent workers resume with their generators |

The state of a stream, or of a stateful data set, is not known after every batch. A saved state then starts at its last
snapshot, and says how many batches were handed out after the snapshot: these are made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch

from fastload._errors import StateError
from fastload._iteration._saved_worker import SNAPSHOT, WORKERS, SavedWorker, parsed_user, user_dict, user_fields
from fastload._resume._fields import Fields
from fastload._resume._generators import torch_state, torch_text
from fastload._resume._user_state import UserState
from fastload._workers._native_draws import check_draws
from fastload.samplers._resting import SavedSampler

VERSION = 1
_MAX_WORKERS = 4096

# How the batches are made: by native code, by native code and then Python transforms ("tail"), or by Python.
Way = Literal["native", "tail", "python"]
_WAYS: tuple[Way, ...] = ("native", "tail", "python")

Moment = Literal["not begun", "in an epoch", "between epochs"]
_MOMENTS: tuple[Moment, ...] = ("not begun", "in an epoch", "between epochs")


@dataclass(frozen=True)
class SavedState:
    """A state: Note [layout of a state].

    Attributes:
        moment: See the note.
        rng, seed: The loader's arguments.
        epoch: The epoch that is resumed, or that comes next.
        position: Number of its batches that were handed out.
        num_yielded: The same; between epochs, the number of batches in the epoch that is over.
        sampler: Position of the sampler.
        world: Rank and number of ranks.
        generator: State of the loader's generator, if it has one and the sampler's state does not include it.
        base_seed: Base seed of the workers, if they resume.
        resets: How often persistent workers have begun another epoch, if they resume.
        draws: Each worker's generator for native draws, as text. Without workers: the generator of the next batch, if
            that has drawn from the program's generator and was not handed out. None if draws have no order.
        fingerprint: Fingerprint of data set, sampler and transform; None before the first epoch.
        draws_anew: Whether the draws belong to another position, so that workers draw as at the start of an epoch.
        way: How the batches are made; None before the first epoch.
        workers: State of each worker that runs Python; without workers, of the program if samples change its state.
            None if there is no such state, or no batch depends on earlier ones.
        replayed: How many of the batches that were handed out are made again.
        next_worker: The worker of a stream that makes the first batch after resuming; None if there is no stream.
        graph_seed: The seed of a data pipe in the epoch that is resumed, or None.
    """

    moment: Moment
    rng: str
    seed: int | None
    epoch: int
    position: int
    num_yielded: int
    num_workers: int
    sampler: SavedSampler
    world: tuple[int, int]
    generator: torch.Tensor | None = None
    base_seed: int | None = None
    resets: int = 0
    draws: tuple[str, ...] | None = None
    fingerprint: Mapping[str, Any] | None = None
    draws_anew: bool = False
    way: Way | None = None
    workers: tuple[SavedWorker, ...] | None = None
    replayed: int = 0
    next_worker: int | None = None
    graph_seed: int | None = None

    @property
    def begins_at(self) -> int:
        """The position of the first batch that is requested."""
        return self.position - self.replayed

    @property
    def has_draws(self) -> bool:
        """Whether it contains each worker's generators."""
        return self.draws is not None or self.workers is not None

    def without_draws(self) -> SavedState:
        """Returns a state at the same position, from which workers draw new random numbers."""
        if self.next_worker is None:
            return replace(self, draws=None, workers=None, draws_anew=True, replayed=0)
        return replace(self, workers=None, draws_anew=True, replayed=self.position, next_worker=0)

    @property
    def goes_on(self) -> bool:
        """Whether workers that have begun resume: within an epoch, or with the next one if they are persistent."""
        return self.base_seed is not None

    def as_dict(self) -> dict[str, Any]:
        """Returns a new dict for each call."""
        ours: dict[str, Any] = {
            "version": VERSION,
            "way": self.way,
            "moment": self.moment,
            "rng": self.rng,
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "base_seed": self.base_seed,
            "resets": self.resets,
            "num_workers": self.num_workers,
            "sampler": self.sampler.as_dict(),
            "world": list(self.world),
            "fingerprint": None if self.fingerprint is None else dict(self.fingerprint),
        }
        optional = {
            "draws": None if self.draws is None else list(self.draws),
            "workers": None if self.workers is None else [worker.as_dict() for worker in self.workers],
            "replayed": self.replayed or None,
            "next_worker": self.next_worker,
            "graph_seed": self.graph_seed,
            "generator": None if self.generator is None else torch_text(self.generator),
        }
        ours |= {name: value for name, value in optional.items() if value is not None}
        return {**self._torchdatas(), "fastload": ours}

    def _torchdatas(self) -> dict[str, Any]:
        """Returns the keys of torchdata, which resumes at the snapshot and makes the batches after it again."""
        num_workers = self.num_workers
        users = (UserState(),) * max(1, num_workers) if self.workers is None else [each.user for each in self.workers]
        dicts = [user_dict(user, is_of_stream=self.next_worker is not None) for user in users]
        top: dict[str, Any] = {
            **_sampled(self.num_yielded),
            "_num_yielded": self.num_yielded,
            **(dicts[0] if num_workers == 0 else {}),
            "_iterator_finished": self.moment == "between epochs",
        }
        if num_workers > 0:
            steps_since = self.replayed if any(user.is_known for user in users) else 0
            step = self.num_yielded - steps_since
            turn = self.num_yielded if self.next_worker is None else self.next_worker
            top[SNAPSHOT] = {
                "_snapshot_step": step,
                "_last_yielded_worker_id": (turn - 1) % num_workers,
                "_main_snapshot": {"_num_workers": num_workers, "_base_seed": self.base_seed, **_sampled(step)},
                WORKERS: {f"worker_{number}": {"worker_id": number, **each} for number, each in enumerate(dicts)},
            }
            top["_steps_since_snapshot"] = steps_since
        return top

    @classmethod
    def parse(cls, state: Any) -> SavedState:
        """Reads a dict made by as_dict(). Raises StateError, which names the field, if it is not one."""
        top = Fields(state)
        if "fastload" not in top:
            raise _foreign(top)
        ours = top.dict("fastload")
        if ours.any("version") != VERSION or type(ours.any("version")) is not int:
            raise ours.error(
                "version", f"must be {VERSION}, got {ours.shown('version')}", "load it with the fastload that saved it"
            )
        saved = _parse_ours(ours, top)
        return _with_changes(saved, top)


def _sampled(num_yielded: int) -> dict[str, Any]:
    return {
        "_index_sampler_state": None,
        "_sampler_iter_state": None,
        "_sampler_iter_yielded": num_yielded,
        "_IterableDataset_len_called": None,
        "_shared_seed": None,
    }


def _foreign(top: Fields) -> StateError:
    """Returns the error for a state that is not fastload's."""
    if "_snapshot" in top or "_index_sampler_state" in top:
        return top.error(
            "fastload",
            "is missing: torchdata's StatefulDataLoader made the state, and fastload.DataLoader cannot continue it",
            "finish the epoch with torchdata's loader, or start it again",
        )
    return top.error(
        "fastload",
        "is missing: no fastload.DataLoader made the state",
        "load a dict that state_dict() of a loader has returned",
    )


def _parse_ours(ours: Fields, top: Fields) -> SavedState:
    moment = cast(Moment, ours.choice("moment", _MOMENTS))
    num_workers = ours.whole("num_workers", _MAX_WORKERS + 1)
    way = cast("Way | None", ours.choice("way", (None, *_WAYS)))
    saved = SavedState(
        moment,
        ours.choice("rng", ("torch", "sample")),
        ours.whole_or_none("seed"),
        ours.whole("epoch", 2**63),
        ours.whole("position", 2**63),
        ours.whole("position", 2**63),
        num_workers,
        SavedSampler.parse(ours.dict("sampler")),
        _world_of(ours),
        torch_state(ours.path_of("generator"), ours.any("generator")) if "generator" in ours else None,
        ours.whole_or_none("base_seed", 2**63),
        ours.whole("resets", 2**63),
        _draws_of(ours, num_workers) if "draws" in ours else None,
        None if way is None else _fingerprint_of(ours.dict("fingerprint"), way),
        way=way,
        workers=_workers_of(ours, top, num_workers) if "workers" in ours else None,
        replayed=ours.whole("replayed", ours.whole("position", 2**63) + 1) if "replayed" in ours else 0,
        next_worker=ours.whole("next_worker", max(1, num_workers)) if "next_worker" in ours else None,
        graph_seed=ours.whole("graph_seed", 2**63) if "graph_seed" in ours else None,
    )
    if way is None and ours.any("fingerprint") is not None:
        raise ours.error("fingerprint", "must be None if way is None: no epoch has begun")
    if (saved.moment == "not begun") != (way is None):
        allowed = "None" if way else f"one of {', '.join(map(repr, _WAYS))}"
        raise ours.error("way", f"must be {allowed} for a state that is {moment!r}")
    if saved.moment != "in an epoch" and saved.position != 0:
        raise ours.error("position", f"must be 0 for a state that is {moment!r}, got {saved.position}")
    if saved.goes_on not in {"not begun": (False,), "in an epoch": (True,), "between epochs": (False, True)}[moment]:
        raise ours.error("base_seed", f"does not fit a state that is {moment!r}, got {saved.base_seed}")
    if saved.replayed and saved.workers is None:
        raise ours.error("workers", f"is missing, and {saved.replayed} batches after it have to be made again")
    for name, others in (("draws", ("tail", "python")), ("workers", ("native", None))):
        is_of_program = name == "workers" and num_workers == 0
        if name in ours and (way in others or not (saved.goes_on or is_of_program)):
            why = f"way is {way!r}" if saved.goes_on else "base_seed is None"
            raise ours.error(name, f"belong to workers that resume, and there are none: {why}")
    return saved


def _with_changes(saved: SavedState, top: Fields) -> SavedState:
    """Returns `saved` with the changes that a program has made to the keys at the top, which take precedence."""
    num_yielded, is_finished = top.whole("_num_yielded", 2**63), top.flag("_iterator_finished")
    if top.whole("_sampler_iter_yielded", 2**63) != num_yielded:
        raise top.error(
            "_sampler_iter_yielded", f"must equal _num_yielded, which is {num_yielded}: there is one sampler for both"
        )
    saved = replace(saved, num_yielded=num_yielded)
    if saved.moment != "in an epoch":
        return saved
    if is_finished:
        return replace(
            saved,
            moment="between epochs",
            epoch=saved.epoch + 1,
            position=0,
            base_seed=None,
            resets=0,
            draws=None,
            workers=None,
            replayed=0,
            sampler=SavedSampler(saved.sampler.kind, saved.sampler.epoch, generators=saved.sampler.generators),
        )
    if num_yielded == saved.position:
        return saved
    if saved.workers is not None and saved.next_worker is not None and num_yielded >= saved.begins_at:
        return replace(saved, position=num_yielded, replayed=num_yielded - saved.begins_at)
    sampler = _moved(saved, num_yielded, top) if saved.sampler.kind == "stateful" else saved.sampler
    return replace(saved, position=num_yielded, sampler=sampler).without_draws()


_COUNTED = ("ShardedSampler(", "SeededShuffle(")


def _moved(saved: SavedState, num_yielded: int, top: Fields) -> SavedSampler:
    """Returns the position of a stateful sampler after `num_yielded` batches, if its state counts samples.

    Raises:
        StateError: The sampler's state has another form, or no such position.
    """
    assert saved.fingerprint is not None, "an epoch has begun"
    state, batch_size = saved.sampler.state, saved.fingerprint["batch_size"]
    if saved.fingerprint["sampler"].startswith(_COUNTED) and type(state) is dict and type(batch_size) is int:
        position, length = state.get("position"), state.get("length")
        if type(position) is int and type(length) is int:
            position += (num_yielded - saved.begins_at) * batch_size
            if 0 <= position <= length:
                return replace(saved.sampler, state={**state, "position": position})
    raise top.error("_num_yielded", f"is {num_yielded}, and the sampler's state is for position {saved.begins_at}")


def _world_of(ours: Fields) -> tuple[int, int]:
    world = ours.any("world")
    if type(world) is not list or len(world) != 2 or any(type(value) is not int for value in world):
        raise ours.error("world", "must be a list of two ints: rank and number of ranks")
    rank, size = world
    if not 0 <= rank < size < 2**31:
        raise ours.error("world", f"must be a rank below the number of ranks, got {rank} of {size}")
    return rank, size


def _draws_of(ours: Fields, num_workers: int) -> tuple[str, ...]:
    texts = ours.texts("draws")
    if len(texts) != max(1, num_workers):
        raise ours.error(
            "draws", f"must be {max(1, num_workers)} texts with num_workers={num_workers}, got {len(texts)}"
        )
    for worker, text in enumerate(texts):
        check_draws(f"{ours.path_of('draws')}[{worker}]", text)
    return tuple(texts)


def _workers_of(ours: Fields, top: Fields, num_workers: int) -> tuple[SavedWorker, ...]:
    values, number = ours.any("workers"), max(1, num_workers)
    if type(values) is not list or len(values) != number:
        found = len(values) if type(values) is list else ours.shown("workers")
        raise ours.error("workers", f"must be a list of {number} dicts, as num_workers says, got {found}")
    path, users = ours.path_of("workers"), map(parsed_user, user_fields(top, num_workers))
    return tuple(
        SavedWorker.parse(Fields(value, f"{path}[{worker}]"), user)
        for worker, (value, user) in enumerate(zip(values, users, strict=True))
    )


_FINGERPRINT = ("samples", "batch_size", "drop_last", "sampler")
_NATIVE_FINGERPRINT = (*_FINGERPRINT, "paths", "transform")


def _fingerprint_of(fields: Fields, way: Way) -> dict[str, Any]:
    names = _NATIVE_FINGERPRINT if way == "native" else _FINGERPRINT
    found: dict[str, Any] = {name: fields.any(name) for name in names}
    fields.whole_or_none("samples", 2**63)
    fields.whole_or_none("batch_size", 2**63)
    fields.flag("drop_last")
    for name in set(names) - {"samples", "batch_size", "drop_last"}:
        fields.text(name)
    return {**found, "on_error": fields.text("on_error") if "on_error" in fields else "raise"}
