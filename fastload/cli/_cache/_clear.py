"""``fastload cache clear``: a store removed."""

from __future__ import annotations

import argparse
from typing import Any

from fastload._decode_cache._clearing import clear_store
from fastload._display._progress import Progress
from fastload._display._units import counted, in_bytes
from fastload.cli._cache._arguments import path_of, store_errors
from fastload.cli._console import say
from fastload.cli._errors import FINE

_DESCRIPTION = """Removes the files of a store, and no others, and then its folders if they are empty, without asking. A
file that a living process writes to stays. Processes that read the store go on."""


def add_to(parts: Any) -> argparse.ArgumentParser:
    """Adds the command to the subparsers of argparse."""
    parser: argparse.ArgumentParser = parts.add_parser("clear", help="remove a store", description=_DESCRIPTION)
    parser.add_argument("path", help="folder of the store")
    parser.add_argument("--stale", action="store_true", help="only files of other versions and damaged ones")
    parser.set_defaults(run=_run)
    return parser


def _run(options: argparse.Namespace) -> int:
    path = path_of(options.path)
    with store_errors(path), Progress(f"removing {path}"):
        done = clear_store(path, only_stale=options.stale)
    say(f"fastload cache clear: {counted(len(done.removed), 'file')} removed from {path}, {in_bytes(done.num_bytes)}")
    for name, reason in sorted(done.stale.items()):
        say(f"  removed: {name}: {reason}")
    for name, reason in sorted(done.left.items()):
        say(f"  left: {name}: {reason}")
    for folder in done.folders:
        say(f"  folder removed: {folder}")
    return FINE
