"""Caches on disk that are damaged, full, foreign, shared by processes, or whose processes are killed."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from cached_epochs import (
    MIB,
    assert_only_records,
    blocks_bytes,
    digests,
    let_go_of_stores,
    loader_of,
    make_photographs,
    publish,
)
from children import RunChild

import fastload
from fastload import _native
from fastload._decode_cache._clearing import clear_store

HELPERS = Path(__file__).resolve().parents[1] / "helpers"
NUM_IMAGES = 16
OTHER_USER = 65534

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")

PRELUDE = """
import gc, os, signal, sys, threading, time, warnings
import torch
import fastload
from pathlib import Path
from cached_epochs import *
folder, place = os.environ["FOLDER"], Path(os.environ["STORE"])
cache = fastload.Cache(place)
"""


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_photographs(tmp_path_factory.mktemp("photographs"), NUM_IMAGES)


@pytest.fixture(scope="session")
def expected(photographs: Path) -> list[str]:
    """Returns the digests of three epochs without a cache."""
    return digests(loader_of(photographs, None), 3)


@pytest.fixture(scope="session")
def filled(photographs: Path, expected: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a store that knows all photographs; tests must not change it."""
    place = tmp_path_factory.mktemp("filled") / "store"
    loader = loader_of(photographs, fastload.Cache(place))
    assert digests(loader) == expected[:1]
    del loader
    let_go_of_stores()
    return place


@pytest.fixture(autouse=True)
def no_store_is_left() -> Iterator[None]:
    yield
    let_go_of_stores()


@pytest.fixture
def run_cached(photographs: Path, tmp_path: Path, run_child: RunChild) -> RunChild:
    """Returns run_child with the names of PRELUDE."""

    def run(code: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
        env = {"FOLDER": str(photographs), "STORE": str(tmp_path / "store"), **arguments.pop("env", {})}
        return run_child(PRELUDE + textwrap.dedent(code), env=env, warm=True, **arguments)

    return run


# ---- processes ----


def start(program: str, *words: object) -> subprocess.Popen[str]:
    """Runs `program`, which has PRELUDE's names, in a process of its own."""
    environment = {
        **os.environ,
        "FOLDER": str(words[0]),
        "STORE": str(words[1]),
        "WORDS": " ".join(map(str, words[2:])),
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(HELPERS)])),
    }
    code = "import repository_path, torchvision_shim\n" + PRELUDE + program
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)


RANK = """
rank, ranks, max_bytes = map(int, os.environ["WORDS"].split())
from torch.utils.data.distributed import DistributedSampler

def run(cache):
    loader = loader_of(folder, cache, shuffle=False)
    sampler = DistributedSampler(loader.dataset, ranks, rank, shuffle=True)
    loader = fastload.DataLoader(loader.dataset, batch_size=4, num_workers=2, cache=cache, sampler=sampler)
    found = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        found += digests(loader)
        if cache is not None:
            publish(loader)
    return found, loader.stats()

expected, _ = run(None)
print("ready", flush=True)
found, stats = run(fastload.Cache(place, max_bytes=max_bytes))
assert found == expected
print(stats.cache_hits, stats.cache_damaged + stats.cache_mismatches, flush=True)
"""


def test_a_key_that_a_killed_process_has_begun_is_made_anew(photographs: Path, tmp_path: Path) -> None:
    place = tmp_path / "store" / "v1"
    place.mkdir(mode=0o700, parents=True)
    begun = place / "key.tmp"
    begun.write_bytes(b"half")
    loader = loader_of(photographs, fastload.Cache(place.parent))
    assert digests(loader) == digests(loader_of(photographs, None))
    publish(loader)
    assert_only_records(place)
    begun.write_bytes(b"half")
    del loader
    let_go_of_stores()
    clear_store(place.parent)
    assert not place.exists()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_on_one_store_of_which_one_is_killed_and_comes_again(
    photographs: Path, tmp_path: Path, ranks: int
) -> None:
    place = tmp_path / "store"
    budgets = [MIB if rank % 2 else 2 * MIB for rank in range(ranks)]
    processes = [start(RANK, photographs, place, rank, ranks, budgets[rank]) for rank in range(ranks)]
    try:
        assert processes[0].stdout is not None
        assert processes[0].stdout.readline() == "ready\n"
        time.sleep(random.Random(ranks).uniform(0, 0.1))
        processes[0].kill()
        processes[0].wait()
        processes[0] = start(RANK, photographs, place, 0, ranks, budgets[0])
        most = 0
        while any(process.poll() is None for process in processes):
            if (place / "v1").exists():
                most = max(most, blocks_bytes(place / "v1"))
            time.sleep(0.005)
        for process in processes:
            assert process.stdout is not None
            hits, wrong = map(int, process.stdout.read().replace("ready", "").split())
            assert process.returncode == 0
            assert hits > 0
            assert wrong == 0
    finally:
        for process in processes:
            process.kill()
    assert 0 < most <= 2 * MIB
    loader = loader_of(photographs, fastload.Cache(place))
    assert digests(loader) == digests(loader_of(photographs, None))
    publish(loader)
    assert_only_records(place / "v1")


