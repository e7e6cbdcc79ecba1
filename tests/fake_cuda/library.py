"""Builds the fake runtime, where its sources are new, and loads it; `make build` runs this file, which builds it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import subprocess
import tempfile
import threading
from pathlib import Path

import torch

FOLDER = Path(__file__).resolve().parent
BUILDS = FOLDER.parents[1] / "build" / "fake_cuda"
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-pthread"]

# fastload knows two versions of the runtime. This is the one that torch does not have: fastload looks for torch's, and
# must not mistake one for the other where both are in a process.
MAJOR = 13 if (torch.version.cuda or "").startswith("12.") else 12


def build(folder: Path, name: str, *link_options: str) -> Path:
    """Links the runtime as folder/name; `name` is also its soname."""
    library = folder / name
    # Within itself it calls its own functions, whatever other runtime is loaded.
    options = ["-shared", "-pthread", "-Wl,-Bsymbolic", f"-Wl,-soname,{name}", *link_options]
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as linked:
        subprocess.run([*_compiler(), *map(str, _objects()), *options, "-o", linked.name], check=True)
    Path(linked.name).replace(library)
    return library


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CXX", "g++"))


@functools.cache
def _objects() -> list[Path]:
    """Returns the compiled sources; their folder is named for a hash of the sources."""
    sources = sorted(FOLDER.glob("*.cpp"))
    parts = [" ".join([*_compiler(), *FLAGS]), *(path.read_text() for path in [*sorted(FOLDER.glob("*.h")), *sources])]
    folder = BUILDS / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    if not folder.exists():
        BUILDS.mkdir(parents=True, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=BUILDS)
        subprocess.run([*_compiler(), *FLAGS, "-c", *map(str, sources)], cwd=fresh, check=True)
        try:
            Path(fresh).rename(folder)
        except OSError:
            if not folder.exists():  # else another process has built it
                raise
    return sorted(folder.glob("*.o"))


_HANDLE = ctypes.c_size_t
# The arguments of control.cpp's functions that return something (always a long), then of the runtime's functions.
_CONTROLS = {
    "fake_enqueue": [_HANDLE, ctypes.c_void_p, ctypes.c_size_t],
    "fake_step": [_HANDLE],
    "fake_step_any": [ctypes.c_int, ctypes.c_uint64],
    "fake_wait_for_work": [ctypes.c_int, ctypes.c_double],
    "fake_synchronize": [_HANDLE],
    "fake_synchronize_all": [ctypes.c_int],
    "fake_num_pending": [_HANDLE],
    "fake_num_events": [ctypes.c_int],
    "fake_fail_call": [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int],
    "fake_call_count": [ctypes.c_int, ctypes.c_char_p],
}
_RUNTIME = {
    "cudaStreamCreateWithFlags": [ctypes.POINTER(_HANDLE), ctypes.c_uint],
    "cudaStreamWaitEvent": [_HANDLE, _HANDLE, ctypes.c_uint],
    "cudaEventCreateWithFlags": [ctypes.POINTER(_HANDLE), ctypes.c_uint],
    "cudaEventDestroy": [_HANDLE],
    "cudaEventRecord": [_HANDLE, _HANDLE],
    "cudaEventQuery": [_HANDLE],
}


_loading = threading.Lock()


def built() -> Path:
    """Returns the runtime, which is built where it is missing."""
    name = f"libcudart.so.{MAJOR}"
    folder = _objects()[0].parent
    return folder / name if (folder / name).exists() else build(folder, name)


@functools.cache
def _library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(built()))
    for function, arguments in _CONTROLS.items():
        getattr(loaded, function).argtypes = arguments
        getattr(loaded, function).restype = ctypes.c_long
    for function, arguments in _RUNTIME.items():
        getattr(loaded, function).argtypes = arguments
    loaded.fake_problem.restype = loaded.cudaGetErrorString.restype = ctypes.c_char_p
    loaded.fake_set_versions(1000 * MAJOR, 99000)
    loaded.fake_add_gpu()  # every thread begins on it; no test uses it, so code that does not choose a device is found
    return loaded


def library() -> ctypes.CDLL:
    """Returns the runtime of this process."""
    with _loading:
        return _library()


if __name__ == "__main__":
    built()
