"""The commands on a user's loaders: ``fastload explain``, ``doctor``, ``verify`` and ``replay``."""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._loader._counterparts import as_fastload
from fastload._loader._loader import DataLoader
from fastload._process._config import TorchDataLoader
from fastload._tools.doctor._doctor import doctor
from fastload._tools.verify._image import write_views
from fastload._tools.verify._report import VerifyReport
from fastload._tools.verify._verify import verify
from fastload.cli._common import (
    FINE,
    UsageError,
    add_command,
    loader_errors,
    require_folders,
    say,
    show,
    usage_errors,
    write_json,
)
from fastload.cli._targets import function_of, loader_of

_LOADER = "script.py:name or package.module:name, a DataLoader or a function returning one"


def add_to(commands: Any) -> None:
    """Adds the commands to the subparsers of argparse."""
    parser = add_command(commands, "explain", _explain, help="say what is native in a loader")
    parser.add_argument("loader", help=_LOADER)
    parser.add_argument("--json", action="store_true", help="print the fields as JSON")

    parser = add_command(commands, "doctor", _doctor, help="say why training waits, and what to change")
    parser.add_argument("loader", help=_LOADER)
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--step-time", type=float, metavar="S", help="seconds that a training step takes")
    step.add_argument("--train-step", metavar="SCRIPT:NAME", help="a function that is called with a batch, and timed")
    parser.add_argument(
        "--seconds", type=float, default=5.0, metavar="S", help="length of each measurement (default: 5)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers as JSON")

    parser = add_command(commands, "verify", _verify, help="compare two loaders bit for bit")
    parser.add_argument("old", help="the loader to compare with, usually torch's")
    parser.add_argument("new", help="the loader to check, usually fastload's")
    parser.add_argument("--batches", type=int, metavar="N", help="compare at most N batches (default: the whole epoch)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of both loaders (default: 0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--image", type=Path, metavar="FILE", help="write the worst sample beside its twin as PNG")

    parser = add_command(commands, "replay", _replay, help="make one sample of an epoch again")
    parser.add_argument("loader", help="script.py:name or package.module:name, a fastload.DataLoader or a function")
    parser.add_argument("index", type=int, help="number of the sample in the data set")
    parser.add_argument("--epoch", type=int, required=True, metavar="N", help="from 0")
    parser.add_argument("--step", type=int, metavar="K", help="its batch, from 0, where it is drawn several times")
    parser.add_argument("--image", type=Path, metavar="FILE", help="write it as PNG, views side by side")


def _explain(options: argparse.Namespace) -> int:
    """Says, stage by stage, what is native in a loader and, if a stage is not, why and what to change. For torch's
    loader it says how fastload.DataLoader would load with the same arguments."""
    loader = loader_of(options.loader)
    with loader_errors(), Progress("looking at the loader"):
        explanation = as_fastload(loader).explain()
    if options.json:
        print(json.dumps(explanation.as_dict(), indent=2))
        return FINE
    kind = explanation.verdict.partition(" ")[0]
    say(str(explanation), {"native:": "green", "partly": "yellow"}.get(kind, "red"))
    return FINE


def _doctor(options: argparse.Namespace) -> int:
    """Measures the machine, the files and a loader in parts, says in one sentence what limits it, by how much, and
    what to change, and measures the loader again with that change. It takes less than a minute. Without a training
    step it judges loading alone: give the step's length, or a function that makes one."""
    for name, value in (("--seconds", options.seconds), ("--step-time", options.step_time)):
        if value is not None and not value > 0:
            raise UsageError(f"{name} must be a positive number, got {value:g}")
    require_folders(options.json)
    loader = loader_of(options.loader)
    with loader_errors(), _Steps() as steps:
        report = doctor(
            loader,
            step_seconds=options.step_time,
            train_step=None if options.train_step is None else function_of(options.train_step),
            seconds=options.seconds,
            progress=steps.begin,
        )
    show(report._table())
    write_json(options.json, report.as_dict())
    return FINE


class _Steps(contextlib.ExitStack):
    """Shows the progress of one step after another."""

    def begin(self, what: str) -> None:
        self.close()
        self.enter_context(Progress(what))


def _verify(options: argparse.Namespace) -> int:
    """Compares two loaders bit for bit and says at which stage they first differ. Each is named as script.py:name or
    package.module:name, and is a DataLoader or a function without arguments that returns one."""
    require_folders(options.json, options.image)
    old, new = loader_of(options.old), loader_of(options.new)
    report = compare(old, new, options.batches, options.seed)
    say(str(report), "green" if report.is_equal else "red")
    write_json(options.json, report.as_dict())
    if options.image is not None and report.has_image:
        with usage_errors(OSError):
            report.save_image(options.image)
        say(f"\n  {options.image}: old, new and difference of the worst sample")
    return report.exit_code


def compare(old: TorchDataLoader[Any], new: TorchDataLoader[Any], batches: int | None, seed: int = 0) -> VerifyReport:
    """Runs fastload.verify with progress. Raises UsageError for wrong numbers, CommandError if iter() raises."""
    with loader_errors(), usage_errors(ValueError), Progress("comparing", "batches") as progress:
        return verify(old, new, batches=batches, seed=seed, progress=progress.advance)


def _replay(options: argparse.Namespace) -> int:
    """Makes one sample again as it was in an epoch, and says what was done to it. The loader has rng="sample" and a
    seed, or no random transforms."""
    require_folders(options.image)
    loader = loader_of(options.loader)
    if not isinstance(loader, DataLoader):
        raise UsageError(f"{options.loader} is a {type(loader).__name__}: name a fastload.DataLoader")
    with loader_errors(), usage_errors(ValueError), Progress("making the sample"):
        (image, label), report = loader.replay(options.index, options.epoch, step=options.step)
    width, height = report.source_size
    say(f"sample {report.index} of epoch {options.epoch}: {report.path}, label {label}")
    say(f"  image {width} x {height}, decoded by {'Pillow' if report.source == 'fallback' else 'native code'}")
    for number, steps in enumerate(report.views):
        name = "steps" if len(report.views) == 1 else f"view {number + 1}"
        say(f"  {name} {', '.join(map(str, steps)) or 'none'}")
    if options.image is not None:
        with usage_errors(OSError):
            write_views(image if isinstance(image, list) else [image], options.image)
    return FINE
