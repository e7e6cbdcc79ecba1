"""Runs the C++ unit tests, also under sanitizers, and the fuzz targets; build.py does the same by hand."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cpp import build

ROOT = build.ROOT
FUZZ_TARGETS = sorted(path.stem for path in (ROOT / "fuzz").glob("fuzz_*.cpp"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def asan() -> Path:
    return build.build("asan")


@pytest.fixture(scope="session")
def tsan() -> Path:
    return build.build("tsan")


def files_below(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert files, f"nothing to replay in {folder}"
    return files


# Anything longer hangs: under sanitizers the unit tests take three minutes on quiet cores, over five on busy ones.
MAX_SECONDS = 900

AARCH64_LIBRARIES = "/usr/aarch64-linux-gnu"  # the libraries of Debian's cross compiler

# GCC's thread sanitizer refuses the wide address randomisation of some kernels; setarch -R turns it off for a program.
WITHOUT_RANDOMISATION = ["setarch", "-R"] if shutil.which("setarch") else []
# A thread of the test before may still be ending where the next one forks; the child could start none then.
MAY_FORK = ["env", "TSAN_OPTIONS=die_after_fork=0"]

# Long loops of the unit tests run a tenth of their rounds under sanitizers; tests/cpp/rounds.h.
ROUNDS = pytest.mark.parametrize(
    "rounds", [[], pytest.param(["env", "FASTLOAD_ALL_ROUNDS=1"], marks=pytest.mark.weekly)], ids=["tenth", "all"]
)


def run_to_end(*command: object, timeout: float = MAX_SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout, errors="replace"
    )


def run(*command: object, timeout: float = MAX_SECONDS) -> str:
    """Runs a program that must succeed, and returns what it printed."""
    result = run_to_end(*command, timeout=timeout)
    assert result.returncode == 0, f"exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def replay(target: Path, folder: Path) -> None:
    files = files_below(folder)
    assert f"{len(files)} inputs replayed" in run(target, *files)


@pytest.mark.smoke
def test_unit_tests_pass() -> None:
    assert " passed, 0 failed" in run(build.build("quick", "unit_tests") / "unit_tests")


@pytest.mark.smoke
def test_the_thread_sanitizer_sees_all_tests_that_may_start_threads() -> None:
    seen, every = set(build.tests_of("tsan")), set(build.tests_of("asan"))
    assert {ROOT / f"tests/cpp/{name}_test.cpp" for name in ("engine", "record_store", "index_table")} < seen
    assert {ROOT / f"tests/cpp/{name}_test.cpp" for name in ("huffman_table", "content_hash", "resize")} < every - seen
    assert not [test for test in every - seen if re.search(r"std::thread|Engine\b", test.read_text())]


@pytest.mark.weekly
def test_unit_tests_pass_as_clang_compiles_them() -> None:
    if shutil.which(build.COMPILERS["clang"]) is None:
        pytest.skip("no clang++. Debian, Ubuntu: apt install clang")
    assert " passed, 0 failed" in run(build.build("clang", "unit_tests") / "unit_tests")


@pytest.mark.weekly
def test_unit_tests_pass_on_aarch64() -> None:
    """Its compiler would fuse multiplications and additions, and its char is unsigned."""
    emulator = next(filter(shutil.which, ("qemu-aarch64-static", "qemu-aarch64")), None)
    if shutil.which(build.COMPILERS["aarch64"]) is None or emulator is None:
        pytest.skip("no compiler or emulator. Debian, Ubuntu: apt install g++-aarch64-linux-gnu qemu-user-static")
    unit_tests = build.build("aarch64", "unit_tests") / "unit_tests"
    assert "AArch64" in run("readelf", "--file-header", unit_tests)
    assert " passed, 0 failed" in run(emulator, "-L", AARCH64_LIBRARIES, unit_tests, timeout=1800)


@ROUNDS
def test_unit_tests_pass_under_address_and_undefined_behaviour_sanitizers(rounds: list[str], asan: Path) -> None:
    assert " passed, 0 failed" in run(*rounds, asan / "unit_tests")


@ROUNDS
def test_unit_tests_pass_under_thread_sanitizer(rounds: list[str], tsan: Path) -> None:
    assert " passed, 0 failed" in run(*rounds, *MAY_FORK, *WITHOUT_RANDOMISATION, tsan / "unit_tests")


def test_staged_batches_have_no_wrong_data_on_the_fake_runtime(asan: Path) -> None:
    assert run(asan / "device_order") == "wrong batches: late 0, kernels first 0, random 0\n"


# The mutants with a wrong order, and a schedule under which that must spoil data.
@pytest.mark.parametrize(
    ("mutant", "schedule"), [("refill", "late"), ("early", "late"), ("other_stream", "kernels first")]
)
def test_mutants_of_staging_have_wrong_data_on_the_fake_runtime(mutant: str, schedule: str, asan: Path) -> None:
    result = run_to_end(asan / f"device_order_{mutant}")
    assert (result.returncode, result.stderr) == (1, "")
    wrong = dict(re.findall(r"(late|kernels first|random) (\d+)", result.stdout))
    assert int(wrong[schedule]) > 250


def test_thread_sanitizer_is_silent_about_staged_batches(tsan: Path) -> None:
    result = run_to_end(*WITHOUT_RANDOMISATION, tsan / "device_order")
    assert (result.returncode, result.stderr) == (0, "")


# On fibers every event is done as soon as it is asked for, so "early" is none there.
@pytest.mark.parametrize("mutant", [mutant for mutant in build.MUTANTS if mutant != "early"])
def test_thread_sanitizer_reports_mutants_of_staging(mutant: str, tsan: Path) -> None:
    for _ in range(3):
        result = run_to_end(*WITHOUT_RANDOMISATION, tsan / f"device_order_{mutant}")
        assert result.returncode == 66
        assert "WARNING: ThreadSanitizer: data race" in result.stderr


@pytest.mark.parametrize("target", FUZZ_TARGETS)
def test_fuzz_target_survives_its_corpus(target: str, asan: Path) -> None:
    replay(asan / target, ROOT / "fuzz" / "corpus")


@pytest.mark.parametrize("target", FUZZ_TARGETS)
def test_fuzz_target_survives_random_bytes(target: str, asan: Path) -> None:
    assert run(asan / target, "--random", 4000) == "4000 inputs replayed\n"


@pytest.mark.parametrize("target", FUZZ_TARGETS)
def test_fuzz_target_survives_the_images_of_others(target: str, asan: Path, corpora: Path) -> None:
    replay(asan / target, corpora / "images")
    replay(asan / target, corpora / "imagenet64")
