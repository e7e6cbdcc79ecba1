"""What kind of file system a file is on."""

from __future__ import annotations

import os
from pathlib import Path

from fastload._process._memory import read_text

_REMOTE = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2"),
        *("orangefs", "panfs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
    )
)


def is_remote(file_system: str) -> bool:
    """Whether other machines may write to a file system of this type, or it is FUSE's: a program answers for it."""
    return file_system in _REMOTE or file_system.startswith("fuse")


def file_system_of(place: Path | int, root: Path = Path("/")) -> str:
    """The type of the file system that something is on, as the list of mounts has it: "ext4", "nfs4", "fuse.sshfs".

    Args:
        place: A path of something that exists, or a descriptor.
        root: Of the file system with the list of mounts; tests have one of their own.

    Returns:
        "" where nobody knows.
    """
    path = place if isinstance(place, Path) else Path(f"/proc/self/fd/{place}")
    return _type_of(path, read_text(root / "proc/self/mountinfo"))


def is_rotating(place: Path, root: Path = Path("/")) -> bool:
    """Whether the system knows that what exists at `place` is on a disk that turns.

    Args:
        place: A path of something that exists.
        root: Of the file system with the devices; tests have one of their own.
    """
    device = place.stat().st_dev
    disk = Path(os.path.realpath(root / f"sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    # Of a virtual machine's disk Linux says that it turns, whatever the host has; so it does of a map onto one.
    disks = [Path(os.path.realpath(below)) for below in disk.glob("slaves/*")] or [disk]
    if any(part.startswith("virtio") for each in disks for part in each.parts):
        return False
    # A partition is a folder in that of its disk.
    return any(read_text(folder / "queue/rotational").strip() == "1" for folder in (disk, disk.parent))


def _type_of(path: Path, mounts: str) -> str:
    """By the device, and where no mount has its number (btrfs) by the longest name of a mount that `path` is below."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    real = os.path.realpath(path)
    by_name = (-1, "")
    for line in mounts.splitlines():
        fields, _, described = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) < 5 or not described:
            continue
        kind = described.split(" ")[0]
        if columns[2] == number:
            return kind
        mount = columns[4].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "surrogateescape")
        if real == mount or real.startswith(mount.rstrip("/") + "/"):
            by_name = max(by_name, (len(mount), kind))
    return by_name[1]
