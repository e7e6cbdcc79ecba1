"""Arrays, tensors and the memory they are in: copied by base and storage, or shared, as a forked process has them."""

from __future__ import annotations

import collections
import hashlib
import mmap
import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from boxes import Box, copy_of, own

from fastload._workers._objects import copies

MEBIBYTE = 1 << 20


class Grid(np.ndarray):
    pass


class Marked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError


def is_one_memory(one: Any, other: Any) -> bool:
    return np.shares_memory(np.asarray(one), np.asarray(other))


ARRAYS = {
    "float": np.arange(6.0).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "axes": np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0).copy("K"),
    "empty": np.empty((0, 3)),
    "number": np.array(3),
    "text": np.array(["ab", "c"]),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "fields": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    "swapped": np.arange(3, dtype=">i4"),
    "masked": np.ma.array([1, 2, 3], mask=[0, 1, 0]),
    "records": np.rec.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    "derived": np.arange(3).view(Grid),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_is_equal_and_laid_out_alike_but_other_memory(name: str) -> None:
    array = ARRAYS[name]
    copy = copy_of(array)
    assert type(copy) is type(array)
    assert copy.dtype == array.dtype
    assert copy.strides == array.strides
    assert repr(copy) == repr(array)
    assert copy.size == 0 or not np.shares_memory(copy, array)
    assert copy.flags.writeable == array.flags.writeable


def test_an_array_that_cannot_be_written_stays_so() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    assert not copy_of(array).flags.writeable
    buffer = np.frombuffer(b"abc", np.uint8)
    assert copy_of(buffer) is buffer


def test_an_array_over_a_bytearray_is_one_over_its_copy() -> None:
    content = bytearray(b"abcd")
    copied, array, view = copy_of([content, np.frombuffer(content, np.uint8)[1:], memoryview(content)[1:3]])
    copied[1] = 0
    assert array.tolist() == [0, 99, 100]
    assert view.tolist() == [0, 99]
    assert content == b"abcd"


def test_arrays_of_objects_have_copies_of_them() -> None:
    items = [1]
    array = np.empty(3, object)
    array[:] = [items, "text", None]
    copied_items, copy = copy_of([items, array])
    assert copy[0] is copied_items
    assert copy[1:].tolist() == ["text", None]
    grid = np.empty((2, 2), object, order="F")
    grid[0, 1] = items
    assert copy_of(grid)[0, 1] == [1]
    array[2] = array
    circle = copy_of(array)
    assert circle[2] is circle


@pytest.mark.parametrize("content", [{"a": [1]}, [1, 2], (1, [2])])
def test_an_array_that_is_one_object_has_a_copy_of_it(content: Any) -> None:
    array = np.empty((), object)
    array[()] = content
    copy = copy_of(array)
    assert copy.item() == content
    assert copy.item() is not content


def test_large_arrays_are_shared_and_named() -> None:
    large = np.zeros(16 * MEBIBYTE + 1, np.uint8)
    just = np.zeros(16 * MEBIBYTE, np.uint8)
    mine = own(Box(large=large, just=just, view=large[5:]))
    assert mine.roots[0].large is large
    assert mine.roots[0].view.base is large
    assert mine.roots[0].just is not just
    ((thing, reason),) = mine.shared
    assert thing is large
    assert "16 MiB" in reason


def test_a_worker_copies_so_many_bytes_and_no_more() -> None:
    arrays = [np.zeros(15 * MEBIBYTE, np.uint8) for _ in range(5)]
    tensors = [torch.zeros(MEBIBYTE, dtype=torch.uint8) for _ in range(5)]
    mine = own([arrays, tensors])
    copied = [
        copy is not one for one, copy in zip(arrays + tensors, [*mine.roots[0][0], *mine.roots[0][1]], strict=True)
    ]
    assert copied == [True] * 4 + [False] + [True] * 4 + [False]
    assert all("64 MiB" in reason for _, reason in mine.shared)


# ---- tensors -------------------------------------------------------------------------------------------------------

