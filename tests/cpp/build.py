"""Builds the C++ core without Python or torch, with its unit tests and fuzz replayers, under a chosen sanitizer.

    python tests/cpp/build.py asan            # build/cpp/asan/unit_tests and build/cpp/asan/fuzz_*
    build/cpp/asan/unit_tests huffman         # the cases whose name contains "huffman"

    python tests/cpp/build.py plain kernel_benchmark    # what python -m benchmarks.kernels runs
    python tests/cpp/build.py aarch64 unit_tests        # for another processor; qemu-aarch64 runs it

Everything but csrc/bindings and csrc/python is linked into each program; into the benchmark, what kernels need. Needs
ninja and a C++17 compiler (COMPILERS, else CXX, else g++). The flavor "quick" compiles the tests alone and links the
objects of the extension, which `make build` has left. The flavor "tsan" has the tests that may start threads alone.
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WARNINGS = "-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
# -fno-builtin: GCC's thread sanitizer does not see memset and memcpy that the compiler inlines.
AS_SHIPPED = "-O3 -DNDEBUG -ffp-contract=off"
FLAVORS = {
    "quick": "-O0",  # to compile
    "plain": AS_SHIPPED,
    "clang": AS_SHIPPED,
    "aarch64": AS_SHIPPED,
    "asan": "-O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer",
    "tsan": "-O1 -g1 -fsanitize=thread -fno-builtin",
    # Needs clang; the targets get libFuzzer instead of the replayer.
    "fuzz": "-O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer",
}

# Flags for the tests themselves: optimising them takes longer than it saves when they run. SANITIZED: see rounds.h.
OF_TESTS = {"asan": "-O0 -DFASTLOAD_SANITIZED", "tsan": "-DFASTLOAD_SANITIZED"}

# The headers that most tests need. They are compiled once and put in front of every test, so a test does not include
# them, except <atomic>, <mutex> and <thread>, which tell that the thread sanitizer has to see it.
PRELUDE = [
    *("algorithm", "array", "atomic", "cerrno", "chrono", "cmath", "cstddef", "cstdint", "cstring", "functional"),
    *("iostream", "limits", "memory", "mutex", "new", "optional", "random", "sstream", "string", "thread", "utility"),
    "vector",
]

# The flavors that are about their compiler.
COMPILERS = {"clang": "clang++", "aarch64": "aarch64-linux-gnu-g++"}

INCLUDE_FOLDERS = [ROOT / "csrc", ROOT / "tests", ROOT / "tests" / "cpp"]
THREAD_HEADER = re.compile(r"^#include <(atomic|condition_variable|mutex|pthread\.h|thread)>", re.MULTILINE)
OWN_HEADER = re.compile(r'^#include "(.+)"', re.MULTILINE)

# The folder in which setuptools leaves the objects of the extension.
EXTENSION_OBJECTS = ROOT / "build" / f"temp.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"

# The runtime whose GPUs are stepped, for the product to find by its name.
FAKE_CUDA = ROOT / "tests" / "fake_cuda"
FAKE_RUNTIME = "fake_cuda/libcudart.so.12"

DEVICE_DECODE = ROOT / "tests" / "cpp" / "device_decode" / "main.cpp"
DEVICE_ORDER = ROOT / "tests" / "cpp" / "device_order"
# Tells the thread sanitizer the order that CUDA guarantees, so the sanitizer must not see it.
FIBERS = DEVICE_ORDER / "fiber_cudart.cpp"
FIBER_RUNTIME = "fibers/libcudart.so.12"

# Mutants of the product: device_order_<name> has one place of one source exchanged.
MUTANTS = {
    "refill": (
        "engine/batch/staging_ring.cpp",
        "if (!slot->is_copying) return {};",
        "slot->is_copying = false; return {};",
    ),
    "unwritten": ("engine/batch/staging_ring.cpp", "!has_destinations_ || !is_written_", "!has_destinations_"),
    "early": ("cuda/cuda_backend.cpp", "*is_done = error == 0;", "*is_done = true;"),
    "other_stream": (
        "cuda/cuda_backend.cpp",
        "kHostToDevice, pointer_of(stream)",
        "kHostToDevice, pointer_of(0 * stream)",
    ),
}


def write_ninja_file(flavor: str, build_dir: Path) -> None:
    mutants = " ".join(f"device_order_{name}" for name in MUTANTS)
    with_python = {ROOT / "csrc" / "bindings", ROOT / "csrc" / "python"}
    core = [p for p in sorted((ROOT / "csrc").rglob("*.cpp")) if with_python.isdisjoint(p.parents)]
    tests = tests_of(flavor)
    fake_cuda = [FAKE_CUDA / "cudart.cpp", FAKE_CUDA / "fake_gpu.cpp"]
    device_order = DEVICE_ORDER / ("fiber_main.cpp" if flavor == "tsan" else "stepped_main.cpp")
    targets = sorted((ROOT / "fuzz").glob("fuzz_*.cpp"))
    replayer = ROOT / "fuzz" / "replay_main.cpp"
    benchmark = sorted((ROOT / "benchmarks" / "kernels").glob("*.cpp"))
    compiler = COMPILERS.get(flavor) or os.environ.get("CXX", "g++")
    includes = " ".join(f"-I{folder}" for folder in INCLUDE_FOLDERS)
    lines = [
        f"flags = -std=c++17 {FLAVORS[flavor]} {WARNINGS} {includes} -pthread",
        "rule compile",
        f"  command = {compiler} $flags -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "rule precompile",
        f"  command = {compiler} $flags -x c++-header -c $in -o $out",
        "rule link",
        f"  command = {compiler} $flags $in -o $out -ldl $rpath",
        "rule link_runtime",
        f"  command = {compiler} $flags -shared -Wl,-soname,libcudart.so.12 $in -o $out",
    ]

    def object_of(source: Path) -> str:
        return str(source.relative_to(ROOT).with_suffix(".o"))

    def with_runtime(library: str) -> str:
        """Returns the last part of a link command."""
        return f"{library}\n  rpath = -Wl,-rpath,{(build_dir / library).parent}"

    linked = {s: str(EXTENSION_OBJECTS / object_of(s)) if flavor == "quick" else object_of(s) for s in core}
    core_objects = " ".join(linked.values())
    sources = targets + ([replayer] if targets else []) + benchmark + [device_order, DEVICE_DECODE]
    if flavor != "quick":
        sources += core
    lines += [f"build {object_of(s)}: compile {s}" for s in sources]
    flags_of_tests = f"  flags = $flags {OF_TESTS.get(flavor, '')}"
    write_if_changed(build_dir / "prelude.h", "".join(f"#include <{name}>\n" for name in PRELUDE))
    lines.append(f"build prelude.h.gch: precompile prelude.h\n{flags_of_tests}")
    lines += [f"build {object_of(s)}: compile {s} | prelude.h.gch\n{flags_of_tests} -include prelude.h" for s in tests]
    lines += [f"build {object_of(s)}: compile {s}\n  flags = $flags -fPIC" for s in fake_cuda]
    lines.append(f"build {FAKE_RUNTIME}: link_runtime {' '.join(object_of(s) for s in fake_cuda)}")
    lines.append(
        f"build unit_tests: link {core_objects} {' '.join(object_of(s) for s in tests)} {with_runtime(FAKE_RUNTIME)}"
    )
    for target in targets:
        main = "\n  flags = $flags -fsanitize=fuzzer" if flavor == "fuzz" else f" {object_of(replayer)}"
        lines.append(f"build {target.stem}: link {core_objects} {object_of(target)}{main}")
    if flavor == "tsan":
        lines.append(f"build {object_of(FIBERS)}: compile {FIBERS}\n  flags = $flags -fPIC -fno-sanitize=thread")
        lines.append(f"build {FIBER_RUNTIME}: link_runtime {object_of(FIBERS)}")
    order_runtime = FIBER_RUNTIME if flavor == "tsan" else FAKE_RUNTIME
    order_objects = f"{object_of(device_order)} {with_runtime(order_runtime)}"
    lines.append(f"build device_order: link {core_objects} {order_objects}")
    lines.append(f"build device_decode: link {core_objects} {object_of(DEVICE_DECODE)}")
    for name, (source, line, replacement) in MUTANTS.items():
        original = ROOT / "csrc" / source
        mutant = build_dir / f"mutant_{name}.cpp"
        write_if_changed(mutant, mutated(original.read_text(), line, replacement))
        objects = " ".join({**linked, original: f"{mutant.stem}.o"}.values())
        lines.append(f"build {mutant.stem}.o: compile {mutant}")
        lines.append(f"build device_order_{name}: link {objects} {order_objects}")
    beside_kernels = [linked[s] for s in core if s.relative_to(ROOT / "csrc").parts[0] in ("base", "image", "kernels")]
    lines.append(f"build kernel_benchmark: link {' '.join([*beside_kernels, *map(object_of, benchmark)])}")
    lines.append(f"default unit_tests device_order {mutants} {' '.join(t.stem for t in targets)}")
    (build_dir / "build.ninja").write_text("\n".join(lines) + "\n")


def tests_of(flavor: str) -> list[Path]:
    """Returns the sources of unit_tests, including shared ones."""
    tests = sorted((ROOT / "tests" / "cpp").glob("*.cpp"))
    return [test for test in tests if flavor != "tsan" or not test.stem.endswith("_test") or may_start_threads(test)]


@functools.cache
def may_start_threads(source: Path) -> bool:
    """Tells whether a source or header includes a thread header, directly or through our headers."""
    text = source.read_text()
    named = [folder / name for name in OWN_HEADER.findall(text) for folder in (source.parent, *INCLUDE_FOLDERS)]
    return bool(THREAD_HEADER.search(text)) or any(may_start_threads(header) for header in named if header.exists())


def mutated(text: str, line: str, replacement: str) -> str:
    """Returns `text` with `line` replaced. Raises ValueError if it is not in `text` exactly once."""
    if text.count(line) != 1:
        raise ValueError(f"a mutant's line must be in its source once, found {text.count(line)} times: {line}")
    return text.replace(line, replacement)


def write_if_changed(path: Path, text: str) -> None:
    """Leaves a file as old as it is where nothing would change, so that ninja does not compile it again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def build(flavor: str, *programs: str) -> Path:
    """Builds `programs` (default: tests and fuzz replayers) in `flavor`, a key of FLAVORS; returns their folder."""
    build_dir = ROOT / "build" / "cpp" / flavor
    build_dir.mkdir(parents=True, exist_ok=True)
    ninja = Path(sys.executable).with_name("ninja")
    command = [str(ninja) if ninja.exists() else "ninja", "-C", str(build_dir), "--quiet", *programs]
    with (build_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two of ninja in one folder spoil each other's work
        write_ninja_file(flavor, build_dir)
        subprocess.run(command, check=True)
    return build_dir


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flavor", choices=sorted(FLAVORS))
    parser.add_argument("programs", nargs="*", help="default: the tests and fuzz replayers")
    arguments = parser.parse_args()
    print(build(arguments.flavor, *arguments.programs))
