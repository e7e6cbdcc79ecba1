"""Checks whether a saved state fits a loader, before anything in the loader changes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastload._errors import StateError
from fastload._iteration._fingerprint import LENIENT
from fastload._iteration._saved_state import SavedState, Way
from fastload._iteration._setup import LoaderArguments
from fastload._process._distributed import rank_and_world_size
from fastload.samplers._resting import check_generators, kind_of, sharded_of


def check_settings_of(saved: SavedState, rng: str, seed: int | None, index_sampler: Any) -> None:
    """Raises StateError if a state is from a loader with other random numbers or another kind of sampler."""
    for name, theirs, ours in (("rng", saved.rng, rng), ("seed", saved.seed, seed)):
        if theirs != ours:
            raise StateError(
                f"fastload.{name}", f"is {theirs!r}, and this loader's is {ours!r}", f"give it {name}={theirs!r}"
            )
    kind = kind_of(index_sampler)
    if saved.sampler.kind != kind:
        raise StateError(
            "fastload.sampler.kind",
            f"is {saved.sampler.kind!r}, and this loader's sampler is {kind!r}",
            "make the loader with the sampler that it had when the state was saved",
        )
    check_generators(index_sampler, saved.sampler)
    _check_position(saved, index_sampler)


def _check_position(saved: SavedState, index_sampler: Any) -> None:
    try:
        length = len(index_sampler)
    except TypeError:
        return
    if saved.position > length:
        field = "_num_yielded" if saved.draws_anew else "fastload.position"
        raise StateError(field, f"is {saved.position}, and an epoch of this loader has {length} batches")


@dataclass(frozen=True)
class ResumeRequirements:
    """Properties of a loader that a state must fit.

    Attributes:
        way: How the loader's batches are made.
        fingerprint: The settings and data that the batches depend on.
        has_ordered_draws: Whether a worker's batch depends on the batches that it made before.
    """

    way: Way
    fingerprint: Mapping[str, Any]
    has_ordered_draws: bool


_IN_WORDS: Mapping[Way, str] = {
    "native": "made natively",
    "tail": "made in Python after a native part",
    "python": "made in Python",
}


def check_way(requirements: ResumeRequirements, saved: SavedState) -> None:
    """Raises StateError if a state's batches were made in another way than the loader makes them now."""
    if saved.way is not None and saved.way != requirements.way:
        raise StateError(
            "fastload.way",
            f"is {saved.way!r}, and this loader's batches are {_IN_WORDS[requirements.way]}",
            "make the loader as it was when the state was saved; explain() says how its batches are made",
        )


def checked_against(
    requirements: ResumeRequirements, saved: SavedState, arguments: LoaderArguments, *, strict: bool
) -> SavedState:
    """Returns `saved`, adapted to the loader. Raises StateError if it does not fit, or warns if `strict` is False."""
    assert saved.fingerprint is not None, "an epoch has begun"
    check_way(requirements, saved)
    _check_kind(saved, is_of_stream=arguments.is_of_stream)
    for name, value in requirements.fingerprint.items():
        theirs = saved.fingerprint[name]
        if type(theirs) is type(value) and theirs == value:
            continue
        problem = f"{LENIENT.get(name, name)}: the state has {theirs!r}, and this loader has {value!r}"
        if strict or name not in LENIENT:
            next_step = "make the loader as it was when the state was saved"
            if name in LENIENT:
                next_step = "pass strict=False to load it anyway"
            raise StateError(f"fastload.fingerprint.{name}", problem, next_step)
        warnings.warn(
            f"the state does not fit the loader in {problem}; it is loaded because of strict=False", stacklevel=4
        )
        if name == "batch_size":
            saved = _with_batch_size(saved, theirs, value, is_elastic=sharded_of(arguments.index_sampler) is not None)
        if name == "transform":
            saved = saved.without_draws()
    return _with_draws(requirements, saved, arguments, strict=strict)


def _check_kind(saved: SavedState, *, is_of_stream: bool) -> None:
    """Raises StateError if only one of the two is for a stream."""
    if is_of_stream == (saved.next_worker is not None):
        return
    problem = "is from a stream, and this loader's data set is not an IterableDataset"
    if is_of_stream:
        problem = "is missing: the state is from a data set with __getitem__, and this loader's is an IterableDataset"
    next_step = "take the data set that the loader had when the state was saved"
    raise StateError("fastload.next_worker", problem, next_step)


