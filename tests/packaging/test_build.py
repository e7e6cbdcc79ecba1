"""Builds and installs as users do: sdist, isolated build, build beside torch, and builds that cannot work.

`make build` itself builds beside torch, so the second such build runs weekly.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from cpp.build import EXTENSION_OBJECTS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ["setup.py", "setup_cuda.py", "pyproject.toml", "MANIFEST.in"]
BUILD_INPUTS = [*SCRIPTS, "README.md", "README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"]
PROGRAM_LIMIT_SECONDS = 900  # on a busy machine, too

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_LIMIT_SECONDS,
    )
    assert not check or result.returncode == 0, result.stdout
    return result


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies what a build needs, without anything built before."""
    folder = tmp_path_factory.mktemp("source")
    for name in BUILD_INPUTS:
        shutil.copy(ROOT / name, folder)
    for name in ("csrc", "fastload", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    code = f"import setuptools.build_meta as backend; backend.build_sdist({str(folder)!r})"
    run(sys.executable, "-c", code, cwd=source)
    return next(folder.glob("fastload-*.tar.gz"))


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a virtual environment with nothing in it; returns its interpreter."""
    folder = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    return folder / "bin" / "python"


class Built:
    """A wheel and the log of its build."""

    def __init__(self, python: Path | str, what: Path, folder: Path, *options: str) -> None:
        pip_wheel = (python, "-m", "pip", "wheel", "--verbose", "--no-deps", "--no-cache-dir", *options)
        self.log = run(*pip_wheel, "-w", folder, what, cwd=folder, FASTLOAD_CUDA="0").stdout
        self.wheel = next(folder.glob("*.whl"))
        with zipfile.ZipFile(self.wheel) as archive:
            self.names = sorted(archive.namelist())
            self.extension = Path(archive.extract(next(n for n in self.names if n.endswith(".so")), folder))


@pytest.fixture(scope="module")
def isolated(bare_python: Path, sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Builds from the sdist where torch cannot be imported."""
    return Built(bare_python, sdist, tmp_path_factory.mktemp("isolated"))


@pytest.fixture(scope="module")
def beside_torch(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(sys.executable, source, tmp_path_factory.mktemp("beside_torch"), "--no-build-isolation")


@pytest.fixture(params=["isolated", pytest.param("beside_torch", marks=pytest.mark.weekly)])
def built(request: pytest.FixtureRequest) -> Built:
    return request.getfixturevalue(request.param)


@pytest.mark.smoke
def test_sdist_has_every_source_file_and_nothing_built(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = [path for kind in ("csrc", "fastload") for path in (ROOT / kind).rglob("*") if path.is_file()]
    needed = [path for path in needed if path.suffix != ".so" and "__pycache__" not in path.parts]
    assert {path.relative_to(ROOT).as_posix() for path in needed} <= names
    assert {*BUILD_INPUTS} - {"MANIFEST.in"} <= names
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")} <= names
    assert not [name for name in names if name.endswith((".so", ".o", ".jpg", ".pyc"))]
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]


def metadata_of(source: Path, folder: Path) -> Path:
    """Returns the dist-info folder that a wheel of `source` would have; compiles nothing."""
    code = "import setuptools.build_meta as backend, sys; print(backend.prepare_metadata_for_build_wheel(sys.argv[1]))"
    name = run(sys.executable, "-c", code, folder, cwd=source).stdout.splitlines()[-1]
    return folder / name


@pytest.mark.smoke
def test_metadata_names_the_command_and_its_extra(source: Path, tmp_path: Path) -> None:
    info = metadata_of(source, tmp_path)
    assert (info / "entry_points.txt").read_text().split("\n\n")[0].splitlines() == [
        "[console_scripts]",
        "fastload = fastload.cli:main",
    ]
    metadata = (info / "METADATA").read_text()
    assert "Provides-Extra: cli\n" in metadata
    for name in ("rich>=13", "threadpoolctl"):
        assert re.search(rf'^Requires-Dist: {name}; extra == "cli"$', metadata, re.MULTILINE), metadata


def test_the_command_of_an_installed_wheel_works(built: Built, tmp_path: Path) -> None:
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", tmp_path, built.wheel, cwd=tmp_path)
    command = tmp_path / "bin" / "fastload"
    version = built.wheel.name.split("-")[1]
    assert run(command, "--version", cwd=tmp_path, PYTHONPATH=str(tmp_path)).stdout == f"fastload {version}\n"
    shown = run(command, "info", cwd=tmp_path, PYTHONPATH=str(tmp_path)).stdout
    assert re.search(rf"^ *package +{tmp_path / 'fastload'}$", shown, re.MULTILINE), shown


def test_isolated_build_neither_downloads_nor_imports_torch(isolated: Built) -> None:
    installed = re.findall(r"Installing collected packages: (.+)", isolated.log)
    assert [set(line.split(", ")) for line in installed] == [{"setuptools", "pybind11"}], isolated.log
    assert "TORCH_EXTENSION_NAME" not in isolated.log


@pytest.mark.weekly
def test_build_beside_torch_goes_through_its_build_extension_with_ninja(beside_torch: Built) -> None:
    assert "TORCH_EXTENSION_NAME=_core" in beside_torch.log
    assert re.search(r"^\s*\[1/\d+\] .*-MMD -MF", beside_torch.log, re.MULTILINE), beside_torch.log


def test_build_has_no_compiler_warning(built: Built) -> None:
    assert not re.findall(r"csrc/.*warning:.*", built.log)


def test_sources_are_compiled_optimised_and_for_no_special_processor(built: Built) -> None:
    assert "-std=c++17 -O3" in built.log
    assert "-march" not in built.log


@pytest.mark.parametrize("file", sorted((ROOT / "csrc").rglob("*_avx*.cpp")))
def test_code_for_some_processors_replaces_nothing_in_the_program(file: Path) -> None:
    """An inline function or template that is compiled there may be the one that the linker keeps for everybody."""
    compiled = EXTENSION_OBJECTS / file.relative_to(ROOT).with_suffix(".o")
    symbols = run("nm", "--defined-only", compiled, cwd=ROOT).stdout.splitlines()
    # The one exception is data, and the same in every object file.
    assert [line for line in symbols if re.search(r" [uvVwW] (?!DW\.ref\.__gxx_personality)", line)] == []


def test_wheel_holds_the_package_alone(built: Built) -> None:
    extensions = [name for name in built.names if name.endswith(".so")]
    assert len(extensions) == 1
    assert extensions[0].startswith("fastload/_core.")
    assert {name.split("/")[0] for name in built.names} == {
        "fastload",
        next(name for name in built.names if ".dist-info/" in name).split("/")[0],
    }
    sources = {
        path.relative_to(ROOT).as_posix() for kind in ("*.py", "*.pyi") for path in (ROOT / "fastload").rglob(kind)
    }
    assert sources | {"fastload/py.typed"} <= set(built.names)


def test_extension_links_the_c_and_cxx_runtimes_alone(built: Built) -> None:
    dynamic = run("readelf", "-d", built.extension, cwd=ROOT).stdout
    needed = {name.split(".")[0] for name in re.findall(r"NEEDED.*\[(.+)\]", dynamic)}
    assert "libstdc++" in needed
    assert needed <= {"libstdc++", "libm", "libgcc_s", "libc", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}
    assert not re.search(r"\((RUNPATH|RPATH)\)", dynamic)


def test_extension_exports_its_entry_point_alone(built: Built) -> None:
    symbols = run("nm", "-D", "--defined-only", built.extension, cwd=ROOT).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["PyInit__core"]


def test_installed_extension_imports_without_torch(isolated: Built, bare_python: Path, tmp_path: Path) -> None:
    run(bare_python, "-m", "pip", "install", "--no-deps", "--force-reinstall", isolated.wheel, cwd=tmp_path)
    code = """
import importlib.machinery, importlib.util, sys, sysconfig, glob
path, = glob.glob(sysconfig.get_path("purelib") + "/fastload/_core.*.so")
loader = importlib.machinery.ExtensionFileLoader("_core", path)
module = importlib.util.module_from_spec(importlib.util.spec_from_loader("_core", loader))
loader.exec_module(module)
print(module.active_kernel_table(), module.version, "torch" in sys.modules, importlib.util.find_spec("torch"))
"""
    output = run(bare_python, "-c", code, cwd=tmp_path, FASTLOAD_SIMD="scalar").stdout
    version = isolated.wheel.name.split("-")[1]
    assert output.split() == ["scalar", version, "False", "None"]


@pytest.fixture
def old_compiler(tmp_path: Path) -> Path:
    """Makes a compiler that answers as GCC 4.2 does to -std=c++17."""
    path = tmp_path / "old-c++"
    path.write_text(
        '#!/bin/sh\ncase "$*" in *-std=c++17*)\n'
        "  echo \"cc1plus: error: unrecognized command line option '-std=c++17'\" >&2; exit 1;;\nesac\n"
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def old_library_compiler(tmp_path: Path) -> Path:
    """Makes a compiler that knows -std=c++17 but lacks <charconv>, as GCC 7 does."""
    path = tmp_path / "gcc7-c++"
    path.write_text("#!/bin/sh\necho 'probe.cpp:2:10: fatal error: charconv: No such file or directory' >&2\nexit 1\n")
    path.chmod(0o755)
    return path


def sentence_of_failed_build(source: Path, compiler: str) -> str:
    result = run(sys.executable, "setup.py", "--quiet", "build_ext", cwd=source, check=False, CXX=compiler)
    assert result.returncode == 1, result.stdout
    assert "Traceback" not in result.stdout
    lines = [line for line in result.stdout.splitlines() if line.startswith("fastload: ")]
    assert result.stdout.splitlines()[-1:] == lines, result.stdout
    return lines[0]


def test_missing_compiler_gets_one_sentence(source: Path) -> None:
    assert sentence_of_failed_build(source, "/nonexistent/g++") == (
        "fastload: building needs a C++17 compiler, but '/nonexistent/g++' cannot be run (No such file or directory). "
        "Install one (Debian and Ubuntu: apt install g++) or name one in CXX."
    )


@pytest.mark.parametrize(
    ("compiler", "reason"),
    [
        ("old_compiler", "cc1plus: error: unrecognized command line option '-std=c++17'"),
        ("old_library_compiler", "probe.cpp:2:10: fatal error: charconv: No such file or directory"),
    ],
)
def test_old_compiler_gets_one_sentence_with_its_own_reason(
    source: Path, compiler: str, reason: str, request: pytest.FixtureRequest
) -> None:
    path = str(request.getfixturevalue(compiler))
    assert sentence_of_failed_build(source, path) == (
        f"fastload: building needs a C++17 compiler, but '{path}' fails on a small C++17 program ({reason}). "
        "Install one (Debian and Ubuntu: apt install g++) or name one in CXX."
    )