TENSORS = {
    "float": torch.arange(6.0).reshape(2, 3),
    "transposed": torch.arange(6).reshape(2, 3).T,
    "expanded": torch.ones(1).expand(4),
    "empty": torch.empty(0, 3),
    "conjugate": torch.tensor([1 + 2j]).conj(),
    "negative": torch.tensor([1 + 2j]).conj().imag,
    "half": torch.ones(2, dtype=torch.bfloat16),
    "leaf": torch.ones(2, requires_grad=True),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_is_equal_and_laid_out_alike_but_other_memory(name: str) -> None:
    tensor = TENSORS[name]
    copy = copy_of(tensor)
    assert type(copy) is type(tensor)
    assert torch.equal(copy, tensor)
    assert (copy.dtype, copy.stride(), copy.requires_grad) == (tensor.dtype, tensor.stride(), tensor.requires_grad)
    assert (copy.is_conj(), copy.is_neg()) == (tensor.is_conj(), tensor.is_neg())
    assert tensor.numel() == 0 or copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()


def test_tensors_of_one_storage_are_of_one_copy() -> None:
    tensor = torch.arange(10)
    one, other, storage = copy_of([tensor[2:], tensor[:5], tensor.untyped_storage()])
    one[0] = 100
    assert other[2] == 100
    assert torch.empty(0, dtype=torch.int64).set_(storage)[2] == 100
    assert tensor[2] == 2


def test_a_tensor_keeps_its_gradient_and_attributes() -> None:
    tensor = torch.ones(2, requires_grad=True)
    (tensor * 3).sum().backward()
    tensor.names_of_it = ["a"]  # type: ignore[attr-defined]
    copy = copy_of(tensor)
    assert copy.grad.tolist() == [3, 3]
    assert copy.grad is not tensor.grad
    assert copy.names_of_it == ["a"]
    assert copy.names_of_it is not tensor.names_of_it  # type: ignore[attr-defined]


def test_a_class_derived_from_tensor_is_not_asked() -> None:
    marked = torch.ones(2).as_subclass(Marked)
    copy = copy_of(Box(marked=marked)).marked
    assert type(copy) is Marked
    with torch._C.DisableTorchFunctionSubclass():
        assert copy.data_ptr() != marked.data_ptr()


def test_results_of_differentiable_computations_and_other_layouts_are_shared_and_named() -> None:
    result = torch.ones(2, requires_grad=True) * 2
    sparse = torch.ones(2, 2).to_sparse()
    other = torch.ones(2, device="meta")
    mine = own([result, sparse, other])
    assert all(one is two for one, two in zip(mine.roots[0], [result, sparse, other], strict=True))
    assert len(mine.shared) == 3


# ---- memory of several processes -----------------------------------------------------------------------------------


def test_memory_that_processes_share_is_shared(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    np.arange(10).tofile(file)
    values = multiprocessing.Array("d", 4)
    raw = np.frombuffer(values.get_obj())
    memmap = np.memmap(file, np.int64, "r+")
    with file.open("r+b") as opened:
        mapped = mmap.mmap(opened.fileno(), 0)
    shared = torch.ones(3).share_memory_()
    held = [raw, raw[1:], memmap, memmap[2:], mapped, np.frombuffer(mapped, np.int64), shared, shared[1:]]
    held.append(torch.from_file(str(file), shared=True, size=10, dtype=torch.int64))
    held.append(torch.from_numpy(raw))
    mine = own(held)
    for one, copy in zip(held, mine.roots[0], strict=True):
        assert copy is one or is_one_memory(copy, one)
    assert mine.shared == []


def test_a_private_map_is_copied(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    np.arange(10).tofile(file)
    private = np.memmap(file, np.int64, "c")
    copy = copy_of(private)
    copy[0] = 7
    assert private[0] == 0
    assert type(copy) is np.memmap


def test_the_maps_are_read_once_for_all_workers_and_only_where_they_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(str(path)) or read(path))
    copies((Box(array=np.arange(3), items=[1]), None, None), 3)
    assert reads == []
    copies((Box(values=np.frombuffer(multiprocessing.RawArray("d", 3))), None, None), 3)
    assert reads == ["/proc/self/maps"]


# ---- other C types -------------------------------------------------------------------------------------------------


def test_what_deepcopy_cannot_copy_is_shared_and_named() -> None:
    digest = hashlib.sha256()
    mine = own(Box(digest=digest, iterator=iter([1]), code=compile("1", "", "eval")))
    assert mine.roots[0].digest is digest
    ((thing, reason),) = mine.shared
    assert thing is digest
    assert reason.startswith("copy.deepcopy() of it raises TypeError: ")


def test_a_named_tuple_of_torch_is_shared_where_its_tensors_are() -> None:
    pair = torch.max(torch.ones(2, 2), 0)
    copy = copy_of(pair)
    assert copy.values.tolist() == [1, 1]
    sizes = collections.OrderedDict(size=torch.Size([1, 2]))
    assert copy_of(sizes)["size"] is sizes["size"]


class Refusing(np.ndarray):
    def __array_finalize__(self, source: Any) -> None:
        if source is None:
            raise ValueError("made in no way but one")


def test_what_refuses_to_be_copied_is_shared_and_named() -> None:
    array = np.arange(3).view(Refusing)
    mine = own(Box(array=array, items=[1]))
    assert mine.roots[0].array is array
    assert [reason for _, reason in mine.shared] == ["its copy raises ValueError: made in no way but one"]
