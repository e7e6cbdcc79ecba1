"""CachedDataset: samples come back as they were made, callers own their copies, and keys name the samples."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import re
import sqlite3
import warnings
from collections import Counter, namedtuple
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from both_loaders import Threads
from flat_values import flat
from made_samples import MadeSamples, check_samples, in_threads, label_of, once, sample_of, shuffled
from PIL import Image
from torch.utils.data import IterableDataset

import fastload
from fastload._cached import _file_samples
from fastload._display import _progress
from fastload._display._units import bytes_of
from fastload._process._file_system import file_system_of, is_remote

Pair = namedtuple("Pair", ["image", "label"])
PLAIN = {
    "tensors": (torch.arange(6).reshape(2, 3), torch.tensor(3.5, dtype=torch.bfloat16), torch.empty(0, 4)),
    "a part of a tensor": torch.arange(1000)[10:20],
    "strides": torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "a tensor to train": torch.ones(2, requires_grad=True),
    "arrays": [np.arange(5, dtype=">i4"), np.asfortranarray(np.ones((2, 3))), np.array(2.5), np.array(["a", "bc"])],
    "numbers of numpy": (np.float32(1.5), np.int64(-3), np.bool_(True), np.datetime64("2020-02-03")),
    "numbers": [1, -(1 << 70), 2.5, float("inf"), True, None, 3 + 4j],
    "texts": ["a", "\N{SNOWMAN}", b"", b"\0\1", ""],
    "containers": {"a": [1, (2, {3, 4}), {}], 5: frozenset({6}), (1, 2): [[], ()]},
    "a list that looks like ours": ["list", ["dict", 3]],
}


@pytest.fixture(params=["memory", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "kept" / "train.samples"


@pytest.fixture
def made(tmp_path: Path) -> MadeSamples:
    return MadeSamples(tmp_path / "log", 12)


def rows_of(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM samples").fetchone()[0])


# ---- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLAIN)
def test_a_plain_sample_comes_back_as_it_was(path: Path | None, kind: str) -> None:
    cached = fastload.CachedDataset([PLAIN[kind]], path)
    first, second = cached[0], cached[0]
    assert flat(first) == flat(second) == flat(PLAIN[kind])
    if kind == "arrays":
        assert second[1].flags.f_contiguous
    if kind == "a tensor to train":
        assert second.requires_grad


@pytest.mark.parametrize("serializer", ["torch", "pickle"])
def test_a_part_of_a_large_tensor_is_kept_without_the_rest(tmp_path: Path, serializer: Any) -> None:
    path = tmp_path / "s"
    cached = fastload.CachedDataset([torch.zeros(1_000_000)[:10]], path, serializer=serializer)
    cached.fill()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT length(data) FROM samples").fetchone()[0] < 10_000


def test_objects_are_kept_in_memory_and_by_pickle(tmp_path: Path) -> None:
    samples = [Pair(torch.arange(3), 1), Fraction(1, 3), Image.new("RGB", (4, 5), (1, 2, 3)), {"a": Pair([1], 2)}]
    for arguments in ({}, {"path": tmp_path / "s", "serializer": "pickle"}):
        cached = fastload.CachedDataset(samples, **arguments)
        assert cached.fill() == 4
        assert flat(cached[0]) == flat(samples[0])
        assert cached[1] == samples[1]
        assert cached[2].tobytes() == samples[2].tobytes()
        assert cached[3] == samples[3]


@pytest.mark.parametrize(
    ("sample", "where"),
    [
        (Fraction(1, 3), "the sample is a fractions.Fraction"),
        ({"a": [0, Pair(1, 2)]}, "the sample['a'][1] is a "),
        ((1, np.array([object()])), "the sample[1] is a numpy.ndarray"),
        (torch.nn.Parameter(torch.ones(1)), "the sample is a torch.nn.parameter.Parameter"),
    ],
)
def test_what_torch_does_not_write_is_refused_with_its_place(tmp_path: Path, sample: Any, where: str) -> None:
    cached = fastload.CachedDataset([sample], tmp_path / "s")
    with pytest.raises(TypeError, match=re.escape(where)) as error:
        cached[0]
    assert "pass serializer='pickle', which keeps anything that pickles" in str(error.value)


def test_what_does_not_pickle_and_what_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"does not pickle .* path=None"):
        fastload.CachedDataset([lambda: 0], tmp_path / "s", serializer="pickle")[0]
    with pytest.raises(TypeError, match=r"cannot be copied .* copy=False"):
        fastload.CachedDataset([io.StringIO().__iter__, iter([1]).__next__, (i for i in ())])[2]
    generator = (i for i in ())
    assert fastload.CachedDataset([generator], copy=False)[0] is generator


@pytest.mark.parametrize("open_image", [lambda file: Image.open(file).convert("RGB"), Image.open])
@pytest.mark.parametrize("arguments", [{}, {"copy": False}, {"serializer": "pickle"}], ids=str)
def test_a_jpeg_that_a_worker_thread_opens_is_kept_with_its_pixels(
    tmp_path: Path, arguments: dict[str, Any], open_image: Any
) -> None:
    """The first epoch loads none of them."""
    file = tmp_path / "a.jpg"
    Image.effect_noise((40, 30), 50).convert("RGB").save(file)
    with Image.open(file) as image:
        pixels = image.tobytes()

    class Opened:
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            return open_image(file)

    cached = fastload.CachedDataset(Opened(), tmp_path / "s" if "serializer" in arguments else None, **arguments)
    assert list(Threads(cached, num_workers=1, collate_fn=len)) == [1]
    file.write_bytes(b"")  # it is not opened again
    loader = Threads(cached, num_workers=1, collate_fn=lambda samples: samples[0].tobytes())
    assert list(loader) == [pixels]
    assert cached[0].tobytes() == pixels


# ---- copies --------------------------------------------------------------------------------------------------------


def test_who_changes_a_sample_changes_his_own(path: Path | None) -> None:
    cached = fastload.CachedDataset([sample_of(7)], path)
    for _ in range(3):  # the first one is the sample as it was made
        sample = cached[0]
        assert flat(sample) == flat(sample_of(7))
        sample["cloud"].zero_()
        sample["faces"][:] = 0
        sample["more"] = 1
        cached = cached if path is None else fastload.CachedDataset([sample_of(7)], path)


def test_objects_in_memory_are_copied_and_one_object_stays_one() -> None:
    shared = torch.arange(3)
    sample = {"a": shared, "b": [shared], "c": Pair(np.arange(3), Fraction(1, 2))}
    sample["d"] = sample  # type: ignore[assignment]
    cached = fastload.CachedDataset([sample])
    cached.fill(to=None)
    found = cached[0]
    assert found["a"] is found["b"][0] is not shared
    assert found["d"] is found
    assert found["c"].image is not cached[0]["c"].image


def test_without_copies_all_get_what_was_made() -> None:
    sample = (torch.arange(3), np.arange(3))
    cached = fastload.CachedDataset([sample], copy=False)
    assert cached[0] is cached[0] is sample


# ---- making samples ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_threads", [1, 4, 8])
def test_each_sample_is_made_once_by_any_number_of_threads(path: Path | None, tmp_path: Path, num_threads: int) -> None:
    made = MadeSamples(tmp_path / "log", 30, seconds=0.002)
    cached = fastload.CachedDataset(made, path)
    in_threads(num_threads, lambda thread: check_samples(cached, range(30) if thread < 4 else shuffled(30, thread)))
    assert made.made() == once(range(30))
    check_samples(cached, range(30))
    assert made.made() == once(range(30))


@pytest.mark.parametrize("num_workers", [0, 1, 4])
def test_worker_threads_make_each_once_and_share_it(path: Path | None, tmp_path: Path, num_workers: int) -> None:
    made = MadeSamples(tmp_path / "log", 30, seconds=0.001)
    loader = Threads(fastload.CachedDataset(made, path).map(label_of), 4, shuffle=True, num_workers=num_workers)
    for _ in range(3):
        assert sorted(label for batch in loader for label in batch.tolist()) == list(range(30))
    assert made.made() == once(range(30))


def test_worker_processes_have_data_set_key_and_function_for_themselves(path: Path | None) -> None:
    class Counting:
        def __init__(self) -> None:
            self.indexes: list[int] = []

        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            self.indexes.append(index)
            return index

        def get_cache_key(self, index: int) -> int:
            self.indexes.append(-index)
            return index

        def __call__(self, sample: int) -> int:
            self.indexes.append(sample)
            return sample

    dataset, function = Counting(), Counting()
    cached = fastload.CachedDataset(dataset, path)
    for _ in range(2):
        assert len(list(fastload.DataLoader(cached.map(function), num_workers=2))) == 8
    assert (dataset.indexes, function.indexes) == ([], [])
    assert cached.fill() == 8
    # The keys, and in memory, which is each process's own, the samples.
    assert len(dataset.indexes) == (16 if path is None else 8)


def test_a_failure_is_the_data_sets_and_the_next_to_ask_tries_again(path: Path | None) -> None:
    class Flaky:
        num_calls = 0

        def __getitem__(self, index: int) -> int:
            Flaky.num_calls += 1
            if Flaky.num_calls <= 3:
                raise OSError(f"call {Flaky.num_calls}")
            return 5

    cached = fastload.CachedDataset(Flaky(), path)
    found: list[Any] = []

    def ask(thread: int) -> None:
        try:
            found.append(cached[0])
        except OSError as error:
            found.append(str(error))

    in_threads(6, ask)
    assert sorted(map(str, found)) == ["5", "5", "5", "call 1", "call 2", "call 3"]
    assert Flaky.num_calls == 4


def test_a_data_set_may_ask_its_own_cache_and_nobody_waits_for_ever(path: Path | None, tmp_path: Path) -> None:
    made = MadeSamples(tmp_path / "log", 8, seconds=0.002)

    class Mixed:
        cached: Any = None

        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> tuple[int, ...]:
            made[index]
            others = [(index + step) % 8 for step in (1, 3)]
            if index == 2:
                others.append(2)  # itself
                Mixed.num_itself = getattr(Mixed, "num_itself", 0) + 1
                others = others if Mixed.num_itself == 1 else []
            below = [other for other in others if other < index or (other == index == 2)]
            return (index, *(Mixed.cached[other][0] for other in below))

    Mixed.cached = fastload.CachedDataset(Mixed(), path)

    def ask(thread: int) -> None:
        for index in shuffled(8, thread):
            assert Mixed.cached[index][0] == index

    in_threads(6, ask)


# ---- names ---------------------------------------------------------------------------------------------------------


def test_an_index_names_a_sample_from_both_ends_and_of_any_type(path: Path | None, made: MadeSamples) -> None:
    cached = fastload.CachedDataset(made, path)
    for index in (3, -9, np.int64(3), torch.tensor(3)):
        assert cached[index]["label"] == 3
    assert made.made() == once([3])
    for outside in (12, -13):
        with pytest.raises(IndexError):
            cached[outside]
    assert len(list(cached)) == 12


def test_keys_name_samples_and_files_of_another_order_find_them(tmp_path: Path) -> None:
    class Files:
        def __init__(self, names: list[str]) -> None:
            self.names = names
            self.num_made = 0

        def __getitem__(self, index: int) -> str:
            self.num_made += 1
            return f"made of {self.names[index]}"

        def get_cache_key(self, index: int) -> str:
            return self.names[index]

    path = tmp_path / "s"
    first, second = Files(["a", "b", "c"]), Files(["c", "x", "a"])
    cached = fastload.CachedDataset(first, path)
    assert [cached[index] for index in range(3)] == ["made of a", "made of b", "made of c"]
    cached = fastload.CachedDataset(second, path)
    assert [cached[index] for index in range(3)] == ["made of c", "made of x", "made of a"]
    assert second.num_made == 1
    by_length = fastload.CachedDataset(Files(["yy"]), path, key=lambda index: 2)
    assert by_length[0] == "made of yy"


def test_keys_of_other_types_and_versions_are_other_samples(path: Path | None) -> None:
    names: list[Any] = ["1", 1, b"1", "a", "", b""]
    shared = fastload.CachedDataset(names, path, key=lambda index: names[index])
    assert [shared[index] for index in range(6)] == names
    assert [shared[index] for index in range(6)] == names
    if path is not None:
        other = fastload.CachedDataset(list(reversed(names)), path, key=lambda index: names[index], version="2")
        assert [other[index] for index in range(6)] == list(reversed(names))
        assert rows_of(path) == 12


def test_the_index_of_a_longer_list_and_of_another_class_is_another_sample(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fastload.CachedDataset(["a", "b"], path).fill()
    assert fastload.CachedDataset(["a2", "a", "b"], path)[1] == "a"
    assert fastload.CachedDataset(("c", "d"), path)[1] == "d"
    assert fastload.CachedDataset(["x", "y"], path)[1] == "b"  # as long and of the same class: documented
    assert fastload.CachedDataset(["x", "y"], path, version="new")[1] == "y"
    assert fastload.CachedDataset(["x", "y"], path, serializer="pickle")[1] == "y"


def test_an_index_that_names_nothing_asks_for_a_key() -> None:
    cached = fastload.CachedDataset({(1, 2): "a", "b": "c"})
    assert cached["b"] == "c"
    with pytest.raises(TypeError, match=r"sample \(1, 2\) of the data set has no key: .* Pass key="):
        cached[1, 2]
    with pytest.raises(TypeError, match=r"the key of sample 0 must be a str, an int or bytes, got 1.5 \(float\)"):
        fastload.CachedDataset(["a"], key=lambda index: 1.5)[0]  # type: ignore[arg-type,return-value]


# ---- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["memory", "file"])
def test_the_first_to_come_are_kept_until_the_budget_is_used(tmp_path: Path, where: str) -> None:
    num_bytes = 100_000
    log: Counter[int] = Counter()

    class Large:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> torch.Tensor:
            log[index] += 1
            return torch.full((num_bytes // 4,), float(index))

    path = None if where == "memory" else tmp_path / "s"
    cached = fastload.CachedDataset(Large(), path, max_bytes="1MB")
    order = shuffled(20, 5)
    for _ in range(3):
        assert [int(cached[index][0]) for index in order] == order
    num_kept = sum(count == 1 for count in log.values())
    assert 7 <= num_kept <= 9
    assert all(log[index] == 1 for index in order[:num_kept])
    assert all(log[index] == 3 for index in order[num_kept:])
    if path is not None:
        assert path.stat().st_size <= 1_000_000
        again = fastload.CachedDataset(Large(), path, max_bytes="2MB")
        assert again.fill() > num_kept
        assert path.stat().st_size <= 2_000_000


def test_fill_stops_where_the_budget_is_used(tmp_path: Path) -> None:
    for path in (None, tmp_path / "s"):
        made = MadeSamples(tmp_path / f"log of {path is None}", 50)
        cached = fastload.CachedDataset(made, path, max_bytes=8_000 if path is None else 160_000)
        num_kept = cached.fill()
        assert 0 < num_kept < 45
        assert made.made() == once(range(num_kept + 1))
        assert cached.fill() == num_kept
        cached.clear()
        assert cached.fill() == num_kept


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *((1, 1), (1 << 40, 1 << 40), ("7", 7), ("200G", 200 * 10**9), ("1.5TiB", 3 << 39), ("64 MB", 64 * 10**6)),
        *(("2k", 2000), (" 3Ki ", 3072), ("1pib", 1 << 50), ("10B", 10)),
    ],
)
def test_sizes_are_understood(text: int | str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "", "G", "1X", "1,5G", "-2G", "0G", "5i"])
def test_other_sizes_are_refused(size: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"'200G' or '1.5TiB', got {size!r}")):
        fastload.CachedDataset([1], max_bytes=size)


# ---- filling -------------------------------------------------------------------------------------------------------


def test_fill_makes_what_is_missing(path: Path | None, made: MadeSamples) -> None:
    cached = fastload.CachedDataset(made, path)
    cached[4]
    assert cached.fill(progress=False) == 12
    assert made.made() == once(range(12))
    assert cached.fill() == 12
    check_samples(cached, range(12))
    assert made.made() == once(range(12))


def test_fill_says_how_far_it_is(made: MadeSamples, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "QUIET_SECONDS", 0.0)
    made.seconds = 0.02
    for is_shown, pattern in ((True, r"fastload: making samples: \d+( of 12)? samples, "), (False, "$")):
        stream = io.StringIO()
        with mock.patch("sys.stderr", stream):
            fastload.CachedDataset(made).fill(progress=is_shown)
        assert re.match(pattern, stream.getvalue())


def test_fill_counts_what_is_kept(made: MadeSamples, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[float, float | None]] = []
    monkeypatch.setattr(_progress.Progress, "advance", lambda self, done, total=None: shown.append((done, total)))
    fastload.CachedDataset(made).fill()
    assert shown == [(done, 12) for done in range(1, 13)]


def test_an_interrupted_fill_keeps_what_was_made(path: Path | None, made: MadeSamples) -> None:
    class Interrupted(MadeSamples):
        has_been = False

        def __getitem__(self, index: int) -> Any:
            if index == 5 and not Interrupted.has_been:
                Interrupted.has_been = True
                raise KeyboardInterrupt
            return super().__getitem__(index)

    interrupted = Interrupted(Path(made.log), 12)
    cached = fastload.CachedDataset(interrupted, path)
    with pytest.raises(KeyboardInterrupt):
        cached.fill()
    assert made.made() == once(range(5))
    assert cached.fill() == 12
    assert made.made() == once(range(12))


def test_tensors_go_where_they_are_to_be_kept(path: Path | None) -> None:
    class Data:
        def to(self, device: Any) -> str:
            return f"on {device}"

    samples = [{"a": [torch.ones(2)], "b": np.ones(2), "c": b"c"}]
    assert fastload.CachedDataset(samples, path)[0]["a"][0].device.type == "cpu"
    cached = fastload.CachedDataset(samples, path, to="meta", version="meta")
    cached[0]
    samples[0]["b"] = np.zeros(2)  # from now on the kept sample is read
    for _ in range(2):
        assert cached[0]["a"][0].device.type == "meta"
        assert flat((cached[0]["b"], cached[0]["c"])) == flat((np.ones(2), b"c"))
    assert fastload.CachedDataset([Data()], copy=False, to="cpu")[0] == "on cpu"
    filled = fastload.CachedDataset([torch.ones(2, device="meta")])
    filled.fill(to=None)
    assert filled[0].device.type == "meta"
    filled = fastload.CachedDataset([torch.ones(2)], path, version="filled")
    filled.fill(to="meta")
    assert filled[0].device.type == "meta"
    filled = fastload.CachedDataset([torch.ones(2)], path, to="meta", version="filled on the host")
    filled.fill()
    assert filled[0].device.type == "meta"


# ---- arguments -----------------------------------------------------------------------------------------------------


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"dataset": Stream()}, TypeError, "dataset must be map-style, with __getitem__, got a Stream"),
        ({"dataset": 5}, TypeError, "dataset must be map-style, with __getitem__, got a int"),
        ({"key": "name"}, TypeError, "key must be a function that is called with an index, got 'name'"),
        ({"serializer": "json"}, ValueError, "serializer must be 'torch' or 'pickle', got 'json'"),
        ({"version": 3}, TypeError, "version must be a text, got 3"),
        ({"to": "gpu"}, ValueError, "to must be a device such as 'cpu' or 'cuda:0', got 'gpu'"),
        ({"path": "."}, ValueError, "path='.' is a folder, and must name a file"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        fastload.CachedDataset(**{"dataset": [1], **arguments})


def test_a_function_is_needed_for_a_map() -> None:
    with pytest.raises(TypeError, match=r"map\(\) needs a function that is called with a sample, got 3"):
        fastload.CachedDataset([1]).map(3)  # type: ignore[arg-type]


MOUNTS = """22 1 0:21 / /proc rw - proc proc rw
30 1 9:9 / / rw - ext4 /dev/vda rw
31 30 {number} / /data/a\\040b rw shared:3 - {kind} server:/x rw
"""


@pytest.mark.parametrize(
    ("kind", "is_far"), [("nfs4", True), ("fuse.sshfs", True), ("ext4", False), ("new", False), ("9p", True)]
)
def test_file_systems_are_told_by_the_list_of_mounts(tmp_path: Path, kind: str, is_far: bool) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "proc" / "self" / "mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text(MOUNTS.format(number=f"{os.major(device)}:{os.minor(device)}", kind=kind))
    assert file_system_of(tmp_path, tmp_path) == kind
    assert is_remote(kind) == is_far
    mounts.write_text(MOUNTS.format(number="0:99", kind=kind).replace("/data/a\\040b", str(tmp_path)))
    assert file_system_of(tmp_path, tmp_path) == kind
    mounts.unlink()
    assert file_system_of(tmp_path, tmp_path) == ""


def test_a_file_on_a_network_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_file_samples, "file_system_of", lambda path: "nfs4")
    with pytest.raises(ValueError, match=r"is on a file system of type nfs4, .* Name a file on a disk of this machine"):
        fastload.CachedDataset([1], tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


# ---- the object ----------------------------------------------------------------------------------------------------


def test_it_pickles_as_its_arguments(path: Path | None, made: MadeSamples) -> None:
    cached = fastload.CachedDataset(made, path, version="3", max_bytes="1G")
    cached.fill()
    for again in (pickle.loads(pickle.dumps(cached.map(label_of))), copy.deepcopy(cached.map(label_of))):
        assert [again[index] for index in range(12)] == list(range(12))
    assert len(pickle.dumps(cached)) < 1000
    expected = 1 if path is not None else 3  # samples in memory are not pickled
    assert set(made.made().values()) == {expected}


def test_a_deep_copy_has_a_data_set_of_its_own() -> None:
    cached = fastload.CachedDataset([[1], [2]])
    copy.deepcopy(cached).dataset[0].append(3)
    assert cached.dataset == [[1], [2]]


def test_it_says_what_it_is(tmp_path: Path) -> None:
    cached = fastload.CachedDataset([1, 2], max_bytes="3GB")
    cached.fill()
    assert repr(cached) == "CachedDataset(list, 2 samples in memory in at most 3.00 GB)"
    cached = fastload.CachedDataset([1, 2], tmp_path / "s")
    assert repr(cached.map(label_of).map(abs)) == (
        f"CachedDataset(list, samples in '{tmp_path / 's'}').map(label_of).map(abs)"
    )


def test_maps_follow_each_other_and_are_made_each_time() -> None:
    calls: list[int] = []

    def double(number: int) -> int:
        calls.append(number)
        return 2 * number

    mapped = fastload.CachedDataset([1, 2]).map(double).map(str)
    assert (len(mapped), mapped[1], mapped[1]) == (2, "4", "4")
    assert calls == [2, 2]


def test_names_of_files_may_have_any_characters(tmp_path: Path) -> None:
    for name in ("a b?c#d%41&mode=ro", "\N{SNOWMAN}", "quote'\""):
        cached = fastload.CachedDataset(["x"], tmp_path / name)
        cached.fill()
        assert rows_of(tmp_path / name) == 1
    assert not (tmp_path / "a b").exists()


def test_clear_lets_go_of_all(path: Path | None, made: MadeSamples) -> None:
    cached = fastload.CachedDataset(made, path)
    cached.fill()
    cached.clear()
    check_samples(cached, range(12))
    assert set(made.made().values()) == {2}


def test_two_of_one_file_are_one_in_a_process(tmp_path: Path) -> None:
    made = MadeSamples(tmp_path / "log", 20, seconds=0.002)
    both = [
        fastload.CachedDataset(made, tmp_path / "s"),
        fastload.CachedDataset(made, f"{tmp_path}/../{tmp_path.name}/s"),
    ]
    in_threads(4, lambda thread: check_samples(both[thread % 2], range(20)))
    assert made.made() == once(range(20))


def test_a_file_that_was_removed_and_made_anew_is_another_one(tmp_path: Path) -> None:
    made = MadeSamples(tmp_path / "log", 3)
    old = fastload.CachedDataset(made, tmp_path / "s")
    old.fill()
    for file in tmp_path.glob("s*"):
        file.unlink()
    new = fastload.CachedDataset(made, tmp_path / "s")
    new.fill()
    check_samples(old, range(3))
    assert rows_of(tmp_path / "s") == 3
    assert set(made.made().values()) == {2}


def test_nothing_is_left_open(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cached = fastload.CachedDataset([1, 2], tmp_path / "s")
        cached.fill()
        del cached
    assert {file.name for file in tmp_path.iterdir()} == {"s"}  # the last connection to close takes in the journal


def test_explain_says_what_is_native_and_gives_no_advice_that_does_not_fit() -> None:
    loader = Threads(fastload.CachedDataset([1, 2]).map(abs), num_workers=1)
    list(loader)
    text = str(loader.explain())
    assert text.startswith("not native: samples are loaded in Python, by one thread")
    assert "to change" not in text
    assert "shared" not in text
