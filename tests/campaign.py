"""Checks without an end, run for a given time: `make campaign MINUTES=60`.

Each campaign makes its cases from seeds and compares fastload with torch or Pillow. The campaigns take turns; a run
begins at the seed where the run before ended, so no case comes twice. Each find is printed with its seed, and the run
becomes a line of tests/campaigns.md, which is committed. `ARGS="--only files"` runs one campaign, and
`ARGS="--only files --first 1234 --cases 1"` repeats one case.

The campaign `products` runs the cases that the limits of tests/tiers.py keep out of CI, one case for each seed, and
starts again after the last one. `make weekly` runs all of them at once.
"""

from __future__ import annotations

import argparse
import atexit
import datetime
import importlib
import io
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
RECORD = ROOT / "tests" / "campaigns.md"
sys.path[:0] = [
    str(ROOT),
    *(
        str(TESTS / name)
        for name in (".", "helpers", "contract", "faults", "images", "loader", "oracle", "state", "worker_state")
    ),
]

import checkout  # noqa: E402 - found by the path above
import tiers  # noqa: E402

Check = Callable[[int], None]


def cases_of(module: str) -> Callable[[Path], Check]:
    """Returns a campaign that calls assert_case of a test module for each seed."""

    def check(_: Path) -> Check:
        assert_case: Check = importlib.import_module(module).assert_case
        return assert_case

    return check


def cases_in_folder(name: str, make: str) -> Callable[[Path], Check]:
    """Returns a campaign like cases_of(), for cases that get the folder which the module's function `make` has made."""

    def check(folder: Path) -> Check:
        module = importlib.import_module(name)
        root = getattr(module, make)(folder)
        return lambda seed: module.assert_case(seed, root)

    return check


def cases_in_children(module: str) -> Callable[[Path], Check]:
    """Returns a campaign that calls run_case of a module in a process for each seed, which may take two minutes."""

    def check(folder: Path) -> Check:
        from image_folders import make_mixed_folder
        from warm_python import WarmPython

        folder.mkdir()
        images = make_mixed_folder(folder / "images")
        environment = {**os.environ, "FASTLOAD_TEST_FOLDER": str(images), "FASTLOAD_CACHE": str(folder / "cache")}
        python = WarmPython()
        atexit.register(python.close)

        def check_one(seed: int) -> None:
            code = f"import faulthandler, warnings, {module}; faulthandler.dump_traceback_later(110, exit=True); "
            code += f"warnings.simplefilter('ignore'); {module}.run_case({seed})"
            result = python.run(code, folder, 120, environment)
            assert result.returncode == 0, f"status {result.returncode}\n{result.stderr}"

        return check_one

    return check


def check_files(_: Path) -> Check:
    """Compares damaged JPEGs with Pillow: pixels, or type and text of the error."""
    from image_folders import SUBSAMPLINGS, synthetic_image
    from PIL import Image

    import fastload

    def jpeg(choose: random.Random) -> bytearray:
        file = io.BytesIO()
        image = synthetic_image(choose.getrandbits(20), choose.randint(1, 200), choose.randint(1, 200))
        image.convert(choose.choice(["RGB", "RGB", "RGB", "L", "CMYK"])).save(
            file,
            "JPEG",
            quality=choose.choice([1, 30, 75, 90, 95]),
            subsampling=choose.choice(SUBSAMPLINGS),
            progressive=choose.random() < 0.3,
            optimize=choose.random() < 0.5,
            restart_marker_blocks=choose.choice([0, 0, 1, 5]),
        )
        return bytearray(file.getvalue())

    def outcome(decode: Callable[[], Image.Image]) -> tuple[Any, ...]:
        try:
            image = decode()
        except Exception as error:  # noqa: BLE001 - it is compared
            # "cannot identify" shows the address of the file object.
            return type(error).__name__, re.sub(r"0x[0-9a-f]+", "", str(error))
        return image.size, image.tobytes()

    def check(seed: int) -> None:
        choose = random.Random(seed)
        data = jpeg(choose)
        for _ in range(choose.choice([0, 1, 1, 2, 8])):
            data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        if choose.random() < 0.3:
            del data[choose.randrange(len(data)) :]
        file = bytes(data)
        theirs = outcome(lambda: Image.open(io.BytesIO(file)).convert("RGB"))
        mine = outcome(lambda: fastload.decode_image(file, output="pil"))
        assert mine == theirs, [part if len(str(part)) < 200 else "pixels" for part in (*theirs, *mine)]

    return check


def check_products(folder: Path) -> Check:
    """Runs the test cases that are beyond the limits of CI, one for each seed."""
    from warm_python import WarmPython

    folder.mkdir()
    limited = [name for name, suite in tiers.SUITES.items() if suite.ci is not None]
    listing = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--tier", "weekly", *limited]
    lines = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    cases = [line for line in lines if "::" in line]
    python = WarmPython()
    atexit.register(python.close)

    def check(seed: int) -> None:
        case = cases[seed % len(cases)]
        arguments = ["-q", "-p", "no:cacheprovider", f"{ROOT}/{case}"]
        code = f"import pytest, sys; sys.exit(pytest.main({arguments}))"
        result = python.run(code, folder, 600, dict(os.environ))
        assert result.returncode == 0, f"{case}: status {result.returncode}\n{result.stdout}{result.stderr}"

    return check


