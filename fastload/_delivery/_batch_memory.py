"""The memory of native batches, on the host or staged for a device, and the tensors that the user gets."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fastload import _native
from fastload._delivery._device import BatchLayout, Device, PinnedMemory

# Parts of a slot begin at multiples of this, so the device reads whole cache lines.
_ALIGNMENT = 256
# How often a caller that needs a slot immediately polls for a finished copy.
_POLL_SECONDS = 0.0001


@dataclass(frozen=True)
class ViewForm:
    """The form of what is written for each image of a view, and of what the user gets.

    Attributes:
        layout: Layout of the user's tensor.
        table: [3, 256] elements of the user's tensor; uint8 pixels [batch, height, width, 3] are then written, and
            converted on the device. None: the user's tensor itself is written.
    """

    layout: BatchLayout
    table: torch.Tensor | None = None

    @property
    def sample_bytes(self) -> int:
        """The size of what is written for one sample."""
        return self.layout.sample_bytes if self.table is None else 3 * self.layout.height * self.layout.width


@dataclass(eq=False)
class PlacedBatch:
    """Room for one batch.

    Attributes:
        parts: Address and size of each view, for the engine.
        copy: The copy of these parts to a device, or None.
    """

    parts: list[tuple[int, int]]
    copy: _native.BatchCopy | None


class BatchMemory(ABC):
    """Provides room for batches, in the order in which they are requested."""

    def has_room(self) -> bool:
        """Returns whether there is room for another batch now."""
        return True

    def wait_for_room(self) -> None:  # noqa: B027 - there is always room
        """Waits until there is room for another batch.

        Raises:
            DeviceError: The device failed, so it is unknown when there will be room.
            LoaderClosedError: The loader was closed meanwhile.
        """

    @abstractmethod
    def place(self, labels: torch.Tensor) -> PlacedBatch:
        """Returns room for a batch with these labels, int64 [batch]; call only if there is room."""

    def place_again(self, batches: Sequence[torch.Tensor]) -> list[PlacedBatch]:
        """Returns new room for batches, given by their labels, whose first room may still be written to."""
        return [self.place(labels) for labels in batches]

    def look_ahead(self, batches: Sequence[PlacedBatch]) -> None:  # noqa: B027
        """Announces the next batches, in order, which may have memory on the device before they are requested."""

    @abstractmethod
    def deliver(self, placed: PlacedBatch, number: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Returns the images of each view and the labels, once they are written. Repeatable until let_go().

        Raises:
            DeviceError: They did not reach the device; `number` is the batch's number.
        """

    def let_go(self, placed: PlacedBatch) -> None:  # noqa: B027
        """Releases memory that is not the user's, once the batch is delivered or will not be."""


@dataclass(eq=False)
class _HostBatch(PlacedBatch):
    images: list[torch.Tensor]
    labels: torch.Tensor


