"""Delivery to a GPU: copies against plain ones, waits, and training with torch's loader and with fastload's.

    python -m benchmarks.gpu                    # on a current GPU and 16 cores: less than 8 minutes
    python -m benchmarks.gpu --quick            # 2 minutes
    python -m benchmarks.gpu --data train       # your own images, a folder for each class
    python -m benchmarks.gpu --no-cache         # as in a first epoch

The loaders' batches are compared first, byte for byte; then they take turns. Both have as many workers as there are
cores and four batches ahead for each; torch's has pin_memory, persistent_workers and non_blocking copies. The ceiling
is a batch that stays on the device. Training is SGD in bfloat16 autocast, channels_last, not compiled. Without a GPU it
says so in one line.

Exit status: 0, also without a GPU; 2 if the batches differ or a run is impossible.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._gpu_machine import Gpu, why_no_gpu

DEFAULT_RECORD = Path("benchmarks/results/gpu-latest.json")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    cores = len(os.sched_getaffinity(0))
    add(
        "--models",
        nargs="+",
        default=["resnet18", "resnet50"],
        help="names in torchvision.models (default: %(default)s)",
    )
    add("--batch-size", type=int, default=256, help="default: %(default)s")
    add("--workers", type=int, default=cores, help="processes or threads that load (default: cores, here %(default)s)")
    add("--prefetch-factor", type=int, default=4, help="batches ahead for each worker (default: %(default)s)")
    add("--rounds", type=int, help="rounds of each loader; medians are shown (default: 3)")
    add("--seconds", type=float, help="time that the model alone takes for a timed stretch (default: 5)")
    add("--data", type=Path, help="folder with one folder of images per class (default: the set that is made here)")
    add("--no-cache", action="store_true", help="fastload decodes each image as in a first epoch, with cache=None")
    add("--json", type=Path, default=DEFAULT_RECORD, help="file of the record (default: %(default)s)")
    add("--page", type=Path, metavar="JSON", help="only print the table of docs/device.md, from such a file")
    add("--quick", action="store_true", help="one round of 3 seconds")
    options = parser.parse_args(arguments)
    options.cache = None if options.no_cache else "auto"
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (3.0 if options.quick else 5.0)
    return options


def why_not_measured(options: argparse.Namespace) -> str | None:
    """Returns one line on the reason why a run would fail, or None."""
    if importlib.util.find_spec("tabulate") is None:
        return f"error: the tables need tabulate: {sys.executable} -m pip install tabulate"
    batch_bytes = options.batch_size * (3 * 224 * 224 * 4 + 8)
    needed = options.workers * options.prefetch_factor * batch_bytes
    free = shutil.disk_usage("/dev/shm").free
    if needed > free:
        return (
            f"error: torch's loader holds up to {needed / 2**30:.1f} GiB of batches in /dev/shm, where "
            f"{free / 2**30:.1f} GiB are free: lower --prefetch-factor, --workers or --batch-size, or give the "
            "container more (--shm-size)"
        )
    return None


def main(arguments: Sequence[str] | None = None, machine: Any = None) -> int:
    """Runs the command. `machine` is a `_gpu_training.Machine`; None: the GPU, if there is one."""
    options = parse_arguments(arguments)
    if options.page is not None:
        from benchmarks import _gpu_report

        print(_gpu_report.format_page(json.loads(options.page.read_text())))
        return 0
    if machine is None:
        reason = why_no_gpu()
        if reason is not None:
            print(reason)
            return 0
        problem = why_not_measured(options)
        if problem is not None:
            print(problem, file=sys.stderr)
            return 2
        machine = Gpu()
    # Not before torch is known to be installed.
    from benchmarks import _gpu_report, _report
    from benchmarks._compare import ResultsDiffer
    from benchmarks._gpu_training import GpuPlan, measure
    from benchmarks._machine import describe_machine
    from benchmarks._protocol import LoaderSettings
    from benchmarks._sample_set import DEFAULT_FOLDER, ensure_sample_set
    from benchmarks.contenders import load_contender

    settings = LoaderSettings(
        data=str(options.data or ensure_sample_set(DEFAULT_FOLDER).root),
        mode="train",
        batch_size=options.batch_size,
        workers=options.workers,
        image_count=0,
        prefetch_factor=options.prefetch_factor,
    )
    plan = GpuPlan(settings, tuple(options.models), options.rounds, options.seconds, options.cache)
    contender = load_contender("fastload_loader")
    names = ("models", "batch_size", "workers", "prefetch_factor", "rounds", "seconds", "cache")
    environment = {
        "machine": {**describe_machine(), **machine.describe()},
        "versions": {**contender.versions(), **contender.details()},
        "settings": {name: getattr(options, name) for name in names},
        "data": f"own folder {options.data.name}" if options.data else "the set that is made here",
    }
    try:
        found = measure(machine, plan, log=lambda line: print(line, flush=True))
    except ResultsDiffer as error:
        print(f"error: the results differ, so nothing was timed.\n{error}", file=sys.stderr)
        return 2
    record = _gpu_report.make_record(found, environment)
    _report.write_record(record, options.json)
    print(f"\n{_gpu_report.format_tables(record)}\n\nwritten: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
