"""The CUDA runtime that torch has loaded is found and used; each reason why there is none to use is a sentence.

The runtime is a fake one, built here, in child processes: what a process has loaded stays.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from children import RunChild

from fastload import _native

SOURCE = Path(__file__).with_name("fake_cudart.cpp")

# `core` is the extension module alone: importing the package imports torch, which may bring a runtime of its own.
CHILD = """
import ctypes
import importlib.util
from pathlib import Path

def load_core():
    spec = importlib.util.spec_from_file_location("_core", {core!r})
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core

def number(name):
    return ctypes.c_int.in_dll(cuda, name)

def fail(function, error):
    (ctypes.c_char * 64).in_dll(cuda, "fake_failing").value = function
    number("fake_error").value = error

def take_log():
    log = (ctypes.c_char * 4096).in_dll(cuda, "fake_log")
    calls = log.value.decode().split()
    log[0] = b"\\0"
    return calls

def problem(major, device):
    try:
        core.open_cuda_device(major, device)
    except RuntimeError as error:
        return str(error)

libraries = {libraries!r}
cuda, = [ctypes.CDLL(path) for path in libraries] or [None]
core = load_core()
"""


def build_fake(folder: Path, name: str, version: int, *options: str) -> Path:
    library = folder / name
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    command = [*compiler, "-shared", "-fPIC", f"-DFAKE_VERSION={version}", f"-Wl,-soname,{name}", *options]
    subprocess.run([*command, str(SOURCE), "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Paths of runtimes by name: of CUDA 12 and 13, under another name, and without one function."""
    builds = {
        "12": ("libcudart.so.12", 12040, ()),
        "13": ("libcudart.so.13", 13000, ()),
        "renamed": ("libcudart-0a1b2c3d.so.12.8.90", 12080, ()),
        "incomplete": ("libcudart.so.12", 12040, ("-DFAKE_WITHOUT_QUERY",)),
    }
    return {
        name: str(build_fake(tmp_path_factory.mktemp(name), *build[:2], *build[2])) for name, build in builds.items()
    }


@pytest.fixture
def run_with(run_child: RunChild, fakes: dict[str, str]):
    """Runs lines in a child that has loaded the fake runtime of this name, or none; returns the lines it printed."""

    def run(name: str | None, lines: str) -> list[str]:
        preamble = CHILD.format(core=_native._core.__file__, libraries=[fakes[name]] if name else [])
        return run_child(preamble + lines).stdout.splitlines()

    return run


def problem_with(run_with, name: str | None, setup: str, major: int = 12, device: int = 0) -> str:
    (sentence,) = run_with(name, f"{setup}\nprint(problem({major}, {device}))")
    return sentence


def test_loading_the_module_makes_no_call(run_with) -> None:
    assert run_with("12", "print(take_log())") == ["[]"]


@pytest.mark.parametrize(("name", "major"), [("12", 12), ("13", 13), ("renamed", 12)])
def test_runtime_is_found_and_only_asked_for_its_version_and_devices(run_with, name: str, major: int) -> None:
    lines = f"device = core.open_cuda_device({major}, 1)\nprint(type(device).__name__, *sorted(set(take_log())))"
    assert run_with(name, lines) == ["DeviceBackend cudaGetDeviceCount cudaRuntimeGetVersion"]


def test_calls_are_made_at_the_device_and_the_threads_state_is_put_back(run_with) -> None:
    lines = """
device = core.open_cuda_device(12, 1)
number("fake_mode").value = 1
take_log()
event = device.create_event()
print(event, *take_log())
print(number("fake_device").value, number("fake_mode").value)
source, to = ctypes.create_string_buffer(b"bytes"), ctypes.create_string_buffer(6)
device.copy_to_device(ctypes.addressof(to), ctypes.addressof(source), 6, 0)
print(to.value.decode(), take_log()[3])
device.record_event(event, 0)
print(device.query_event(event))
fail(b"cudaEventQuery", 600)
print(device.query_event(event), number("fake_last_error").value)
"""
    enter = "cudaGetDevice cudaSetDevice cudaThreadExchangeStreamCaptureMode"
    leave = "cudaThreadExchangeStreamCaptureMode cudaSetDevice"
    assert run_with("12", lines) == [
        f"1002 {enter} cudaEventCreateWithFlags {leave}",  # 2: without timing
        "0 1",
        "bytes cudaMemcpyAsync",
        "True",
        "False 0",
    ]


