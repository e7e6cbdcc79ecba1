"""Programs that start workers by fastload's own module and shared_objects_module.cpp, with nothing else of fastload.

`python sharing_programs.py FOLDER PROGRAM ARGUMENT...`, for a Python with the extension shared_objects in FOLDER.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import copy
import ctypes
import dataclasses
import gc
import importlib.util
import itertools
import json
import multiprocessing
import multiprocessing.connection
import os
import pickle
import random
import signal
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

sys.path.insert(0, sys.argv[1])
import shared_objects

try:
    import numpy as np
except ImportError:
    np = None

START = Path(__file__).resolve().parents[2] / "fastload" / "_iteration" / "processes" / "_start.py"
sys.modules["fastload"] = types.ModuleType("fastload")


class CallsAtDrop:
    """Stands for the product's class, which is built with pybind11."""

    def __init__(self, calls: tuple[Any, ...]) -> None:
        self._calls, self._owner_pid = calls, os.getpid()

    def __del__(self, getpid: Any = os.getpid) -> None:
        for call in self._calls if getpid() == self._owner_pid else ():
            call()


shared_objects.CallsAtDrop = CallsAtDrop
sys.modules["fastload._native"] = shared_objects
specification = importlib.util.spec_from_file_location("start", START)
start: Any = importlib.util.module_from_spec(specification)
specification.loader.exec_module(start)
NONE, FAIL, KILL = range(3)


class DataSet:
    def __init__(self, samples: Any = None) -> None:
        self.samples = samples


@contextlib.contextmanager
def working(dataset: DataSet, work: Any, workers: int, *, is_shared: bool) -> Iterator[tuple[list[Any], list[Any]]]:
    """Yields what `work(dataset)` has returned in each worker, one after the other, and the processes, which live."""
    start.MIN_SHARED_OBJECTS = 0 if is_shared else 1 << 60
    go = os.pipe()
    receives_result, sends_result = multiprocessing.Pipe(duplex=False)

    def serve() -> None:
        os.read(go[0], 1)
        sends_result.send(work(dataset))
        time.sleep(1000)

    processes = [multiprocessing.Process(target=serve, daemon=True) for _ in range(workers)]
    try:
        start.start_workers(processes, (dataset,))
        sends_result.close()
        results = []
        for _ in processes:
            os.write(go[1], b".")
            results.append(receives_result.recv())
        yield results, processes
    finally:
        for end in go:
            os.close(end)
    for process in processes:
        process.kill()
        process.join()
        process.close()


