"""Programs whose state is in arrays, tensors and shared memory."""

from __future__ import annotations

import array
import ctypes
import io
import mmap
import multiprocessing
from typing import Any

import numpy as np
import torch
from numbered import NUM_SAMPLES
from PIL import Image
from program import Chapter, Setting, Transformed, new_folder
from torch.utils.data import get_worker_info

MEMORY = Chapter()


def slot() -> int:
    """Returns a number for each worker; 0 in the program itself."""
    info = get_worker_info()
    return 0 if info is None else info.id


@MEMORY.program
def an_array_and_its_views() -> Any:
    """Uses a slice, a transposed and a reversed view of one array, all of which see the writes."""
    base = np.arange(24.0).reshape(4, 6)
    part, turned, back = base[1:3, ::2], base.T, base[::-1]

    def transform(index: int) -> Any:
        base[index % 4] += 1
        part[0, 0] += 10
        return turned[index % 6].copy(), back[0, :2].copy(), part.copy(), np.shares_memory(base, part)

    return Setting(Transformed(transform), after_epoch=lambda: (base, part))


@MEMORY.program
def a_view_without_its_base() -> Any:
    """Uses two views of an array to which the program has no other name."""
    whole = np.arange(100)
    first, second = whole[10:30], whole[20:40]
    del whole

    def transform(index: int) -> Any:
        first[10:] += 1
        return second[:3].copy(), int(second.sum()) + index

    return Transformed(transform)


@MEMORY.program
def an_array_of_objects() -> Any:
    """Lists in an array, one of them twice."""
    shared = [0]
    table = np.empty(3, dtype=object)
    table[:] = [shared, [1], shared]

    def transform(index: int) -> Any:
        table[0].append(index)
        return len(table[2]), table[0] is table[2], len(table[1])

    return Setting(Transformed(transform), after_epoch=lambda: len(shared))


@MEMORY.program
def structured_and_read_only_arrays() -> Any:
    """Uses a record array that is written, and one that must not be."""
    records = np.zeros(3, dtype=[("count", "i4"), ("sum", "f8")])
    fixed = np.arange(5)
    fixed.flags.writeable = False

    def transform(index: int) -> Any:
        records["count"][index % 3] += 1
        records[index % 3]["sum"] += index
        return records["count"].copy(), float(records["sum"].sum()), fixed.flags.writeable, fixed.copy()

    return Transformed(transform)


@MEMORY.program
def an_array_subclass() -> Any:
    """Uses a subclass of np.ndarray with an attribute, and a masked array."""

    class Named(np.ndarray):  # type: ignore[type-arg]
        name: str
        calls: int

    named = np.zeros(3).view(Named)
    named.name, named.calls = "grid", 0
    masked = np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False])

    def transform(index: int) -> Any:
        named.calls += 1
        named[index % 3] += 1
        masked[0] += index
        return named.name, named.calls, np.asarray(named).copy(), float(masked.sum())

    return Transformed(transform)


@MEMORY.program
def tensors_that_share_storage() -> Any:
    """Views, a transposed and an expanded tensor of one storage."""
    base = torch.zeros(2, 4)
    row, column, flat, wide = base[0], base[:, 1], base.view(-1), base[:1].expand(3, 4)

    def transform(index: int) -> Any:
        row.add_(1)
        column.add_(index)
        return flat.clone(), wide.sum().item(), row.data_ptr() == base.data_ptr()

    return Setting(Transformed(transform), after_epoch=lambda: base)


@MEMORY.program
def a_tensor_and_its_array() -> Any:
    """Uses torch.from_numpy and Tensor.numpy(): two names of one memory."""
    values = np.zeros(3)
    tensor, other = torch.from_numpy(values), torch.ones(2)
    back = other.numpy()

    def transform(index: int) -> Any:
        values[0] += index
        tensor[1] += 1
        back[1] *= 2
        return tensor.clone(), values.copy(), other.clone()

    return Transformed(transform)


@MEMORY.program
def parameters_and_gradients() -> Any:
    """Adds to the gradient of a parameter in each sample."""
    weight = torch.nn.Parameter(torch.ones(2))

    def transform(index: int) -> Any:
        (weight * index).sum().backward()
        assert weight.grad is not None
        return weight.grad.clone(), weight.requires_grad, weight.is_leaf

    return Setting(Transformed(transform), after_epoch=lambda: weight.grad is None)


@MEMORY.program
def a_tensor_with_attributes() -> Any:
    """Uses a subclass of torch.Tensor and a plain tensor, both with attributes."""

    class Boxes(torch.Tensor):
        pass

    boxes = torch.zeros(2).as_subclass(Boxes)
    boxes.calls = [0]  # type: ignore[attr-defined]
    plain = torch.zeros(1)
    plain.title = "plain"  # type: ignore[attr-defined]

    def transform(index: int) -> Any:
        boxes.calls[0] += 1  # type: ignore[attr-defined]
        boxes.add_(index)
        return type(boxes) is Boxes, boxes.calls[0], boxes.as_subclass(torch.Tensor).clone(), plain.title  # type: ignore[attr-defined]

    return Transformed(transform)


