"""Limits that hold everywhere, torch's own DataLoader, and the arguments that the installed torch takes."""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path

import torch.utils.data

# A program may replace torch's name by fastload's class: `torch.utils.data.DataLoader = fastload.DataLoader`.
TorchDataLoader = torch.utils.data.DataLoader

# A larger sample file is refused before it is read: it is no photograph, and reading it would block a thread for
# minutes.
MAX_FILE_BYTES = 1 << 30


@functools.cache
def torch_loader_has(argument: str) -> bool:
    """Returns whether the installed torch's DataLoader has `argument`; in_order, for example, came with torch 2.6."""
    return argument in inspect.signature(TorchDataLoader.__init__).parameters


# Set by torchrun, Open MPI and Slurm.
_LOCAL_RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE")


def told_local_ranks() -> int | None:
    """Returns the number of processes of this program on this machine as the launcher tells it; None if none does."""
    told = (os.environ.get(name, "") for name in _LOCAL_RANKS)
    return next((max(1, int(number)) for number in told if number.isdigit()), None)


def num_local_ranks() -> int:
    """Returns the number of processes of this program on this machine; 1 if no launcher tells it."""
    return told_local_ranks() or 1


def told_local_rank() -> int | None:
    """Returns this process's rank among them; None where nobody tells it."""
    told = (os.environ.get(name, "") for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"))
    return next((int(rank) for rank in told if rank.isdigit()), None)


def has_opencv_limits() -> bool:
    """Returns whether a limit on OpenCV's images is set (OPENCV_IO_MAX_IMAGE_PIXELS, _WIDTH, _HEIGHT)."""
    return any(name.startswith("OPENCV_IO_MAX_IMAGE") for name in os.environ)


def has_malloc_settings() -> bool:
    """Returns whether the user has set glibc's malloc."""
    return any(name == "GLIBC_TUNABLES" or name.startswith("MALLOC_") for name in os.environ)


def cache_folder() -> Path:
    """Returns the folder for cached files: $FASTLOAD_CACHE, else fastload in $XDG_CACHE_HOME or ~/.cache.

    Raises RuntimeError if neither variable is set and there is no home folder.
    """
    if own := os.environ.get("FASTLOAD_CACHE"):
        return Path(own).absolute()
    # The XDG specification says to ignore a relative path.
    if (shared := os.environ.get("XDG_CACHE_HOME")) and Path(shared).is_absolute():
        return Path(shared, "fastload")
    return Path.home() / ".cache" / "fastload"
