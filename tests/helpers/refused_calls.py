"""Calls of the system that a seccomp filter refuses to this process and its children, as container runtimes do."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import subprocess

import pytest

# Numbers of the calls.
_NUMBERS = {
    "x86_64": {"memfd_create": 319, "madvise": 28},
    "aarch64": {"memfd_create": 279, "madvise": 233},
}
_POPULATE_WRITE = 23
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
# linux/bpf_common.h and linux/seccomp.h.
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_AT_NUMBER, _AT_THIRD_ARGUMENT = 0, 32


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def refuse_memfd(*, populates: bool = True) -> bool:
    """Refuses memfd_create from now on; without `populates` also MADV_POPULATE_WRITE, as kernels before 5.14 do.

    Returns whether the system has accepted that.
    """
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return False
    steps = [
        (_LOAD, 0, 0, _AT_NUMBER),
        (_JUMP_IF_EQUAL, 0, 1, numbers["memfd_create"]),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
    ]
    if not populates:
        steps += [
            (_JUMP_IF_EQUAL, 0, 3, numbers["madvise"]),
            (_LOAD, 0, 0, _AT_THIRD_ARGUMENT),
            (_JUMP_IF_EQUAL, 0, 1, _POPULATE_WRITE),
            (_RETURN, 0, 0, _ERROR | errno.EINVAL),
        ]
    steps.append((_RETURN, 0, 0, _ALLOW))
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    program = _Program(len(steps), code)
    return bool(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def skip_unless(is_accepted: str) -> None:
    """Skips the test after a child that has printed whether its filter was accepted."""
    if is_accepted.startswith("False"):
        pytest.skip("the system accepts no seccomp filter")


def with_shared_memory_of(kib: int) -> list[str]:
    """Returns the words to put before a command so that its /dev/shm has that size, or skips the test."""
    mount = f'mount -t tmpfs -o size={kib}k tmpfs /dev/shm && exec "$@"'
    refusals = []
    for options in (["--mount"], ["--mount", "--map-root-user"]):
        words = ["unshare", *options, "sh", "-c", mount, "sh"]
        try:
            result = subprocess.run([*words, "df", "--output=size", "/dev/shm"], capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("needs unshare(1)")
        if result.returncode == 0 and result.stdout.split()[-1] == str(kib):
            return words
        refusals.append(result.stderr.strip())
    pytest.skip(f"no other /dev/shm can be mounted here: {refusals}")