@MEMORY.program
def other_kinds_of_tensors() -> Any:
    """Uses sparse, complex, bfloat16 and empty tensors, and one with a large stride."""
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0]), (4,)).coalesce()
    half, complex_, empty = torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.complex64), torch.zeros(0)
    strided = torch.zeros(100)[::10]

    def transform(index: int) -> Any:
        half.add_(1)
        complex_.add_(1j)
        strided.add_(index)
        sparse.values().mul_(1.5)
        return half.clone().float(), complex_.abs(), len(empty), strided.clone(), sparse.to_dense()

    return Transformed(transform)


@MEMORY.program
def a_view_of_a_shared_tensor() -> Any:
    """Uses a row of a shared tensor in each worker, and a module whose weights are shared."""
    rows = torch.zeros(8, 3).share_memory_()
    module = torch.nn.Linear(2, 2).share_memory()
    views = [*rows]

    def transform(index: int) -> Any:
        views[slot()].add_(index)
        with torch.no_grad():
            module.bias[0] = 7.0
        return rows[slot()].clone()

    return Setting(Transformed(transform), after_epoch=lambda: (rows, module.bias.detach()))


@MEMORY.program
def values_of_multiprocessing() -> Any:
    """Counts in mp.Value, mp.Array and a raw array, in all workers, and sets an mp.Event under an mp.Lock."""
    value, counts = multiprocessing.Value("i", 0), multiprocessing.Array("d", NUM_SAMPLES)
    raw = multiprocessing.RawArray(ctypes.c_int, 8)
    event, lock = multiprocessing.Event(), multiprocessing.Lock()

    def transform(index: int) -> Any:
        with value.get_lock():
            value.value += index
        with lock:
            if index == NUM_SAMPLES - 1:
                event.set()
        counts[index] += 1.0
        raw[slot()] += 1
        return raw[slot()]

    return Setting(Transformed(transform), after_epoch=lambda: (value.value, list(counts), list(raw), event.is_set()))


@MEMORY.program
def an_array_on_shared_memory() -> Any:
    """Uses np.frombuffer of an mp.Array, as datasets share a cache."""
    memory = multiprocessing.Array(ctypes.c_double, NUM_SAMPLES, lock=False)
    cache = np.frombuffer(memory)

    def transform(index: int) -> Any:
        was = cache[index]
        cache[index] += index
        return float(was)

    return Setting(Transformed(transform), after_epoch=lambda: (cache, list(memory)))


@MEMORY.program
def memmaps() -> Any:
    """Uses np.memmap with mode r, c (copied on write) and r+, whose file has the workers' writes."""
    files = [new_folder() / "table" for _ in range(2)]
    for file in files:
        np.arange(NUM_SAMPLES, dtype=np.int64).tofile(file)
    table, own = (np.memmap(files[0], dtype=np.int64, mode=mode) for mode in ("r", "c"))
    written = np.memmap(files[1], dtype=np.int64, mode="r+")

    def transform(index: int) -> Any:
        own[0] += 1
        written[index] += index
        return int(table[index]), int(own[0]), table.flags.writeable

    return Setting(Transformed(transform), after_epoch=lambda: (np.asarray(own[:2]), np.fromfile(files[1])))


@MEMORY.program
def an_anonymous_map() -> Any:
    """Uses mmap.mmap(-1, ...), which forked workers share, and a memoryview of it."""
    memory = mmap.mmap(-1, 4096)
    view = np.frombuffer(memory, np.uint8)

    def transform(index: int) -> Any:
        view[index] += 1
        return index

    return Setting(Transformed(transform), after_epoch=lambda: view[:NUM_SAMPLES])


@MEMORY.program
def bytes_that_can_change() -> Any:
    """Uses bytearray, array.array, a ctypes structure, io.BytesIO and io.StringIO."""

    class Point(ctypes.Structure):
        _fields_ = [("x", ctypes.c_int), ("y", ctypes.c_int)]

    raw, numbers, point, stream = bytearray(4), array.array("i", [0, 0]), Point(1, 2), io.BytesIO()
    log = io.StringIO()

    def transform(index: int) -> Any:
        raw[index % 4] += 1
        numbers[0] += index
        numbers.append(index)
        point.x += 1
        stream.write(b"x")
        log.write(f"{index} ")
        return list(raw), numbers[0], len(numbers), point.x, stream.tell(), log.getvalue()

    return Setting(Transformed(transform), after_epoch=log.getvalue)


@MEMORY.program
def a_memoryview() -> Any:
    """Writes to an array and through a memoryview of it."""
    values = np.zeros(4, np.uint8)
    view = memoryview(values)

    def transform(index: int) -> Any:
        view[index % 4] = index
        values[0] += 1
        return bytes(view), values.copy()

    return Transformed(transform)


@MEMORY.program
def an_image_that_is_held() -> Any:
    """Draws a point on a PIL image in every sample."""
    image = Image.new("RGB", (4, 4))

    def transform(index: int) -> Any:
        image.putpixel((index % 4, 0), (index, 0, 0))
        return np.asarray(image)[0].copy()

    return Setting(Transformed(transform), after_epoch=lambda: np.asarray(image))