def memory(pid: int | str = "self") -> float:
    """Returns the proportional set size of a process in MiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:"))


Data = dataclasses.make_dataclass("Data", ["path", "box"])
Slots = dataclasses.make_dataclass("Slots", ["path", "box"], slots=True)
Named = collections.namedtuple("Named", ["path", "label"])


def path(i: int) -> str:
    return f"/data/train/n{i % 1000:08d}/n{i % 1000:08d}_{i}.JPEG"


def box(i: int) -> list[float]:
    return [i * 0.5, i + 0.25, i + 300.0, i + 1.5]


def element(i: int) -> ElementTree.Element:
    made = ElementTree.Element("image", file=path(i))
    ElementTree.SubElement(made, "box").text = str(i)
    return made


def coco(count: int) -> Any:
    """Returns the tables of pycocotools: the same annotations by number and by image."""
    annotations = [{"id": i, "image": i // 5, "bbox": box(i), "area": i * 0.7} for i in range(count)]
    by_image = collections.defaultdict(list)
    for annotation in annotations:
        by_image[annotation["image"]].append(annotation)
    return {"all": annotations, "by image": by_image, "by number": {one["id"]: one for one in annotations}}


# Kind -> (samples, one sample by its number, reader).
KINDS: dict[str, tuple[int, Any, Any]] = {
    "pairs": (500_000, lambda i: (path(i), i + 1000), lambda x: len(x[0]) + x[1]),
    "nested": (120_000, lambda i: {"f": path(i), "b": [box(i), box(i)]}, lambda x: len(x["f"]) + sum(map(sum, x["b"]))),
    "text": (600_000, lambda i: json.dumps({"file": path(i)}), lambda x: hash(x)),
    "dataclasses": (200_000, lambda i: Data(path(i), box(i)), lambda x: len(x.path) + sum(x.box)),
    "slots": (200_000, lambda i: Slots(path(i), box(i)), lambda x: len(x.path) + sum(x.box)),
    "named tuples": (500_000, lambda i: Named(path(i), i + 1000), lambda x: len(x.path) + x.label),
    "ordered": (150_000, lambda i: collections.OrderedDict(f=path(i), b=box(i)), lambda x: len(x["f"]) + sum(x["b"])),
    "sets": (250_000, lambda i: {path(i), i + 1000}, lambda x: sum(1 for _ in x)),
    "deques": (120_000, lambda i: collections.deque([path(i), i + 1000]), lambda x: len(x[0]) + x[1]),
    "elements": (200_000, element, lambda x: len(x.get("file")) + len(x[0].text)),
    "arrays": (250_000, lambda i: {"b": np.full(4, i), "f": path(i)}, lambda x: len(x["f"]) + x["b"].sum()),
}


def read_coco(tables: Any) -> float:
    images = (one for image in tables["by image"].values() for one in image)
    every = itertools.chain(tables["all"], tables["by number"].values(), images)
    return sum(one["area"] + sum(one["bbox"]) for one in every)


def measure(kind: str, is_shared: str) -> None:
    """Prints how many data sets of memory the program and 8 workers take that have read all samples."""
    count, make, read = KINDS.get(kind, (150_000, None, None))
    samples_of = coco if kind == "coco" else lambda n: [make(i) for i in range(n)]
    work = (lambda d: read_coco(d.samples)) if kind == "coco" else (lambda d: sum(map(read, d.samples)))
    work(DataSet(samples_of(1000)))
    before = memory()
    dataset = DataSet(samples_of(count))
    size = memory() - before
    estimated = start.copied_mib((dataset,))
    with working(dataset, work, 8, is_shared=is_shared == "shared") as (results, processes):
        total = memory() + sum(memory(process.pid) for process in processes) - before
    assert results == [work(dataset)] * 8
    print(json.dumps({"size": size, "data sets": total / size, "estimated": estimated / size}))


def num_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Handle:
    ended = 0

    def __del__(self) -> None:
        Handle.ended += 1


def clear(dataset: DataSet) -> Any:
    before = num_files()
    dataset.samples.clear()
    return Handle.ended, before - num_files(), len(dataset.known)


def collect(dataset: DataSet) -> Any:
    dataset.cycle = None
    return gc.collect() > 0, Handle.ended, gc.isenabled(), gc.get_freeze_count()


def copy_all(dataset: DataSet) -> Any:
    copied = copy.deepcopy(dataset.samples)
    copied[7]["box"].append(0.0)
    return [*map(len, map(pickle.dumps, (copied, dataset.samples)))], dataset.samples[6:8], copied[6:8]


def change(dataset: DataSet) -> Any:
    dataset.samples[3]["box"].append(dataset.samples[3].pop("file"))
    dataset.samples[4]["more"] = Handle()
    del dataset.samples[4]["more"], dataset.samples[100:]
    return dataset.samples[:5], Handle.ended, len(dataset.samples)


def describe_process(dataset: DataSet) -> Any:
    own, parent = multiprocessing.current_process(), multiprocessing.parent_process()
    return (
        *(own.daemon, own.name.rsplit("-", 1)[0], bytes(own.authkey) == dataset.authkey, sys.stdin.read()),
        *(parent.name, parent.is_alive(), parent.pid == os.getppid() == dataset.pid),
        *(multiprocessing.active_children(), threading.current_thread() is threading.main_thread()),
        collections.Counter(dataset.hooks),
    )


# A sample by its number, where a program sees to what ends with it.
ODD_SAMPLES = {
    "finalizers": lambda i: {"file": path(i), "handle": [Handle()]},
    "files": lambda i: {"file": Path(os.devnull).open() if i < 5 else None},  # noqa: SIM115 - a worker drops them
    "weak references": lambda i: Data(path(i), box(i)),
}


def see(name: str, is_shared: str) -> None:
    """Prints what two workers see."""
    make = ODD_SAMPLES.get(name, lambda i: {"file": path(i), "box": box(i)})
    dataset = DataSet([make(i) for i in range(3000)])
    dataset.known = weakref.WeakValueDictionary(enumerate(dataset.samples)) if name == "weak references" else ()
    dataset.cycle = [Handle()]
    dataset.cycle.append(dataset.cycle)
    dataset.pid, dataset.authkey, dataset.hooks = os.getpid(), bytes(multiprocessing.current_process().authkey), []
    os.register_at_fork(after_in_child=lambda: dataset.hooks.append("child"))
    atexit.register(os.write, 1, b"ended\n")
    work = clear if name in ODD_SAMPLES else globals()[name]
    with working(dataset, work, 2, is_shared=is_shared == "shared") as (results, _):
        print(results, flush=True)


def state_of_process() -> tuple[int, list[str]]:
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    return num_files(), children


def counts_of(dataset: DataSet) -> list[int]:
    samples = dataset.samples
    parts = itertools.chain(samples, (one["file"] for one in samples), (one["box"] for one in samples))
    return [shared_objects.raw_count(part) for part in parts]


def keep_counts() -> None:
    """Starts workers while four threads change the data: afterwards every count is as before."""
    dataset = DataSet([{"file": path(i), "box": box(i)} for i in range(60_000)])
    before, is_over = counts_of(dataset), threading.Event()

    def change(number: int) -> None:
        draws, held = random.Random(number), []
        while not is_over.is_set():
            at = draws.randrange(number, len(dataset.samples), 4)
            one = dataset.samples[at]
            dataset.samples[at] = {}
            held += [one, one["file"], dict(one), [one["box"]] * 3]
            dataset.samples[at] = one
            del held[:-50]

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        with working(dataset, lambda d: len(d.samples), 3, is_shared=True) as (results, _):
            assert results == [60_000] * 3
    is_over.set()
    for thread in threads:
        thread.join()
    assert counts_of(dataset) == before


def fail_at_every_fork() -> None:
    """Lets the maker's fork and each of four workers' fail."""
    dataset = DataSet([{"file": path(i), "box": box(i)} for i in range(2000)])
    counts, before = counts_of(dataset), state_of_process()
    for call in range(-1, 4):
        shared_objects.set_fault(FAIL, call)
        try:
            with working(dataset, len, 4, is_shared=True):
                raise AssertionError("no fork has failed")
        except BlockingIOError:
            pass
        gc.collect()
        assert (counts_of(dataset), state_of_process()) == (counts, before), call


def kill_makers() -> None:
    """Kills the maker before its first fork, between two, and when it ends."""
    dataset = DataSet([{"file": path(i), "box": box(i)} for i in range(2000)])
    counts, before = counts_of(dataset), state_of_process()
    for call, is_lost in ((0, True), (2, True), (4, False)):
        shared_objects.set_fault(KILL, call)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with working(dataset, lambda d: len(d.samples), 4, is_shared=True) as (results, _):
                assert results == [2000] * 4
        messages = [str(one.message) for one in caught if one.category is RuntimeWarning]
        assert len(messages) == is_lost
        assert all("was killed by signal 9" in message for message in messages)
        gc.collect()
        assert (counts_of(dataset), state_of_process()) == (counts, before), call


def count_by_the_old_abi() -> None:
    """Counts all samples as an extension for Python 3.2 to 3.11 does, with Python's own counting in between."""

    def count(dataset: DataSet) -> Any:
        samples, draws, held = dataset.samples, random.Random(5), []
        first = shared_objects.raw_count(samples[0]) >> 30
        for _ in range(200):
            number = draws.randrange(1, 4)
            held.append(list(samples))
            shared_objects.add_counts(samples, number)
            del held[: draws.randrange(2)]
            held.append(list(samples))
            del held[: draws.randrange(3)]
            shared_objects.add_counts(samples, -number)
        held.clear()
        return first > 0, all(sys.getrefcount(one) > 1 << 30 for one in samples), samples == expected

    dataset = DataSet([(path(i), i + 1000.0) for i in range(3000)])
    expected = copy.deepcopy(dataset.samples)
    with working(dataset, count, 2, is_shared=True) as (results, _):
        assert results == [(True, True, True)] * 2, results