# Each campaign with the number of its cases in a turn, which take a second or a few.
CAMPAIGNS = {
    # Data sets that run in Python, with random loaders, against torch's loader.
    "data sets": (cases_of("test_random_datasets"), 5),
    # Random loaders over files of every kind, against torch's loader.
    "native loaders": (cases_in_folder("test_random_loaders", "make_odd_folder"), 5),
    "products": (check_products, 5),
    "files": (check_files, 200),
    # Damaged JPEGs that programs open with Pillow: the native opener against Pillow alone.
    "images": (cases_of("test_damaged_images"), 50),
    # Loaders in several threads at once: made, iterated, dropped, closed and forked while the program draws numbers.
    "workers": (cases_of("loader_stress"), 2),
    # Loaders that are stopped and resumed, against a run without a stop: all samplers, stops and settings.
    "state": (cases_in_folder("test_exact_resume", "make_folder"), 5),
    # The same for streams, with and without a position of their own.
    "streams": (cases_of("test_stream_states"), 5),
    # Programs of tests/worker_state with more loader arguments than its tests: 5 times as many cases of each.
    "programs": (cases_of("test_worker_programs"), 5),
    # Boxes of RandomResizedCrop against torchvision's.
    "boxes": (cases_of("test_torch_draws"), 1),
    # Exceptions that signal handlers raise at random moments of iter() and next().
    "signals": (cases_in_children("random_signals"), 5),
    # Limits on memory, descriptors, threads and the size of files, from too low to high enough.
    "limits": (cases_in_children("random_limits"), 5),
    # One setting and kind of call: lets the n-th call fail, for all n, and prints the last n.
    "faults": (cases_of("test_nth_failures"), 1),
    # Caches on disk with files that were changed, truncated or mixed up.
    "stores": (cases_of("test_record_store"), 5),
}


def run(names: list[str], seconds: float, first: dict[str, int], most: int | None) -> dict[str, tuple[int, list[int]]]:
    """Runs the campaigns. Returns the number of cases and the failed seeds by campaign."""
    found: dict[str, tuple[int, list[int]]] = {name: (0, []) for name in names}
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        checks = {name: CAMPAIGNS[name][0](Path(folder) / name.replace(" ", "_")) for name in names}
        is_over = False
        while not is_over:
            for name in names:
                count, failed = found[name]
                for seed in range(first[name] + count, first[name] + count + (most or CAMPAIGNS[name][1])):
                    try:
                        checks[name](seed)
                    except Exception:  # noqa: BLE001 - whatever it is, it is a find
                        failed.append(seed)
                        print(f"{name}, seed {seed}:\n{traceback.format_exc()}", flush=True)
                    count += 1
                found[name] = count, failed
            is_over = bool(most) or time.monotonic() > deadline
    return found


def next_seeds() -> dict[str, int]:
    """Returns the first seed of each campaign that the record does not have."""
    text = RECORD.read_text()
    ends = {name: re.findall(rf"\| {name} \| \d+\.\.(\d+) \|", text) for name in CAMPAIGNS}
    return {name: max(map(int, found), default=9_999) + 1 for name, found in ends.items()}


def append_record(name: str, cases: str, finds: list[Any], minutes: float) -> None:
    """Adds the line of a run to the record."""
    today = datetime.date.today().isoformat()
    with RECORD.open("a") as record:
        found = ", ".join(map(str, finds)) or "none"
        record.write(f"| {today} | {checkout.commit()} | {minutes:.0f} | {name} | {cases} | {found} |\n")


def write_record(found: dict[str, tuple[int, list[int]]], first: dict[str, int], minutes: float) -> None:
    for name, (count, failed) in found.items():
        append_record(name, f"{first[name]}..{first[name] + count - 1}", failed, minutes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", choices=CAMPAIGNS)
    parser.add_argument("--first", type=int, help="seed; then nothing is recorded")
    parser.add_argument("--cases", type=int, help="so many of each; then nothing is recorded")
    arguments = parser.parse_args()
    import repository_path  # noqa: F401
    import torchvision_shim  # noqa: F401

    warnings.simplefilter("ignore")
    names = [arguments.only] if arguments.only else list(CAMPAIGNS)
    first = dict.fromkeys(CAMPAIGNS, arguments.first) if arguments.first is not None else next_seeds()
    begin = time.monotonic()
    found = run(names, arguments.minutes * 60, first, arguments.cases)
    if arguments.first is None and arguments.cases is None:
        write_record(found, first, (time.monotonic() - begin) / 60)
    for name, (count, failed) in found.items():
        print(f"{name}: {count} cases from seed {first[name]} on, {len(failed)} failed")
    return int(any(failed for _, failed in found.values()))


if __name__ == "__main__":
    sys.exit(main())