def _with_batch_size(saved: SavedState, theirs: Any, ours: Any, *, is_elastic: bool) -> SavedState:
    """Returns `saved` after the same samples, counted in batches of another size."""
    if saved.position == 0:
        return saved
    if saved.next_worker is not None or (is_elastic and saved.replayed):
        raise StateError(
            "fastload.fingerprint.batch_size",
            f"the batches of {theirs} that were handed out have to be made again, got {ours}",
            f"take batch_size={theirs}",
        )
    # If the sampler's own state counts samples, a partial batch is no problem.
    is_counted = is_elastic and type(theirs) is int
    is_whole = type(theirs) is int and type(ours) is int and ours >= 1 and saved.position * theirs % ours == 0
    if not is_counted and not is_whole:
        raise StateError(
            "fastload.fingerprint.batch_size",
            f"{saved.position} batches of {theirs} were handed out, which is not a whole number of batches of {ours}",
            "use a batch_size that divides the number of samples, or start the epoch again",
        )
    if not is_counted and saved.sampler.kind not in ("fixed", "random"):
        raise StateError(
            "fastload.fingerprint.batch_size",
            f"a sampler of kind {saved.sampler.kind!r} resumes only with batches of {theirs}, got {ours}",
            f"take batch_size={theirs}",
        )
    position = saved.position * theirs // ours
    return replace(saved, position=position, num_yielded=position).without_draws()


def _with_draws(
    requirements: ResumeRequirements, saved: SavedState, arguments: LoaderArguments, *, strict: bool
) -> SavedState:
    """Returns `saved`, without its draws if they belong to another rank or position."""
    if not requirements.has_ordered_draws or not saved.goes_on:
        return saved
    if arguments.num_workers == 0:
        if arguments.is_of_stream and saved.workers is None:
            raise StateError("fastload.workers", "is missing, and a stream resumes from it")
        return saved
    rank, size = rank_and_world_size()
    if saved.has_draws and saved.world[1] != size:
        if strict:
            raise StateError(
                "fastload.world",
                f"is for {saved.world[1]} ranks, and there are {size}: with rng='torch' random transforms then draw "
                "other numbers",
                "pass strict=False to draw new numbers from here on; states of rng='sample' fit any number of ranks",
            )
        _warn_of_new_draws(f"the state is for {saved.world[1]} ranks, and there are {size}")
        return saved.without_draws()
    if saved.has_draws and saved.world[0] != rank:
        _warn_of_new_draws(f"the state is from rank {saved.world[0]}, and this is rank {rank}")
        return saved.without_draws()
    if saved.draws_anew:
        _warn_of_new_draws("its position, batch size or transform does not match the saved draws")
    elif not saved.has_draws and saved.num_workers == arguments.num_threads:
        name = "draws" if requirements.way == "native" else "workers"
        raise StateError(f"fastload.{name}", "is missing, and workers draw in order with rng='torch'")
    return saved


def _warn_of_new_draws(why: str) -> None:
    warnings.warn(
        f"the order resumes where it was, but random transforms draw new numbers: {why}. With rng='sample', draws "
        "depend only on the sample",
        stacklevel=5,
    )


def check_num_workers(requirements: ResumeRequirements, saved: SavedState, num_workers: int) -> None:
    """Raises StateError if resumed draws depend on the number of workers and it has changed."""
    goes_on = (saved.goes_on and not saved.draws_anew) or saved.workers is not None
    if not requirements.has_ordered_draws or not goes_on or saved.num_workers == num_workers:
        return
    if saved.rng == "torch" and saved.next_worker is None:
        raise StateError(
            "fastload.num_workers",
            f"is {saved.num_workers}, and this loader has {num_workers}: with rng='torch' random transforms then draw "
            "other numbers",
            f"use num_workers={saved.num_workers}; states of rng='sample' fit any number of workers",
        )
    raise StateError(
        "fastload.num_workers",
        f"is {saved.num_workers}, and this loader has {num_workers}: each worker resumes its part of a stream, or its "
        "copy of the data set",
        f"use num_workers={saved.num_workers}, or num_streams={saved.num_workers}",
    )


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """Copies a state's own dicts and lists; other objects in it are shared.

    Raises:
        StateError: The state is nested too deeply, or contains itself.
    """
    try:
        return {name: _copied(value) for name, value in state.items()}
    except RecursionError:
        raise StateError("state", "is nested too deeply, or contains itself") from None


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(inner) for inner in value] if type(value) is list else value