def reap_everything() -> None:
    """Starts workers under a handler that takes the exit status of every child."""
    reaped = []

    def reap(*_: Any) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                reaped.append(ended)

    signal.signal(signal.SIGCHLD, reap)
    dataset = DataSet([{"file": path(i), "box": box(i)} for i in range(50_000)])
    for _ in range(20):
        with working(dataset, lambda d: len(d.samples), 3, is_shared=True) as (results, processes):
            assert results == [50_000] * 3
            for process in processes:
                process.kill()
            while len(state_of_process()[1]):
                time.sleep(0.01)
            processes.clear()


def start_in_three_threads() -> None:
    """Starts workers in three threads at once, five times each; afterwards the process is no subreaper."""
    failures = []

    def start_some(number: int) -> None:
        dataset = DataSet([(path(i), i + number) for i in range(20_000)])
        for _ in range(5):
            with working(dataset, lambda d: d.samples[5][1], 3, is_shared=True) as (results, _):
                if results != [number + 5] * 3:
                    failures.append(results)

    start.MIN_SHARED_OBJECTS = 0
    threads = [threading.Thread(target=start_some, args=(number,)) for number in (1000, 2000, 3000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_subreaper = ctypes.c_int(7)
    ctypes.CDLL(None).prctl(37, ctypes.byref(is_subreaper))
    assert (failures, is_subreaper.value) == ([], 0)


def end_in_every_way() -> None:
    """Compares exit codes, and what the parent's handle says, with processes that are started one by one."""
    ways = [lambda: None, lambda: sys.exit(3), lambda: 1 / 0, lambda: os.kill(os.getpid(), 9), lambda: time.sleep(60)]
    found = []
    for start.MIN_SHARED_OBJECTS in (0, 1 << 60):
        processes = [multiprocessing.Process(target=way) for way in ways]
        start.start_workers(processes, (DataSet([path(i) for i in range(1000)]),))
        processes[-1].terminate()
        multiprocessing.connection.wait([process.sentinel for process in processes])
        for process in processes:
            process.join()
        assert multiprocessing.active_children() == []
        found.append([(process.exitcode, process.is_alive(), hasattr(process, "_target")) for process in processes])
        for process in processes:
            process.close()
    assert found[0] == found[1] == [(code, False, False) for code in (0, 3, 1, -9, -15)], found


def interrupt_starts() -> None:
    """Sends interrupts to the process group while workers are started: the parent alone handles them."""
    hits = []
    signal.signal(signal.SIGINT, lambda *_: hits.append(1))
    dataset = DataSet([{"file": path(i), "box": box(i)} for i in range(200_000)])
    os.setsid()
    sender = threading.Thread(target=lambda: [(os.killpg(0, signal.SIGINT), time.sleep(0.002)) for _ in range(200)])
    sender.start()
    while sender.is_alive():
        with working(dataset, lambda d: len(d.samples), 2, is_shared=True) as (results, _):
            assert results == [200_000] * 2
    before = state_of_process()

    def end(*_: Any) -> None:
        raise TimeoutError("now")

    signal.signal(signal.SIGALRM, end)
    for delay in (0.01, 0.03, 0.05, 0.07):
        signal.setitimer(signal.ITIMER_REAL, delay)
        with contextlib.suppress(TimeoutError), working(dataset, lambda d: len(d.samples), 2, is_shared=True):
            time.sleep(1)
        for process in multiprocessing.active_children():
            process.kill()
            process.join()
        gc.collect()
        assert state_of_process() == before
    assert hits


if __name__ == "__main__":
    globals()[sys.argv[2]](*sys.argv[3:])
