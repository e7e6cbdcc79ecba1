"""Counters of a loader, as a typed snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class LoaderStats:
    """Counters of one loader's engine since it started; sums over its threads, which may run on while you read.

    Attributes:
        samples_native: Samples decoded and transformed by native code.
        samples_fallback: Samples decoded by Pillow, then transformed by native code.
        samples_python_tail: Those among them of which a part of the pipeline ran in Python, in threads.
        samples_python: Samples that the dataset made in Python, in threads or asked of torch's own iterator.
        samples_failed: Samples that raised a SampleError.
        batches_delivered: Batches the consumer has received.
        bytes_read: Bytes of sample files.
        fallback_reasons: Samples per reason why the native decoder left them to Pillow.
        images_opened: JPEG files that the user's code opened with Pillow in workers that decode natively.
        images_native: Those among them whose pixels native code has made.
        image_fallback_reasons: Those that Pillow has decoded, per reason; of worker processes they are not counted. One
            whose pixels nobody asked for is neither.
        stage_seconds: Thread time per stage: "read", "header", "decode", "transform"; "fallback" is Pillow's;
            "tail", "dataset" and "collate" are the user's own Python's. What torch's own
            iterator does, with worker processes or without, is not timed.
        consumer_wait_seconds: Time the consumer waited for a batch. High: loading is the bottleneck.
        worker_wait_seconds: Time the threads waited for work, summed over them. High: the consumer is the bottleneck.
        bytes_held: Memory of batch buffers at this moment, those given to the user and still in use included.
        scratch_bytes: Memory of the native threads for files, decoding and resizing.
        batches_in_flight: Batches asked of the threads and not yet received, at this moment.
        queue_depth: Batches among them that are ready.
        fallback_queue_depth: Samples that wait for Pillow at this moment.
        bytes_copied: Bytes that batches had on their way to the device: before conversion there.
        staging_bytes: Page-locked memory that native batches are written to on their way, at this moment.
        device_bytes: Memory on the device of batches that are not asked for yet, at this moment. Native batches only.
        pageable_allocations: How often page-locked memory could not be had and pageable memory was taken.
        gil_checks: How often a thread that runs Python looked whether another one held the GIL.
        gil_held: How often one did.
        gil_wait_seconds: How long it waited for the GIL then, in all.
    """

    samples_native: int = 0
    samples_fallback: int = 0
    samples_python_tail: int = 0
    samples_python: int = 0
    samples_failed: int = 0
    batches_delivered: int = 0
    bytes_read: int = 0
    fallback_reasons: Mapping[str, int] = field(default_factory=dict)
    images_opened: int = 0
    images_native: int = 0
    image_fallback_reasons: Mapping[str, int] = field(default_factory=dict)
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    consumer_wait_seconds: float = 0.0
    worker_wait_seconds: float = 0.0
    bytes_held: int = 0
    scratch_bytes: int = 0
    batches_in_flight: int = 0
    queue_depth: int = 0
    fallback_queue_depth: int = 0
    bytes_copied: int = 0
    staging_bytes: int = 0
    device_bytes: int = 0
    pageable_allocations: int = 0
    gil_checks: int = 0
    gil_held: int = 0
    gil_wait_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("fallback_reasons", "image_fallback_reasons", "stage_seconds"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @classmethod
    def from_counters(cls, *counters: Mapping[str, Any]) -> LoaderStats:
        """Merge counters by name: the engine's and those kept in Python. What is missing is 0.

        Raises:
            ValueError: A counter has no field here, or two of the arguments have it.
        """
        known = {entry.name for entry in fields(cls)}
        merged: dict[str, Any] = {}
        for part in counters:
            for name, value in part.items():
                if name not in known or name in merged:
                    problem = "given twice" if name in merged else f"unknown; known: {', '.join(sorted(known))}"
                    raise ValueError(f"counter {name!r} is {problem}")
                merged[name] = value
        return cls(**merged)

    @property
    def samples(self) -> int:
        """Samples loaded, in whichever way; failed ones not included."""
        return self.samples_native + self.samples_fallback + self.samples_python

    @property
    def gil_held_share(self) -> float:
        """Share of the time in which a thread that runs Python finds the GIL held by another; 0.0 where none looked.

        Near 1: threads do not run in parallel, because the dataset's own Python takes all the time there is.
        """
        return self.gil_held / self.gil_checks if self.gil_checks else 0.0

    @property
    def mean_gil_wait_seconds(self) -> float:
        """How long a thread waits on average until it gets the GIL; 0.0 where none looked.

        The thread that trains waits as long each time that it comes back from an operation of torch's or from a file:
        5 ms at most (`sys.getswitchinterval()`) for each thread that computes in Python.
        """
        return self.gil_wait_seconds / self.gil_checks if self.gil_checks else 0.0

    def as_dict(self) -> dict[str, Any]:
        """The fields as plain dicts and numbers, for logging as JSON."""
        return {entry.name: _plain(getattr(self, entry.name)) for entry in fields(self)}

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_dict, (self.as_dict(),)


def _from_dict(values: dict[str, Any]) -> LoaderStats:
    return LoaderStats(**values)


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