def test_a_process_killed_while_it_fills_a_store_leaves_what_the_next_one_can_use(
    expected: list[str], run_cached: RunChild
) -> None:
    program = f"""
    choose = __import__("random").Random(7)
    for attempt in range(8):
        pid = os.fork()
        if pid == 0:
            for epoch in range(100):
                loader = loader_of(folder, cache)
                digests(loader)
                publish(loader)
                if attempt == 7:
                    os._exit(0)
        if attempt < 7:
            time.sleep(choose.uniform(0.05, 0.4))
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if attempt % 3 == 0 or attempt == 7:
            pid = os.fork()
            if pid == 0:
                loader = loader_of(folder, cache)
                assert digests(loader) == {expected[:1]!r}
                assert loader.stats().cache_damaged == loader.stats().cache_mismatches == 0
                publish(loader)
                assert_only_records(place / "v1")
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    loader = loader_of(folder, cache)
    assert digests(loader) == {expected[:1]!r}
    assert loader.stats().cache_hits == {NUM_IMAGES}
    assert blocks_bytes(place / "v1") < 200_000
    """
    run_cached(program)


@pytest.mark.smoke
def test_ranks_of_a_program_share_a_store_that_nobody_named(
    photographs: Path, expected: list[str], run_cached: RunChild, tmp_path: Path
) -> None:
    program = f"""
    import warnings
    warnings.simplefilter("error", RuntimeWarning)
    loader = loader_of(folder, "auto")
    assert digests(loader) == {expected[:1]!r}
    assert str(Path(os.environ["FASTLOAD_CACHE"], "decode")) in loader.explain()
    print(loader.stats().cache_hits)
    """
    env = {"LOCAL_WORLD_SIZE": "2", "FASTLOAD_CACHE": str(tmp_path / "cache")}
    assert [run_cached(program, env=env).stdout.split() for _ in range(2)] == [["0"], [str(NUM_IMAGES)]]
    assert_only_records(tmp_path / "cache" / "decode" / "v1")
    assert (tmp_path / "cache" / "decode").stat().st_mode & 0o777 == 0o700


def test_a_child_that_outlives_its_parent_does_not_keep_its_file_from_others(
    photographs: Path, run_cached: RunChild
) -> None:
    run_cached("""
    reads, writes = os.pipe()
    parent = os.fork()
    if parent == 0:
        loader = loader_of(folder, cache)
        digests(loader)
        publish(loader)
        if os.fork() == 0:
            os.close(reads)
            os.write(writes, os.getpid().to_bytes(8, "little"))
            time.sleep(60)
        time.sleep(60)
    child = int.from_bytes(os.read(reads, 8), "little")
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    try:
        loader = loader_of(folder, cache)
        iter(loader)
        from fastload._decode_cache._report import report_of
        files = report_of(place, reads_records=True).files
        assert [(file["records"], file["damaged"], file["has_writer"]) for file in files] == [(16, 0, False)], files
    finally:
        os.kill(child, signal.SIGKILL)
    """)


def test_a_forked_child_lets_go_of_its_parents_stores_at_any_time(photographs: Path, run_cached: RunChild) -> None:
    """A thread of the parent may hold their locks just then."""
    run_cached("""
    loader = loader_of(folder, cache)
    digests(loader)
    native = store_of(loader).native
    is_over = False

    def work():
        while not is_over:
            native.flush(10.0)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(150):
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)
            del loader, native
            gc.collect()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    is_over = True
    for thread in threads:
        thread.join()
    """)


@pytest.mark.smoke
def test_a_child_that_is_forked_in_an_epoch_uses_the_store_itself(
    photographs: Path, expected: list[str], run_cached: RunChild
) -> None:
    run_cached(f"""
    loader = loader_of(folder, cache)
    iterator = iter(loader)
    next(iterator)
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        assert digests(loader, 3) == {expected!r}
        publish(loader)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert digests(loader, 3) == {expected!r}
    publish(loader)
    assert_only_records(place / "v1")
    assert loader.stats().cache_damaged == 0
    """)


# ---- lives of threads ----


