"""The module of CUDA kernels: when it is built, for which GPUs, and what it does on a machine without one."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD_INPUTS = ["setup.py", "setup_cuda.py", "pyproject.toml", "README.md", "csrc/bindings/exports.map"]
MODULE_INPUTS = [
    "csrc/base/host_device.h",
    "csrc/bindings/cuda_kernels.cpp",
    "csrc/device/backend.h",
    "csrc/device/decode_batch.h",
    "csrc/device/scan_wire.h",
    "csrc/kernels/idct_weights.h",
    "csrc/kernels/zigzag.h",
    "csrc/python/without_gil.h",
]
BUILD_LIMIT_SECONDS = 120
NO_TORCH = "sys.modules['torch'] = None"  # so that it cannot be imported

# A core of one line: what is tested here is the other module, and the real core takes minutes.
EMPTY_CORE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_core", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__core() { return PyModule_Create(&definition); }
"""


def load_module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def setup_cuda() -> Iterator[ModuleType]:
    yield load_module("setup_cuda", ROOT / "setup_cuda.py")
    del sys.modules["setup_cuda"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Copies the sources of the kernels, with an empty core and without anything built."""
    folder = tmp_path / "source"
    for name in BUILD_INPUTS + MODULE_INPUTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "csrc" / "cuda", folder / "csrc" / "cuda", ignore=shutil.ignore_patterns("*.cpp"))
    (folder / "csrc" / "bindings" / "module.cpp").write_text(EMPTY_CORE)
    (folder / "csrc" / "cuda" / "nothing.cpp").touch()  # what is below the bindings has a compilation of its own
    (folder / "fastload").mkdir()
    (folder / "fastload" / "__init__.py").touch()
    return folder


def build(source: Path, *arguments: str, first: str = "", **env: str | None) -> subprocess.CompletedProcess[str]:
    """Runs setup.py, by default to build in place, after the statement `first`. None removes a variable."""
    unset = dict.fromkeys(("FASTLOAD_CUDA", "CUDA_HOME", "CUDA_PATH", "TORCH_CUDA_ARCH_LIST"))
    variables = {**os.environ, **unset, **env}
    argv = ["setup.py", *(arguments or ("build_ext", "--inplace"))]
    code = f"import runpy, sys; {first}\nsys.argv = {argv}; runpy.run_path('setup.py', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=source,
        env={name: value for name, value in variables.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_LIMIT_SECONDS,
    )


def built_modules(source: Path) -> set[str]:
    return {path.name.partition(".")[0] for path in (source / "fastload").glob("*.so")}


def kernels_in(source: Path) -> Path:
    return next((source / "fastload").glob("_cuda_kernels.*.so"))


@pytest.fixture
def nvcc_that_fails(tmp_path: Path) -> Path:
    """Makes the folder of a toolkit, version 12.4, that knows two GPUs and compiles nothing."""
    nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(
        '#!/bin/sh\ncase "$*" in\n'
        "  --version) echo 'Cuda compilation tools, release 12.4, V12.4.131';;\n"
        "  --list-gpu-code) printf 'sm_80\\nsm_90\\nsm_90a\\n';;\n"
        "  *) echo 'crt/host_config.h:143:2: error: unsupported GNU version!' >&2; exit 1;;\nesac\n"
    )
    nvcc.chmod(0o755)
    return nvcc.parents[1]


@pytest.fixture
def nvcc(setup_cuda: ModuleType) -> str:
    toolkit = setup_cuda.Toolkit.find()
    if toolkit is None:
        pytest.skip("no nvcc")
    return str(toolkit.nvcc)


def compiled_for(module: Path) -> tuple[set[int], set[int]]:
    """Returns the GPUs that a module has machine code for, and the ones it has PTX for; 90 is sm_90.

    A fat binary is a header (magic number, version, its size, the size of all) and then parts: kind (1 PTX, 2 machine
    code), version, size of the part's header, size of its contents, and at byte 28 the GPU.
    """
    data = module.read_bytes()
    found: tuple[set[int], set[int]] = (set(), set())
    at = -1
    while (at := data.find(struct.pack("<I", 0xBA55ED50), at + 1)) >= 0:
        _, _, header_size, size = struct.unpack_from("<IHHQ", data, at)
        part, end = at + header_size, at + header_size + size
        while header_size == 16 and part < end:
            kind, _, part_header_size, part_size = struct.unpack_from("<HHIQ", data, part)
            found[0 if kind == 2 else 1].add(struct.unpack_from("<I", data, part + 28)[0])
            part += part_header_size + part_size
    return found


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


CALL_KERNELS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_cuda_kernels", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
numbers = dict.fromkeys(("pixels", "table", "out", "device", "stream"), 0)
call = lambda **changes: module.convert(
    **numbers, **{"batch": 1, "pixels_per_image": 1, "element_size": 4, "channels_last": True} | changes
)
wires = ("host_wire", "wire", "scratch", "pixels", "faults", "samples", "pixel_bytes", "device", "stream")
print(module.cuda_version)
print(module.load(0), call(), call(element_size=8, channels_last=False), call(element_size=3), call(batch=0))
print(module.decode(**dict.fromkeys(wires, 0)))
print("torch" in sys.modules)
"""


def same_cuda_as(nvcc: str) -> str:
    release = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout.partition("release ")[2]
    return f"import torch; torch.version.cuda = '{release.partition('.')[0]}.1'"


@pytest.mark.slow
def test_kernels_beside_a_torch_of_the_same_cuda_are_machine_code_for_every_gpu(source: Path, nvcc: str) -> None:
    result = build(source, first=same_cuda_as(nvcc))
    assert result.returncode == 0, result.stdout
    assert "warning" not in result.stdout
    assert built_modules(source) == {"_core", "_cuda_kernels"}
    machine_code, ptx = compiled_for(kernels_in(source))
    known = {75, 80, 86, 89, 90, 100, 120}
    assert machine_code == known or {75, 80, 86, 89, 90} <= machine_code < known  # CUDA 12 had the rest by and by
    assert ptx == {max(machine_code)}


@pytest.mark.slow
@pytest.mark.usefixtures("nvcc")
def test_required_kernels_need_no_torch_to_be_built_and_no_driver_to_be_imported(source: Path) -> None:
    result = build(source, first=NO_TORCH, FASTLOAD_CUDA="1", TORCH_CUDA_ARCH_LIST="8.0;8.6+PTX 9.0a")
    assert result.returncode == 0, result.stdout
    module = kernels_in(source)
    assert compiled_for(module) == ({80, 86, 90}, {86})
    output = subprocess.run([sys.executable, "-c", CALL_KERNELS, module], capture_output=True, text=True, timeout=20)
    assert output.returncode == 0, output.stderr
    version, answers, of_decode, has_torch = output.stdout.splitlines()
    assert version.split(".")[0].isdigit()
    assert has_torch == "False"
    if not has_driver():
        refused = "(35, 'cudaErrorInsufficientDriver')"
        assert answers == f"{refused} {refused} {refused} (1, 'cudaErrorInvalidValue') (0, '')"
        assert of_decode == refused
    exported = subprocess.run(["nm", "-D", "--defined-only", module], capture_output=True, text=True).stdout
    assert [line.split()[-1] for line in exported.splitlines()] == ["PyInit__cuda_kernels"]
    dynamic = subprocess.run(["readelf", "-d", module], capture_output=True, text=True).stdout
    assert "NEEDED" in dynamic
    assert not any(name in dynamic for name in ("libcuda", "libtorch", "libc10", "RUNPATH", "RPATH"))


@pytest.mark.slow
@pytest.mark.parametrize("gpu", [75, 80, 86, 89, 90, 100, 120])
def test_decode_kernels_have_no_stack_and_few_registers(gpu: int, nvcc: str, tmp_path: Path) -> None:
    known = subprocess.run([nvcc, "--list-gpu-code"], capture_output=True, text=True).stdout.split()
    if f"sm_{gpu}" not in known:
        pytest.skip(f"this nvcc does not know sm_{gpu}")
    command = [nvcc, "-std=c++17", "-O3", f"-I{ROOT / 'csrc'}", f"-gencode=arch=compute_{gpu},code=sm_{gpu}"]
    source = ROOT / "csrc" / "cuda" / "decode_kernels.cu"
    result = subprocess.run(
        [*command, "-Xptxas=-v", "-c", source, "-o", tmp_path / "kernels.o"], capture_output=True, text=True, check=True
    )
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", result.stderr)]
    assert len(registers) == 7
    assert max(registers) <= 64
    assert set(re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", result.stderr)) == {"0"}
    shared = [int(number) for number in re.findall(r"(\d+) bytes smem", result.stderr)]
    assert shared
    assert max(shared) <= 16 * 1024


def test_kernels_that_cannot_be_compiled_are_left_out_with_one_sentence(source: Path, nvcc_that_fails: Path) -> None:
    for arguments in (("build_ext", "--inplace"), ("bdist_wheel",)):
        result = build(
            source, *arguments, first="import torch; torch.version.cuda = '12.1'", CUDA_HOME=str(nvcc_that_fails)
        )
        assert result.returncode == 0, result.stdout
        assert [line.partition("fastload: ")[2] for line in result.stdout.splitlines() if "fastload: " in line] == [
            "the CUDA kernels cannot be built (crt/host_config.h:143:2: error: unsupported GNU version!); "
            "torch's operations do their work."
        ]
        assert built_modules(source) == {"_core"}
    assert len(list((source / "dist").glob("*.whl"))) == 1


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({}, "the CUDA kernels cannot be built (crt/host_config.h:143:2: error: unsupported GNU version!). "
         "FASTLOAD_CUDA=0 builds without them."),
        ({"CUDA_HOME": "/nowhere"},
         "FASTLOAD_CUDA=1 needs the CUDA toolkit, but no nvcc runs. Name its folder in CUDA_HOME."),
        ({"TORCH_CUDA_ARCH_LIST": "8.0 Hopper"},
         "the CUDA kernels cannot be built (TORCH_CUDA_ARCH_LIST holds 'Hopper'; 8.0 or 9.0+PTX would be understood). "
         "FASTLOAD_CUDA=0 builds without them."),
        ({"FASTLOAD_CUDA": "yes"}, "FASTLOAD_CUDA must be auto, 0 or 1, got 'yes'."),
    ],
    ids=["no compiler", "no toolkit", "unknown GPU", "unknown choice"],
)  # fmt: skip
def test_required_kernels_that_cannot_be_built_end_the_build_with_one_sentence(
    source: Path, nvcc_that_fails: Path, variables: dict[str, str], sentence: str
) -> None:
    result = build(source, first=NO_TORCH, **{"FASTLOAD_CUDA": "1", "CUDA_HOME": str(nvcc_that_fails), **variables})
    assert result.returncode == 1, result.stdout
    assert "Traceback" not in result.stdout
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("fastload: ")] == lines[-1:] == [f"fastload: {sentence}"]


