"""The type of the file system that a file is on."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fastload._process._limits import read_text

_REMOTE = frozenset(
    (
        *("9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2"),
        *("orangefs", "panfs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs", "wekafs"),
    )
)

# Octal, for white space and backslashes: man 5 fstab. No codec, which is a file that a process without a descriptor
# could not load.
_ESCAPE = re.compile(r"\\([0-7]{3})")


def is_remote(file_system: str) -> bool:
    """Returns whether other machines may write to this type of file system, or it is FUSE's, served by a program."""
    return file_system in _REMOTE or file_system.startswith("fuse")


def file_system_of(place: Path | int, root: Path = Path("/")) -> str:
    """Returns the type of the file system at an existing path, or of a descriptor; "" if unknown.

    The mount list below `root` names it, for example "ext4", "nfs4" or "fuse.sshfs". The device number finds the mount;
    if none has it (btrfs), it is the one with the longest name above the path.
    """
    path = place if isinstance(place, Path) else Path(f"/proc/self/fd/{place}")
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    real = os.path.realpath(path)
    by_name = (-1, "")
    for line in read_text(root / "proc/self/mountinfo").splitlines():
        fields, _, described = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) < 5 or not described:
            continue
        kind = described.split(" ")[0]
        if columns[2] == number:
            return kind
        mount = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), columns[4])
        if real == mount or real.startswith(mount.rstrip("/") + "/"):
            by_name = max(by_name, (len(mount), kind))
    return by_name[1]
