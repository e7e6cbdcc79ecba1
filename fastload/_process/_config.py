"""Limits that hold everywhere, torch's own DataLoader, and what the installed one takes."""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path

import torch.utils.data

# Its name may be given to fastload's later: `torch.utils.data.DataLoader = fastload.DataLoader`.
TorchDataLoader = torch.utils.data.DataLoader

# A sample file larger than this is refused before it is read: it is no photograph, and reading it would stop a thread
# for minutes.
MAX_FILE_BYTES = 1 << 30


@functools.cache
def torch_loader_has(argument: str) -> bool:
    """Whether the installed torch's DataLoader knows `argument`; in_order, for example, came with torch 2.6."""
    return argument in inspect.signature(TorchDataLoader.__init__).parameters


# Of torchrun, Open MPI and Slurm.
_LOCAL_RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")


def told_local_ranks() -> int | None:
    """Processes of this program on this machine, as who has started them tells each; None where nobody does."""
    told = (os.environ.get(name, "") for name in _LOCAL_RANKS)
    return next((max(1, int(number)) for number in told if number.isdigit()), None)


def num_local_ranks() -> int:
    """The same; 1 where it is not told."""
    return told_local_ranks() or 1


def told_local_rank() -> int | None:
    """Returns this process's rank among them; None where nobody tells it."""
    told = (os.environ.get(name, "") for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"))
    return next((int(rank) for rank in told if rank.isdigit()), None)


def has_opencv_limits() -> bool:
    """Whether somebody has set how large OpenCV's images may be (OPENCV_IO_MAX_IMAGE_PIXELS, _WIDTH, _HEIGHT)."""
    return any(name.startswith("OPENCV_IO_MAX_IMAGE") for name in os.environ)


def cache_folder() -> Path:
    """Where files are kept that save work the next time: $FASTLOAD_CACHE, else fastload in $XDG_CACHE_HOME or ~/.cache.

    Raises:
        RuntimeError: There is neither of these variables nor a home folder.
    """
    if own := os.environ.get("FASTLOAD_CACHE"):
        return Path(own).absolute()
    # The specification of the XDG folders says that a relative path is to be ignored.
    if (shared := os.environ.get("XDG_CACHE_HOME")) and Path(shared).is_absolute():
        return Path(shared, "fastload")
    return Path.home() / ".cache" / "fastload"
