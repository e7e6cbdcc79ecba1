"""The CUDA runtime that torch has loaded is found and used; a sentence says why there is none, if so.

The runtime is a fake one, built here and loaded in child processes: a process cannot unload it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from children import RunChild
from fake_cuda import library

from fastload import _native

# `core` is the extension module alone: importing the package imports torch, which may bring its own runtime.
CHILD = """
import ctypes
import importlib.util
from pathlib import Path

def load_core():
    spec = importlib.util.spec_from_file_location("_core", {core!r})
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core

def fail(function, error):
    cuda.fake_fail_call(0, function, ctypes.c_uint64(1), error, 0)

def take_log():
    log = ctypes.create_string_buffer(4096)
    cuda.fake_take_log(log, ctypes.c_size_t(len(log)))
    return log.value.decode()

def state_of_thread():
    device, mode = ctypes.c_int(), ctypes.c_int()
    cuda.cudaGetDevice(ctypes.byref(device))
    cuda.cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    return device.value, mode.value

def problem(major, device):
    try:
        core.open_cuda_device(major, device)
    except RuntimeError as error:
        return str(error)

def copy_of(device, memory, to):
    ring = core.StagingRing(device, address=ctypes.addressof(memory), slot_bytes=8, num_slots=1, owner=memory)
    copy = core.BatchCopy(ring.take(), [(0, 6)], 0)
    copy.set_destinations([ctypes.addressof(to)])
    return ring, copy

library, version, num_gpus = {library!r}, {version}, {num_gpus}
if library:
    cuda = ctypes.CDLL(library)
    cuda.fake_set_versions(version, 99000)
    for _ in range(num_gpus):
        cuda.fake_add_gpu()
    take_log()
core = load_core()
"""


@dataclass(frozen=True)
class Build:
    """A fake runtime."""

    path: str
    version: int


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Build]:
    """Builds fake runtimes, by name: of CUDA 12 and 13, under another name, and without one function."""
    without_query = tmp_path_factory.mktemp("script") / "without_query"
    without_query.write_text("{ local: cudaEventQuery; };")
    builds = {
        "12": ("libcudart.so.12", 12040, ()),
        "13": ("libcudart.so.13", 13000, ()),
        "renamed": ("libcudart-0a1b2c3d.so.12.8.90", 12080, ()),
        "incomplete": ("libcudart.so.12", 12040, (f"-Wl,--version-script={without_query}",)),
    }
    return {
        name: Build(str(library.build(tmp_path_factory.mktemp(name), soname, *options)), version)
        for name, (soname, version, options) in builds.items()
    }


@pytest.fixture
def run_with(run_child: RunChild, fakes: dict[str, Build]):
    """Runs lines in a child that has loaded the fake runtime of this name, or none; returns the lines it printed."""

    def run(name: str | None, lines: str, num_gpus: int = 2) -> list[str]:
        build = fakes[name] if name else Build("", 0)
        preamble = CHILD.format(
            core=_native._core.__file__, library=build.path, version=build.version, num_gpus=num_gpus
        )
        return run_child(preamble + lines).stdout.splitlines()

    return run


def test_loading_the_module_makes_no_call(run_with) -> None:
    assert run_with("12", "print(take_log())") == [""]


@pytest.mark.parametrize(("name", "major"), [("12", 12), ("13", 13), ("renamed", 12)])
def test_runtime_is_found_and_only_asked_for_its_version_and_devices(run_with, name: str, major: int) -> None:
    lines = (
        f"device = core.open_cuda_device({major}, 1)\nprint(type(device).__name__, *sorted(set(take_log().split())))"
    )
    assert run_with(name, lines) == ["DeviceBackend cudaGetDeviceCount() cudaRuntimeGetVersion()"]


def test_calls_are_made_at_the_device_and_the_threads_state_is_put_back(run_with) -> None:
    lines = """
device = core.open_cuda_device(12, 1)
cuda.cudaThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(1)))
take_log()
to = ctypes.create_string_buffer(6)
ring, copy = copy_of(device, ctypes.create_string_buffer(b"bytes", 8), to)
copy.set_written()
print(copy.failure, take_log())
del copy
print(ring.take(), take_log())
print(cuda.cudaGetLastError(), to.value[:1])
cuda.fake_synchronize_all(1)
print(type(ring.take()).__name__, to.value.decode())
take_log()
del ring
print(take_log())
print(*state_of_thread())
"""
    enter = "cudaGetDevice() cudaSetDevice(1) cudaThreadExchangeStreamCaptureMode(2)"
    leave = "cudaThreadExchangeStreamCaptureMode(1) cudaSetDevice(0)"
    # An event without timing has flag 2, and a copy from the host to the device has kind 1.
    copy = "cudaEventCreateWithFlags(2) cudaMemcpyAsync(6,1,0) cudaEventRecord(0)"
    assert run_with("12", lines) == [
        f"None {enter} {copy} {leave}",
        f"None {enter} cudaEventQuery() {leave}",
        "0 b'\\xcc'",
        "StagingSlot bytes",
        f"{enter} cudaEventDestroy() {leave}",
        "0 1",
    ]


def test_failing_call_is_named_and_leaves_no_error_behind(run_with) -> None:
    lines = """
