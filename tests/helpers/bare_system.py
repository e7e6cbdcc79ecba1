"""A Debian system in a folder, with only its essential packages, and programs that run in it.

A running program has the network and pip's settings of this machine: paths of this machine's disk in the settings
appear below /machine, and only empty folders of them stay in the system.
"""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

MACHINE = "/machine"
OF_THE_NETWORK = ("/etc/hosts", "/etc/resolv.conf")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
NEEDS = "it needs root, and of Debian's packages mmdebstrap"


class BareSystem:
    """Its root is `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, suite: str, folder: Path) -> BareSystem:
        """Makes a new system of Debian's `suite`, such as "trixie". Raises SystemExit where that is impossible."""
        if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
            raise SystemExit(f"error: no system can be made here: {NEEDS}")
        cls(folder).remove()
        folder.parent.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--mode=root", "--variant=minbase", "--components=main"]
        subprocess.run(["mmdebstrap", *options, suite, folder], check=True)
        return cls(folder)

    def copied_to(self, folder: Path) -> BareSystem:
        """Copies the system to another folder."""
        other = BareSystem(folder)
        other.remove()
        subprocess.run(["cp", "--archive", "--reflink=auto", self.folder, folder], check=True)
        return other

    def remove(self) -> None:
        if self.folder.exists():
            subprocess.run(["rm", "--recursive", "--force", "--one-file-system", self.folder], check=True)

    def path(self, inside: str) -> Path:
        """Returns the path on this machine of a file of the system."""
        return self.folder / inside.lstrip("/")

    def run(
        self,
        command: str,
        *,
        user: str = "root",
        folder: str = "/",
        variables: Mapping[str, str] | None = None,
    ) -> int:
        """Runs a shell's command with nothing of this machine's environment; returns its exit status.

        Processes that the command leaves running end with it. `user` is a name or a number.
        """
        shown = pip_settings()
        mounts = [(path, path) for path in OF_THE_NETWORK] + [(path, f"{MACHINE}{path}") for path in shown.paths]
        script = ["set -e", *(line for mount in mounts for line in self._mounting(*mount)), *self._kernel_folders()]
        environment = {"HOME": self._home_of(user), "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        environment |= {"DEBIAN_FRONTEND": "noninteractive", **proxies(), **shown.variables, **(variables or {})}
        inner = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        inner += ["sh", "-c", f"cd {shlex.quote(folder)} && {command}"]
        script.append("exec " + shlex.join(["chroot", f"--userspec={user}", str(self.folder), *inner]))
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return subprocess.run([*alone, "sh", "-c", "\n".join(script)], stdin=subprocess.DEVNULL).returncode

    def _home_of(self, user: str) -> str:
        entries = [line.split(":") for line in self.path("/etc/passwd").read_text().splitlines()]
        return next(entry[5] for entry in entries if user in (entry[0], entry[2]))

    def _mounting(self, source: str, target: str) -> Iterable[str]:
        there = self.path(target)
        there.parent.mkdir(parents=True, exist_ok=True)
        there.mkdir(exist_ok=True) if Path(source).is_dir() else there.touch()
        yield shlex.join(["mount", "--bind", "-o", "ro", source, str(there)])

    def _kernel_folders(self) -> Iterable[str]:
        yield shlex.join(["mount", "-t", "proc", "proc", str(self.path("/proc"))])
        yield shlex.join(["mount", "--rbind", "/dev", str(self.path("/dev"))])
        yield shlex.join(["mount", "--rbind", "-o", "ro", "/sys", str(self.path("/sys"))])


class PipSettings:
    """pip's settings of this machine as variables for a system.

    Attributes:
        paths: The paths on this machine's disk that they name, to be shown below MACHINE.
        variables: PIP_CERT and so on, with their paths below MACHINE.
    """

    def __init__(self, listing: str) -> None:
        self.paths: list[str] = []
        self.variables: dict[str, str] = {}
        # The last value of a setting counts here, and pip obeys variables first.
        for line in sorted(listing.splitlines(), key=lambda line: line.startswith(":env:")):
            key, _, value = line.partition("=")
            words = [self._shown(word) for word in ast.literal_eval(value).split()]
            self.variables["PIP_" + key.rpartition(".")[2].upper().replace("-", "_")] = " ".join(words)

    def _shown(self, word: str) -> str:
        scheme, path = ("file://", word[7:]) if word.startswith("file://") else ("", word)
        if not path.startswith("/") or not Path(path).exists():
            return word
        # An index on the disk has links to what lies beside it.
        mounted = str(Path(path).parent) if scheme else path
        if mounted not in self.paths:
            self.paths.append(mounted)
        return f"{scheme}{MACHINE}{path}"


def pip_settings() -> PipSettings:
    """Returns the settings of this interpreter's pip; none if it has no pip."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return PipSettings(result.stdout if result.returncode == 0 else "")


def proxies() -> dict[str, str]:
    return {name: os.environ[name] for name in PROXIES if name in os.environ}
