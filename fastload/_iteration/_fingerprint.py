"""Fingerprint of everything that a loader's batches depend on: a state is loaded only if it is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from fastload._planning._plan import NativePlan
from fastload._process._interrupts import is_interrupt
from fastload.samplers._resting import describe_sampler, sharded_of
from fastload.sources._lowering import LoweredSource
from fastload.transforms._lowering import LoweredTransform

_NUM_PATHS = 64
_MAX_TEXT = 300

# Fields that may differ with strict=False -> their names in messages.
LENIENT: Mapping[str, str] = {
    "paths": "names and labels of files",
    "batch_size": "samples of a batch",
    "transform": "native steps of the transform",
    "on_error": "treatment of bad samples",
}


def fingerprint_of(plan: NativePlan, batch_sampler: Any, on_error: str) -> dict[str, Any]:
    """Returns the fingerprint of a native loader, in constant time for any number of samples.

    Returns:
        "samples": their number; "paths": a digest of 64 evenly spaced (path, label) pairs; "batch_size": summed over
        all ranks of a ShardedSampler, None if the batch sampler has none; "drop_last"; "sampler": its kind and
        settings; "transform": the native steps with their numbers, a long text is cut and ends in a digest;
        "on_error": the argument, from describe_errors().
    """
    return {
        "samples": len(plan.source),
        "paths": _digest_of_paths(plan.source),
        **_of_sampler(batch_sampler),
        "transform": _text_of(plan.lowered),
        "on_error": on_error,
    }


def fingerprint_of_loader(dataset: Any, index_sampler: Any, on_error: str) -> dict[str, Any]:
    """Returns the fields of fingerprint_of() that are known if Python makes the batches: no files and transforms.

    "samples" is None if the data set has no length.
    """
    try:
        samples: int | None = len(dataset)
    except Exception as error:
        if is_interrupt(error):
            raise
        samples = None
    return {"samples": samples, **_of_sampler(index_sampler), "on_error": on_error}


def _of_sampler(index_sampler: Any) -> dict[str, Any]:
    size, sharded = getattr(index_sampler, "batch_size", None), sharded_of(index_sampler)
    return {
        "batch_size": size * (1 if sharded is None else sharded.num_replicas) if type(size) is int else None,
        "drop_last": getattr(index_sampler, "drop_last", False) is True,
        "sampler": describe_sampler(index_sampler),
    }


def _digest_of_paths(source: LoweredSource) -> str:
    count = min(_NUM_PATHS, len(source))
    indices = np.arange(count, dtype=np.int64) * len(source) // max(1, count)
    files = source.files(indices)
    digest = hashlib.sha256()
    for file, label in zip(files.tolist(), source.table.labels_of(files).tolist(), strict=True):
        path = source.table.path_bytes(file)
        digest.update(b"%d %d " % (len(path), label) + path)
    return digest.hexdigest()[:32]


def _text_of(lowered: LoweredTransform) -> str:
    text = "; ".join(map(_text_of_view, lowered.views or (lowered,)))
    if len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}... ({hashlib.sha256(text.encode()).hexdigest()[:32]})"


def _text_of_view(view: LoweredTransform) -> str:
    steps = ", ".join(f"{position}: {step!r}" for position, step in view.steps)
    table = "uint8" if view.form.table is None else hashlib.sha256(view.form.table).hexdigest()[:16]
    return f"{steps} -> {str(view.form.dtype).removeprefix('torch.')}, table {table}"