class HostMemory(BatchMemory):
    """Fresh tensors on the host, to which the engine writes what the user gets.

    They come from `pinned`, or from the engine's pool of pageable memory. The forms of the views have no tables.
    """

    def __init__(self, engine: _native.Engine, forms: Sequence[ViewForm], pinned: PinnedMemory | None) -> None:
        self._engine = engine
        self._forms = forms
        self._pinned = pinned

    def place(self, labels: torch.Tensor) -> _HostBatch:
        batch_size = len(labels)
        images = [self._allocate(form.layout, batch_size) for form in self._forms] if batch_size else []
        if self._pinned is not None:
            labels = self._pinned.empty(batch_size, dtype=labels.dtype).copy_(labels)
        return _HostBatch([(view.data_ptr(), view.nbytes) for view in images], None, images, labels)

    def _allocate(self, layout: BatchLayout, batch_size: int) -> torch.Tensor:
        if self._pinned is not None:
            return layout.allocate(self._pinned.empty, batch_size)
        # The engine does not reuse the memory while a tensor on it exists.
        flat = torch.frombuffer(self._engine.allocate(batch_size * layout.sample_bytes), dtype=layout.dtype)
        if layout.memory_format is torch.channels_last:
            return flat.view(batch_size, layout.height, layout.width, 3).permute(0, 3, 1, 2)
        return flat.view(layout.shape(batch_size))

    def deliver(self, placed: PlacedBatch, number: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        assert isinstance(placed, _HostBatch)
        return placed.images, placed.labels


class _StagedBatch(PlacedBatch):
    """A batch in a staging slot: the views, then the labels."""

    def __init__(self, slot: _native.StagingSlot | None, sizes: Sequence[int], batch_size: int, stream: int) -> None:
        super().__init__([], None)
        self.batch_size = batch_size
        self.num_bytes = sum(sizes)
        self.is_delivered = False
        self.destinations: list[torch.Tensor] | None = None
        if slot is not None:
            offsets = _offsets(sizes)
            self.parts = [(slot.address + offset, size) for offset, size in zip(offsets[:-1], sizes[:-1], strict=True)]
            self.copy = _native.BatchCopy(slot, list(zip(offsets, sizes, strict=True)), stream)


class StagedMemory(BatchMemory):
    """Reused page-locked slots, and copies from them to a device. See Note [staging slots].

    Args:
        num_slots: Maximum number of batches in flight.
        count: Adds to the loader's counters.
        check_open: Raises LoaderClosedError if the loader was closed.
    """

    def __init__(
        self,
        device: Device,
        forms: Sequence[ViewForm],
        num_slots: int,
        count: Callable[[dict[str, Any]], None],
        check_open: Callable[[], None],
    ) -> None:
        self._device = device
        self._count = count
        self._check_open = check_open
        self._num_slots = num_slots
        with device.on_copy_stream():
            self._forms = [
                form if form.table is None else replace(form, table=device.copy(form.table)) for form in forms
            ]
        self._ring: _native.StagingRing | None = None
        self._slab: torch.Tensor | None = None
        self._slot_bytes = 0
        self._reserved: _native.StagingSlot | None = None
        self._ahead: list[_StagedBatch] = []

    # ---- room ------------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        return self._reserve() is None and (self._ring is None or self._reserved is not None)

    def wait_for_room(self) -> None:
        while not self.has_room():
            self._check_open()
            if (failure := self._reserve()) is not None:
                what = f"the next batch waits for a slot of {self._slot_bytes} bytes, and it is unknown which copies"
                raise self._device.error(f"{what} have finished: copies", _cause(failure))
            time.sleep(_POLL_SECONDS)

    def _reserve(self) -> _native.DeviceFailure | None:
        """Takes a slot if one is free; returns why that is unknown, or None."""
        if self._ring is None or self._reserved is not None:
            return None
        with self._device.on_copy_stream():  # the thread's current device stays as it was
            taken = self._ring.take()
        if isinstance(taken, dict):
            return taken
        self._reserved = taken
        return None

    def place(self, labels: torch.Tensor) -> _StagedBatch:
        batch_size = len(labels)
        sizes = [*(batch_size * form.sample_bytes for form in self._forms), labels.numel() * labels.element_size()]
        if batch_size == 0:
            return _StagedBatch(None, sizes, 0, 0)
        end = _offsets([*sizes, 0])[-1]
        if self._ring is None or end > self._slot_bytes:
            self._make_ring(end)
        self._reserve()
        slot, self._reserved = self._reserved, None
        assert slot is not None, "there is room"
        self._write_labels(slot, _offsets(sizes)[-1], labels)
        return _StagedBatch(slot, sizes, batch_size, self._device.copy_stream)

    def place_again(self, batches: Sequence[torch.Tensor]) -> list[PlacedBatch]:
        self._make_ring(self._slot_bytes)  # a slot that may still be written to is not reused
        return [self.place(labels) for labels in batches]

    def _make_ring(self, slot_bytes: int) -> None:
        # The new ring may reuse the memory of ended rings, including this loader's own.
        self._reserved = self._ring = self._slab = None
        _native.sweep_staging_rings()
        self._slot_bytes = -(-slot_bytes // _ALIGNMENT) * _ALIGNMENT
        self._slab = self._device.pinned.empty(self._slot_bytes * self._num_slots, dtype=torch.uint8)
        self._ring = _native.StagingRing(
            self._device.backend,
            address=self._slab.data_ptr(),
            slot_bytes=self._slot_bytes,
            num_slots=self._num_slots,
            owner=self._slab,
        )

    def _write_labels(self, slot: _native.StagingSlot, offset: int, labels: torch.Tensor) -> None:
        assert self._slab is not None, "there is a slot"
        begin = slot.address - self._slab.data_ptr() + offset
        self._slab[begin : begin + labels.numel() * labels.element_size()].view(labels.dtype).copy_(labels)

    # ---- to the device ---------------------------------------------------------------------------------------------

    def look_ahead(self, batches: Sequence[PlacedBatch]) -> None:
        self._ahead = [batch for batch in batches if isinstance(batch, _StagedBatch)]
        for batch in self._ahead:
            try:
                self._send(batch)
            except RuntimeError:  # no device memory, say: the current batch is fine, and deliver() tries again
                return

    def _send(self, batch: _StagedBatch) -> None:
        """Lets `batch` be copied once it is written; from now on it has memory on the device."""
        if batch.copy is None:
            return
        with self._device.on_copy_stream():
            if batch.destinations is None:
                destinations = [self._destination(form, batch.batch_size) for form in self._forms]
                batch.destinations = [*destinations, self._device.empty(batch.batch_size, dtype=torch.int64)]
            # An interrupt may have come here before: the first call counts.
            batch.copy.set_destinations([tensor.data_ptr() for tensor in batch.destinations])

    def _destination(self, form: ViewForm, batch_size: int) -> torch.Tensor:
        if form.table is not None:
            return self._device.empty(batch_size, form.layout.height, form.layout.width, 3, dtype=torch.uint8)
        return form.layout.allocate(self._device.empty, batch_size)

    def deliver(self, placed: PlacedBatch, number: int) -> tuple[list[torch.Tensor], torch.Tensor]:
        assert isinstance(placed, _StagedBatch)
        with self._device.naming_batch(number, lambda: placed.num_bytes):
            self._send(placed)
        assert placed.copy is not None, "an empty batch is an error"
        assert placed.destinations is not None, "sent"
        *views, labels = placed.destinations
        if (failure := placed.copy.failure) is not None:
            what = f"batch {number} ({placed.num_bytes} bytes) could not be copied"
            raise self._device.error(what, _cause(failure))
        with self._device.naming_batch(number, lambda: placed.num_bytes), self._device.on_copy_stream():
            images = [
                view if form.table is None else self._converted(form, view)
                for form, view in zip(self._forms, views, strict=True)
            ]
        placed.is_delivered = True
        return images, labels

    def let_go(self, placed: PlacedBatch) -> None:
        assert isinstance(placed, _StagedBatch)
        placed.destinations = []  # frees the memory of the pixels
        if placed.is_delivered:
            placed.is_delivered = False
            self._count({"bytes_copied": placed.num_bytes})

    def _converted(self, form: ViewForm, pixels: torch.Tensor) -> torch.Tensor:
        assert form.table is not None, "pixels are converted by a table"
        out = form.layout.allocate(self._device.empty, len(pixels))
        self._device.convert(pixels, form.table, out)
        return out

    def stats(self) -> dict[str, int]:
        """Returns the current memory, by its names in LoaderStats."""
        held = sum(tensor.nbytes for batch in list(self._ahead) for tensor in batch.destinations or ())
        slab = self._slab  # another thread may release it now
        return {"staging_bytes": 0 if slab is None else slab.nbytes, "device_bytes": held}


def _offsets(sizes: Sequence[int]) -> list[int]:
    """Returns the offset of each of these parts in a slot."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return offsets


def _cause(failure: _native.DeviceFailure) -> str:
    return f"{failure['call']} returned {failure['name']} ({failure['text']}, {failure['error']})"
