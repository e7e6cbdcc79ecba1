"""``fastload replay``: makes one sample as it was in an epoch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._loader._loader import DataLoader
from fastload._tools.verify._image import write_views
from fastload.cli._console import say
from fastload.cli._errors import LoaderFailedError, UsageError, one_line, require_folders
from fastload.cli._targets import loader_of

_DESCRIPTION = """Makes one sample again as it was in an epoch, and says what was done to it. The loader has
rng="sample" and a seed, or no random transforms."""


def add_to(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "replay", help="make one sample of an epoch again", description=_DESCRIPTION
    )
    parser.add_argument("loader", help="script.py:name or package.module:name, a fastload.DataLoader or a function")
    parser.add_argument("index", type=int, help="number of the sample in the data set")
    parser.add_argument("--epoch", type=int, required=True, metavar="N", help="from 0")
    parser.add_argument("--step", type=int, metavar="K", help="its batch, from 0, where it is drawn several times")
    parser.add_argument("--image", type=Path, metavar="FILE", help="write it as PNG, views side by side")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    require_folders(options.image)
    loader = loader_of(options.loader)
    if not isinstance(loader, DataLoader):
        raise UsageError(f"{options.loader} is a {type(loader).__name__}: name a fastload.DataLoader")
    try:
        with Progress("making the sample"):
            (image, label), report = loader.replay(options.index, options.epoch, step=options.step)
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    except Exception as error:
        raise LoaderFailedError(one_line(error)) from error
    width, height = report.source_size
    say(f"sample {report.index} of epoch {options.epoch}: {report.path}, label {label}")
    say(f"  image {width} x {height}, decoded by {'Pillow' if report.source == 'fallback' else 'native code'}")
    for number, steps in enumerate(report.views):
        name = "steps" if len(report.views) == 1 else f"view {number + 1}"
        say(f"  {name} {', '.join(map(str, steps)) or 'none'}")
    if options.image is not None:
        try:
            write_views(image if isinstance(image, list) else [image], options.image)
        except OSError as error:
            raise UsageError(one_line(error)) from error
    return 0