@pytest.mark.parametrize(
    ("choice", "torch_cuda", "is_chosen"),
    [
        (None, None, False),
        (None, "12.1", True),
        ("auto", "12.8", True),
        ("auto", "13.0", False),
        ("auto", "11.8", False),
        ("0", "12.4", False),
        ("1", None, True),
        ("1", "13.0", True),
    ],
)
def test_kernels_are_chosen_by_torchs_cuda_and_the_users_word(
    choice: str | None,
    torch_cuda: str | None,
    is_chosen: bool,
    setup_cuda: ModuleType,
    nvcc_that_fails: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(nvcc_that_fails))
    monkeypatch.delenv("FASTLOAD_CUDA", raising=False)
    if choice is not None:
        monkeypatch.setenv("FASTLOAD_CUDA", choice)
    assert (setup_cuda.choose_toolkit(torch_cuda) is not None) == is_chosen


def test_an_older_toolkit_compiles_for_the_gpus_it_knows(
    setup_cuda: ModuleType, nvcc_that_fails: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_CUDA_ARCH_LIST", raising=False)
    toolkit = setup_cuda.Toolkit(f"{nvcc_that_fails}/bin/nvcc", 12)
    assert toolkit.generated_code() == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90,code=compute_90",
    ]


@pytest.mark.usefixtures("nvcc")
@pytest.mark.parametrize("choice", ["auto", "0"])
def test_no_kernels_are_built_where_none_are_wanted_or_of_use(choice: str, source: Path) -> None:
    torch_cuda = "import torch; torch.version.cuda = None" if choice == "auto" else NO_TORCH
    result = build(source, first=torch_cuda, FASTLOAD_CUDA=choice)
    assert result.returncode == 0, result.stdout
    assert built_modules(source) == {"_core"}
