"""What kind of file system a file lies on."""

from __future__ import annotations

import os
from pathlib import Path

# Of other machines: their clocks and locks are not this one's. Those of FUSE may be of any kind.
_REMOTE = {
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "cvmfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "mfs",
    "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs",
    "wekafs",
}  # fmt: skip


def file_system_of(fd: int, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system of an open file, as ``mount`` names it; empty where it is not known.

    Args:
        mounts: What the system has mounted; tests have a table of their own.
    """
    number = os.fstat(fd).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:
        facts, _, types = line.partition(" - ")
        if facts.split()[2:3] == [device] and types.split():
            return types.split()[0]
    return ""


def is_local(file_system: str) -> bool:
    """Whether only this machine changes its files. What is not known is taken for local."""
    return file_system not in _REMOTE and not file_system.startswith("fuse")
