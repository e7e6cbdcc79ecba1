"""``fastload check``: decodes every image of a folder and lists those that cannot be loaded."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastload._display._progress import Progress
from fastload._display._units import counted
from fastload._errors import SampleError
from fastload._loader._loader import DataLoader
from fastload.cli._console import say
from fastload.cli._errors import DIFFERENT, FINE, UsageError, one_line
from fastload.cli._folder_loader import whole_images_of_folder

_DESCRIPTION = """Decodes every image below a folder with one folder per class, as a loader does, and lists the files
that cannot be loaded. Pixels that are wrong but can be decoded are not found."""
_BATCH_SIZE = 32


def add_to(commands: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "check", help="list the images of a folder that cannot be loaded", description=_DESCRIPTION
    )
    parser.add_argument("root", help="the folder, with one folder per class in it")
    parser.add_argument(
        "--ledger", metavar="FILE", help="write one JSON object per line to this new file, as a loader does"
    )
    parser.add_argument("--workers", type=int, default=None, help="threads (default: auto)")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.workers is not None and options.workers < 0:
        raise UsageError(f"--workers must not be negative, got {options.workers}")
    with _ledger(options.ledger) as ledger:
        with Progress(f"listing {options.root}"):
            dataset = whole_images_of_folder(options.root)
        workers: Any = "auto" if options.workers is None else options.workers
        _decode(DataLoader(dataset, _BATCH_SIZE, num_workers=workers, on_error="skip", max_errors=1, ledger=ledger))
        bad = [json.loads(line) for line in ledger.read_text().splitlines()]
    if options.ledger is None:
        for entry in bad:
            say(entry["text"])
    kinds = Counter(entry["stage"] for entry in bad)
    by_stage = ", ".join(f"{stage} {count:,}" for stage, count in kinds.most_common())
    say(
        f"fastload check: {len(bad):,} of {counted(len(dataset), 'file')} cannot be loaded"
        + (f" ({by_stage})" if bad else "")
        + (f": {options.ledger}" if bad and options.ledger is not None else "")
    )
    return DIFFERENT if bad else FINE


@contextlib.contextmanager
def _ledger(given: str | None) -> Iterator[Path]:
    """Gives a new empty file: the named one, or a temporary one that is removed afterwards."""
    if given is None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "bad.jsonl")
            path.touch()
            yield path
        return
    path = Path(given).expanduser()
    try:
        path.touch(exist_ok=False)
    except FileExistsError as error:
        raise UsageError(f"{given} exists already: remove it, or name another file") from error
    except OSError as error:
        raise UsageError(one_line(error)) from error
    yield path


def _decode(loader: DataLoader[Any]) -> None:
    iterator, total = iter(loader), len(loader.dataset)  # type: ignore[arg-type]
    with Progress("decoding", "files") as progress:
        for number in range(len(loader)):
            with contextlib.suppress(SampleError):  # the batch would be empty
                next(iterator)
            progress.advance(min(total, (number + 1) * _BATCH_SIZE), total)