def test_failing_call_is_named_and_leaves_no_error_behind(run_with) -> None:
    lines = """
device = core.open_cuda_device(12, 0)
fail(b"cudaMemcpyAsync", 3)
try:
    device.copy_to_device(0, 0, 0, 0)
except RuntimeError as error:
    print(error)
print(number("fake_last_error").value)
"""
    failure = "cudaMemcpyAsync failed: cudaErrorInitializationError (initialization error)"
    assert run_with("12", lines) == [failure, "0"]


@pytest.mark.parametrize("major", [12, 13])
def test_missing_runtime_is_named_and_none_is_loaded(run_with, major: int) -> None:
    lines = f"print(problem({major}, 0))\nprint('libcudart' in Path('/proc/self/maps').read_text())"
    assert run_with(None, lines) == [
        f"No CUDA {major} runtime is loaded in this process (libcudart.so.{major}), though torch is built for it. "
        "Install a torch that brings the shared runtime, as the wheels do.",
        "False",
    ]


def test_runtime_of_another_version_is_named(run_with, fakes: dict[str, str]) -> None:
    assert problem_with(run_with, "12", "", major=13) == (
        f"No CUDA 13 runtime is loaded in this process, only {fakes['12']} (12.4), though torch is built for it. "
        "Check that LD_PRELOAD and LD_LIBRARY_PATH name no other CUDA."
    )


def test_runtime_without_a_function_is_named(run_with) -> None:
    sentence = problem_with(run_with, "incomplete", "")
    assert "only libcudart.so.12 (without cudaEventQuery), though torch is built for it." in sentence


@pytest.mark.parametrize("major", [11, 14])
def test_unknown_version_of_cuda_is_named(run_with, major: int) -> None:
    assert problem_with(run_with, "12", "", major=major) == (
        f"torch is built for CUDA {major}, and this version of fastload knows CUDA 12 and 13. "
        "Install a torch built for one of these."
    )


@pytest.mark.parametrize(
    ("version", "cure"),
    [
        (12020, "it runs CUDA up to 12.2. Install a newer driver, or a torch built for CUDA 12."),
        (11080, "it runs CUDA up to 11.8. Install a newer driver."),
    ],
)
def test_old_driver_is_named_with_both_versions(run_with, version: int, cure: str) -> None:
    setup = f"fail(b'cudaGetDeviceCount', 35)\nnumber('fake_driver_version').value = {version}"
    expected = f"torch brings CUDA runtime 13.0, but the NVIDIA driver is older: {cure}"
    assert problem_with(run_with, "13", setup, major=13) == expected


def test_missing_driver_is_named_and_the_error_is_cleared(run_with) -> None:
    lines = """
fail(b"cudaGetDeviceCount", 35)
number("fake_driver_version").value = 0
print(problem(13, 0))
print(number("fake_last_error").value)
"""
    assert run_with("13", lines) == [
        "torch brings CUDA runtime 13.0, but no NVIDIA driver (libcuda.so.1) can be used here. Install the driver for "
        "CUDA 13.0, in a container start it with its GPUs, or leave out device=.",
        "0",
    ]


@pytest.mark.parametrize("setup", ["fail(b'cudaGetDeviceCount', 100)", "number('fake_device_count').value = 0"])
def test_no_device_is_a_sentence(run_with, setup: str) -> None:
    assert problem_with(run_with, "12", setup) == (
        "CUDA runtime 12.4 finds no GPU. Check nvidia-smi and CUDA_VISIBLE_DEVICES, or leave out device=."
    )


@pytest.mark.parametrize(("count", "found"), [(1, "one GPU, cuda:0"), (3, "3 GPUs, cuda:0 to cuda:2")])
def test_device_that_is_not_there_is_named_with_those_that_are(run_with, count: int, found: str) -> None:
    sentence = problem_with(run_with, "12", f"number('fake_device_count').value = {count}", device=3)
    assert sentence == (
        f"cuda:3 is not there: CUDA runtime 12.4 finds {found}. Name one of these, or check CUDA_VISIBLE_DEVICES."
    )


def test_other_errors_keep_the_runtimes_words(run_with) -> None:
    assert problem_with(run_with, "12", "fail(b'cudaGetDeviceCount', 3)") == (
        "CUDA runtime 12.4 cannot count the GPUs: cudaErrorInitializationError (initialization error). "
        "Check nvidia-smi."
    )
