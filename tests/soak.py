"""The same loaders again and again, for as long as you like: `make soak MINUTES=30`.

Native loaders, loaders over data sets that run in Python and over data sets that open images, iterated over to the end,
dropped, failing: with the cases of tests/loader/test_random_loaders.py and tests/contract/test_random_datasets.py.
Each pass must give the first one's results and leave as many threads, descriptors and child processes; the memory of
the process must stay where it was after the first quarter. A run becomes a line of tests/campaigns.md.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import campaign
import torch
from both_loaders import kind_of, steps_of
from held import held_now, resident_mib, settle
from PIL import Image

import fastload

CASES = 30
# Slack for the allocators and for Python, which hold memory in pieces.
SPARE_MIB = 48


def make_pass(folder: Path) -> Callable[[], str]:
    """Returns a function that runs all cases once, and returns a digest of everything visible."""
    import test_random_datasets
    import test_random_loaders
    from torchvision.datasets import ImageFolder

    root = test_random_loaders.make_odd_folder(folder)

    def opened(seed: int) -> list[Any]:
        """Runs epochs of a data set that opens its images with Pillow, some of them broken."""
        choose = random.Random(seed)
        pipeline = test_random_loaders.pipeline(choose)
        folder = ImageFolder(str(root), pipeline, loader=lambda path: Image.open(path).convert("RGB"))
        torch.manual_seed(seed)
        batches = [[choose.randrange(len(folder)) for _ in range(4)] for _ in range(6)]
        loader = fastload.DataLoader(folder, batch_sampler=batches, num_workers=choose.choice([1, 2]))
        return steps_of(loader, error_form=kind_of, limit=choose.choice([2, 7]))

    def run() -> str:
        digest = hashlib.sha256()

        def note(seen: Any) -> None:
            digest.update(repr(seen).encode())

        for seed in range(CASES):
            note(test_random_loaders.run_case(fastload.DataLoader, test_random_loaders.make_case(seed), root))
            note(test_random_datasets.run_case(fastload.DataLoader, test_random_datasets.make_case(seed)))
            note(opened(seed))
        gc.collect()
        return digest.hexdigest()

    return run


def soak(run: Callable[[], str], seconds: float) -> tuple[list[float], list[str]]:
    """Returns the memory after each pass in MiB, and the finds."""
    digest = run()  # makes everything that is made once
    run()
    held = held_now()
    finds = []
    resident: list[float] = []
    deadline = time.monotonic() + seconds
    while len(resident) < 4 or time.monotonic() < deadline:
        number = len(resident) + 2
        if run() != digest:
            finds.append(f"pass {number} gave something else")
        if (now := settle(held)) != held:
            finds.append(f"pass {number} left {now} in place of {held}")
        resident.append(resident_mib())
        print(f"pass {number}: {resident[-1]:.1f} MiB, {now}", flush=True)
    begin = max(resident[: len(resident) // 4 + 1])
    if resident[-1] > begin + SPARE_MIB:
        finds.append(f"memory grew from {begin:.0f} to {resident[-1]:.0f} MiB")
    return resident, finds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--no-record", action="store_true", help="leave tests/campaigns.md as it is")
    arguments = parser.parse_args()
    import torchvision_shim  # noqa: F401

    warnings.simplefilter("ignore")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        resident, finds = soak(make_pass(Path(folder) / "images"), arguments.minutes * 60)
    cases = (
        f"{len(resident) + 2} passes of {3 * CASES} loaders; {min(resident):.0f} to {max(resident):.0f} MiB, "
        f"{held_now().threads} threads, {held_now().descriptors} descriptors"
    )
    print(cases, *finds, sep="\n")
    if not arguments.no_record:
        campaign.append_record("soak", cases, finds, (time.monotonic() - begin) / 60)
    return int(bool(finds))


if __name__ == "__main__":
    sys.exit(main())
