"""A /dev/shm of another size for a program."""

from __future__ import annotations

import subprocess

import pytest


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