def test_an_interpreter_that_exits_publishes_and_a_loader_that_is_dropped_ends_its_thread(
    photographs: Path, run_cached: RunChild
) -> None:
    run_cached("""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        loader = loader_of(folder, cache)
        digests(loader)
        assert any(thread.name == "fastload-cache" for thread in threading.enumerate())
        del loader
        let_go_of_stores()
    end = time.monotonic() + 20
    while len(os.listdir("/proc/self/fd")) != before:  # the thread ends before its last reference does
        assert time.monotonic() < end, os.listdir("/proc/self/fd")
        time.sleep(0.01)
    import shutil
    shutil.rmtree(place)
    loader = loader_of(folder, cache)
    digests(loader)
    """)
    assert run_cached("""
    loader = loader_of(folder, cache)
    digests(loader)
    print(loader.stats().cache_hits)
    """).stdout.split() == [str(NUM_IMAGES)]


def test_interrupts_at_any_time_leave_a_loader_that_goes_on(
    photographs: Path, expected: list[str], run_cached: RunChild
) -> None:
    run_cached(f"""
    import itertools
    choose = __import__("random").Random(3)
    loader = loader_of(folder, cache)
    for attempt in range(60):
        if attempt % 5 == 0:
            loader = loader_of(folder, cache)
        signal.setitimer(signal.ITIMER_REAL, choose.uniform(0.0001, 0.02))
        try:
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            digests(loader)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    time.sleep(0.05)
    assert digests(loader, 3) == {expected!r}
    publish(loader)
    del loader
    let_go_of_stores()
    assert_only_records(place / "v1")
    """)


# ---- folders ----


def spoil_link(place: Path) -> None:
    shutil.move(place / "v1", place / "elsewhere")
    (place / "v1").symlink_to(place / "elsewhere")


SPOILT = {
    "of another user": (lambda place: os.chown(place, OTHER_USER, OTHER_USER), "it belongs to nobody (user 65534)"),
    "records of another user": (
        lambda place: os.chown(place / "v1", OTHER_USER, OTHER_USER),
        "it belongs to nobody (user 65534)",
    ),
    "writable by a group": (lambda place: place.chmod(0o770), "other users can write to it"),
    "writable by all": (lambda place: (place / "v1").chmod(0o777), "other users can write to it"),
    "a link": (spoil_link, "Not a directory"),
    "a file": (lambda place: (shutil.rmtree(place), place.write_bytes(b"")), "Not a directory"),
    "a damaged key": (lambda place: (place / "v1/key").write_bytes(b"short"), "v1/key is damaged: remove the store"),
    "a key of all": (lambda place: (place / "v1/key").chmod(0o666), "other users can write to it"),
    "a key that is a link": (
        lambda place: ((place / "v1/key").rename(place / "key"), (place / "v1/key").symlink_to(place / "key")),
        "it is not a regular file",
    ),
    "a key that is a FIFO": (
        lambda place: ((place / "v1/key").unlink(), os.mkfifo(place / "v1/key")),
        "it is not a regular file",
    ),
}


@as_root
@pytest.mark.smoke
@pytest.mark.parametrize("kind", SPOILT)
def test_a_folder_that_others_may_have_made_is_named_in_one_warning_and_not_used(
    photographs: Path, expected: list[str], filled: Path, tmp_path: Path, kind: str
) -> None:
    place = shutil.copytree(filled, tmp_path / "store")
    spoil, reason = SPOILT[kind]
    spoil(place)
    _native.clear_index_memory()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", RuntimeWarning)
        loader = loader_of(photographs, fastload.Cache(place))
        assert digests(loader, 3) == expected
    texts = [str(warning.message) for warning in seen if "cache" in str(warning.message)]
    assert len(texts) == 1, texts
    assert str(place) in texts[0]
    assert reason in texts[0]
    assert "Indexes are kept in memory instead" in texts[0]
    assert loader.stats().cache_hits == 2 * NUM_IMAGES
    _native.clear_index_memory()


def test_where_no_file_may_grow_there_is_one_warning_and_training_goes_on(
    photographs: Path, expected: list[str], run_cached: RunChild
) -> None:
    run_cached(f"""
    import resource
    for limit in (2000, 100):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always", RuntimeWarning)
            loader = loader_of(folder, fastload.Cache(place.with_name(f"store{{limit}}")))
            iter(loader)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            found = []
            for _ in range(3):
                found += digests(loader)
                publish(loader)
            iter(loader)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert found == {expected[:1] * 3!r}
        texts = [str(warning.message) for warning in seen if "cache" in str(warning.message)]
        assert len(texts) <= 1, texts
        if limit == 100:
            assert "nothing more is kept in the cache" in texts[0], texts
            assert "File too large" in texts[0]
            assert loader.stats().cache_dropped > 0
            assert "no more are kept: File too large" in loader.explain()
    """)


