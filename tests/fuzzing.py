"""Coverage-guided fuzzing for as long as you like: `make fuzz MINUTES=60`.

The targets of fuzz/ take turns under libFuzzer with the address and undefined behaviour sanitizers. Their inputs stay
in build/fuzz, so that a run goes on where the last one ended; a crashing input is left there, too, and belongs in
fuzz/corpus. fastload and Pillow then read the images that the decoder's target has made, and must agree. A run becomes
a line of tests/campaigns.md for each target. It needs clang with its runtime (Debian, Ubuntu: apt install clang); CXX
names another one.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import campaign
from cpp import build

WORK = build.ROOT / "build" / "fuzz"
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in (build.ROOT / "fuzz").glob("fuzz_*.cpp"))
# The largest inputs, in bytes.
MAX_LENGTH = {"jpeg_decode": 16_384}
# An input that takes longer is a find.
SLOW_SECONDS = 30


def build_targets() -> Path:
    """Builds the targets. Raises SystemExit if there is no clang."""
    if "CXX" not in os.environ:
        if shutil.which("clang++") is None:
            raise SystemExit("fuzzing needs clang++. Debian, Ubuntu: apt install clang; or name another one in CXX")
        os.environ["CXX"] = "clang++"
    return build.build("fuzz", *(f"fuzz_{target}" for target in TARGETS))


def fuzz(program: Path, target: str, seconds: float) -> tuple[str, list[str]]:
    """Runs one target; returns a summary in words, and the inputs that crashed."""
    corpus, finds = WORK / target, WORK / "finds"
    for folder in (corpus, finds):
        folder.mkdir(parents=True, exist_ok=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    end = time.monotonic() + seconds
    executions, edges, found = 0, "0", []
    while not found and (left := end - time.monotonic()) > 0:
        before = set(finds.iterdir())
        command = [
            str(program),
            f"-max_total_time={math.ceil(left)}",
            f"-max_len={MAX_LENGTH.get(target, 4096)}",
            f"-artifact_prefix={finds}/{target}-",
            "-print_final_stats=1",
            f"-timeout={SLOW_SECONDS}",
            f"-report_slow_units={SLOW_SECONDS}",
            "-rss_limit_mb=3000",
            *(str(folder) for folder in (corpus, build.ROOT / "fuzz" / "corpus" / target) if folder.exists()),
        ]
        result = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
        new = sorted(set(finds.iterdir()) - before)
        held_up = [path for path in new if was_held_up(program, path)]
        for path in held_up:
            path.unlink()
        found = [path.name for path in new if path not in held_up]
        if result.returncode != 0 and not held_up:
            print(result.stderr[-6000:], file=sys.stderr)
            found = found or [f"exit status {result.returncode}"]
        counted = re.search(r"stat::number_of_executed_units: (\d+)", result.stderr)
        executions += int(counted[1]) if counted else 0
        edges = (re.findall(r"cov: (\d+)", result.stderr) or [edges])[-1]
    minutes = (resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used) / 60
    counts = (
        f"{minutes:.0f} processor minutes",
        f"{executions:,} executions",
        f"{edges} edges",
        f"{len(list(corpus.iterdir())):,} inputs",
    )
    return ", ".join(counts), found


def was_held_up(program: Path, path: Path) -> bool:
    """Returns whether an input was slow only by libFuzzer's clock, and not in processor time."""
    if not re.search(r"-(timeout|slow-unit)-", path.name):
        return False

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SLOW_SECONDS, SLOW_SECONDS))

    alone = subprocess.run([program, "-timeout=0", path], stderr=subprocess.DEVNULL, preexec_fn=limit)
    return alone.returncode == 0


def compare_with_pillow(folder: Path) -> tuple[str, list[str]]:
    """Returns how many files fastload and Pillow read, in words, and the files about which they disagree."""
    import torchvision_shim  # noqa: F401
    from comparison import assert_same
    from programs import PROGRAMS

    paths = sorted(folder.iterdir())
    finds = []
    for path in paths:
        try:
            for name in ("convert RGB", "load", "crop"):
                assert_same(path.read_bytes(), PROGRAMS[name], name)
        except AssertionError as difference:
            print(f"{path}: {difference}", file=sys.stderr)
            finds.append(path.name)
    return f"{len(paths):,} files", finds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="for all targets together")
    parser.add_argument("--only", choices=TARGETS)
    arguments = parser.parse_args()
    targets = [arguments.only] if arguments.only else TARGETS
    programs = build_targets()
    has_failed = False

    def record(name: str, cases: str, finds: list[str], begin: float) -> None:
        nonlocal has_failed
        has_failed |= bool(finds)
        print(f"{name}: {cases}", *finds, sep="\n", flush=True)
        campaign.append_record(name, cases, finds, (time.monotonic() - begin) / 60)

    seconds = arguments.minutes * 60 / len(targets)
    for target in targets:
        begin = time.monotonic()
        record(f"fuzz {target}", *fuzz(programs / f"fuzz_{target}", target, seconds), begin)
    if "jpeg_decode" in targets:
        begin = time.monotonic()
        record("fuzz jpeg_decode, Pillow", *compare_with_pillow(WORK / "jpeg_decode"), begin)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