device = core.open_cuda_device(12, 0)
fail(b"cudaMemcpyAsync", 3)
ring, copy = copy_of(device, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8))
copy.set_written()
print(*sorted(copy.failure.items()))
print(cuda.cudaGetLastError())
fail(b"cudaGetDevice", 3)
try:
    device.stay_in_thread()
except RuntimeError as error:
    print(error)
print(cuda.cudaGetLastError())
"""
    assert run_with("12", lines) == [
        "('call', 'cudaMemcpyAsync') ('error', 3) ('name', 'cudaErrorInitializationError') "
        "('text', 'initialization error')",
        "0",
        "cudaGetDevice failed: cudaErrorInitializationError (initialization error)",
        "0",
    ]


@pytest.mark.parametrize("major", [12, 13])
def test_missing_runtime_is_named_and_none_is_loaded(run_with, major: int) -> None:
    lines = f"print(problem({major}, 0))\nprint('libcudart' in Path('/proc/self/maps').read_text())"
    assert run_with(None, lines) == [
        f"No CUDA {major} runtime is loaded in this process (libcudart.so.{major}), though torch is built for it. "
        "Install a torch that brings the shared runtime, as the wheels do.",
        "False",
    ]


NO_GPU = "CUDA runtime 12.4 finds no GPU. Check nvidia-smi and CUDA_VISIBLE_DEVICES, or leave out device=."
UNKNOWN = "and this version of fastload knows CUDA 12 and 13. Install a torch built for one of these."
CHECK = "Name one of these, or check CUDA_VISIBLE_DEVICES."
OLD_DRIVER = "torch brings CUDA runtime 13.0, but the NVIDIA driver is older: it runs CUDA up to"
# The runtime, what is changed of it and of the request for cuda:0 of 2 GPUs, and the sentence.
PROBLEMS: list[tuple[str, dict[str, Any], str]] = [
    (
        "12",
        {"major": 13},
        "No CUDA 13 runtime is loaded in this process, only {path} (12.4), though torch is built for it. "
        "Check that LD_PRELOAD and LD_LIBRARY_PATH name no other CUDA.",
    ),
    (
        "incomplete",
        {},
        "No CUDA 12 runtime is loaded in this process, only libcudart.so.12 (without cudaEventQuery), though torch is "
        "built for it. Check that LD_PRELOAD and LD_LIBRARY_PATH name no other CUDA.",
    ),
    ("12", {"major": 11}, f"torch is built for CUDA 11, {UNKNOWN}"),
    ("12", {"major": 14}, f"torch is built for CUDA 14, {UNKNOWN}"),
    ("13", {"driver": 12020}, f"{OLD_DRIVER} 12.2. Install a newer driver, or a torch built for CUDA 12."),
    ("13", {"driver": 11080}, f"{OLD_DRIVER} 11.8. Install a newer driver."),
    ("12", {"error": 100}, NO_GPU),
    ("12", {"num_gpus": 0}, NO_GPU),
    ("12", {"device": 3, "num_gpus": 1}, f"cuda:3 is not there: CUDA runtime 12.4 finds one GPU, cuda:0. {CHECK}"),
    (
        "12",
        {"device": 3, "num_gpus": 3},
        f"cuda:3 is not there: CUDA runtime 12.4 finds 3 GPUs, cuda:0 to cuda:2. {CHECK}",
    ),
    (
        "12",
        {"error": 3},
        "CUDA runtime 12.4 cannot count the GPUs: cudaErrorInitializationError (initialization error). "
        "Check nvidia-smi.",
    ),
]


@pytest.mark.parametrize(("name", "changes", "sentence"), PROBLEMS)
def test_a_problem_is_one_sentence(
    run_with, fakes: dict[str, Build], name: str, changes: dict[str, Any], sentence: str
) -> None:
    lines = ""
    if driver := changes.get("driver"):
        lines = f"fail(b'cudaGetDeviceCount', 35)\ncuda.fake_set_versions(13000, {driver})\n"
    if error := changes.get("error"):
        lines = f"fail(b'cudaGetDeviceCount', {error})\n"
    lines += f"print(problem({changes.get('major', int(fakes[name].version / 1000))}, {changes.get('device', 0)}))"
    assert run_with(name, lines, changes.get("num_gpus", 2)) == [sentence.format(path=fakes[name].path)]


def test_missing_driver_is_named_and_the_error_is_cleared(run_with) -> None:
    lines = """
fail(b"cudaGetDeviceCount", 35)
cuda.fake_set_versions(13000, 0)
print(problem(13, 0))
print(cuda.cudaGetLastError())
"""
    assert run_with("13", lines) == [
        "torch brings CUDA runtime 13.0, but no NVIDIA driver (libcuda.so.1) can be used here. Install the driver for "
        "CUDA 13.0, in a container start it with its GPUs, or leave out device=.",
        "0",
    ]