@as_root
def test_a_small_file_system_that_is_full_stops_keeping_alone(
    photographs: Path, expected: list[str], run_cached: RunChild, tmp_path: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "none", small], check=False).returncode == 0
    if not mounted:
        pytest.skip("no file system can be mounted here")
    try:
        run_cached(
            f"""
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always", RuntimeWarning)
                loader = loader_of(folder, cache)
                for _ in range(3):
                    assert digests(loader) == {expected[:1]!r}
                    publish(loader)
                iter(loader)
            texts = [str(warning.message) for warning in seen if "cache" in str(warning.message)]
            assert len(texts) == 1, texts
            assert "No space left on device" in texts[0]
            """,
            env={"STORE": str(small / "store")},
        )
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_folder_that_is_removed_in_use_costs_a_warning_and_nothing_else(
    photographs: Path, expected: list[str], tmp_path: Path
) -> None:
    place = tmp_path / "store"
    loader = loader_of(photographs, fastload.Cache(place))
    iter(loader)
    publish(loader)  # so that its thread makes no file meanwhile
    shutil.rmtree(place)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", RuntimeWarning)
        assert digests(loader, 3) == expected
        publish(loader)
        iter(loader)
    texts = [str(warning.message) for warning in seen if "cache" in str(warning.message)]
    assert len(texts) == 1, texts
    assert "nothing more is kept in the cache" in texts[0]
    assert "No such file or directory" in texts[0]


# ---- damage ----


def damage(place: Path, choose: random.Random) -> str:
    """Spoils one file of records in one way; says how."""
    path = choose.choice(sorted([*place.glob("v1/*.dat"), *place.glob("v1/*.dir")]))
    data = bytearray(path.read_bytes())
    kind = choose.choice(["flip", "flips", "cut", "swap", "zeros", "longer"])
    if kind in ("flip", "flips"):
        for _ in range(1 if kind == "flip" else 50):
            data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    elif kind == "cut":
        del data[choose.randrange(len(data)) :]
    elif kind == "swap":
        size = choose.choice([8, 32, 64, 200])
        a, b = sorted(choose.randrange(0, max(1, len(data) - size), 8) for _ in range(2))
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    elif kind == "zeros":
        begin = choose.randrange(len(data))
        data[begin : begin + 300] = bytes(len(data[begin : begin + 300]))
    else:
        data += choose.randbytes(choose.randrange(1, 500))
    path.write_bytes(data)
    return f"{path.name}, {kind}"


def assert_damaged_stores_change_nothing(
    seeds: Sequence[int], photographs: Path, expected: Sequence[str], filled: Path
) -> None:
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(shutil.copytree(filled, Path(folder, "store")))
            choose = random.Random(seed)
            how = damage(place, choose)
            is_open = choose.random() < 0.3
            loader = loader_of(photographs, fastload.Cache(place), num_workers=0)
            if is_open:
                iter(loader)
                how += ", and " + damage(place, choose)
            assert digests(loader) == expected[:1], f"seed {seed}: {how}"
            del loader
            let_go_of_stores()
            assert not [path for path in place.glob("v1/*") if path.suffix == ".tmp"], how


@pytest.mark.smoke
def test_damaged_stores_change_no_byte(photographs: Path, expected: list[str], filled: Path) -> None:
    assert_damaged_stores_change_nothing(range(12), photographs, expected, filled)


def test_a_file_that_is_replaced_under_an_open_store_is_not_believed(
    photographs: Path, expected: list[str], filled: Path, tmp_path: Path
) -> None:
    place = Path(shutil.copytree(filled, tmp_path / "store"))
    (data,) = place.glob("v1/*.dat")
    loader = loader_of(photographs, fastload.Cache(place))
    iter(loader)
    replacement = place / "v1" / "other"
    replacement.write_bytes(os.urandom(data.stat().st_size))
    replacement.replace(data)
    assert digests(loader, 2) == expected[:2]
    publish(loader)
    assert digests(loader) == expected[:1]
    assert loader.stats().cache_mismatches == 0


_filled: Any = None


def assert_case(seed: int) -> None:
    """Checks one damaged store; for campaigns."""
    global _filled
    if _filled is None:
        folder = Path(tempfile.mkdtemp())
        photographs = make_photographs(folder / "photographs", NUM_IMAGES)
        loader = loader_of(photographs, fastload.Cache(folder / "store"))
        _filled = photographs, digests(loader), folder / "store"
        publish(loader)
        del loader
        with contextlib.suppress(RuntimeError):
            let_go_of_stores()
    photographs, expected, filled = _filled
    assert_damaged_stores_change_nothing([seed], photographs, expected, filled)
