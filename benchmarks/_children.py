"""Starts and ends the processes of the contenders, and talks to them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Protocol

REPOSITORY = Path(__file__).resolve().parent.parent
ANSWER_TIMEOUT_SECONDS = 900.0


class ContenderFailed(RuntimeError):
    """A contender raised, died or did not answer; the message is for the user."""

    def __init__(self, contender: str, what: str) -> None:
        super().__init__(f"{contender}: {what}")
        self.contender = contender


class Child(Protocol):
    """The harness's interface to a contender's process."""

    def call(self, command: str, *arguments: Any) -> Any:
        """Runs the command there and returns its answer. Raises ContenderFailed."""

    def close(self) -> None:
        """Ends the process; never raises."""


class Spawner(Protocol):
    def __call__(self, name: str, cores: Sequence[int]) -> Child: ...


class ProcessSpawner:
    """Starts contenders in interpreters of their own, pinned to the given cores.

    Args:
        front_paths: contender -> folder in front of its module path, for packages that cannot be installed beside
            others.
        interpreters: contender -> Python that runs it, with its own packages, including torch and NumPy.
    """

    def __init__(
        self, front_paths: Mapping[str, Path] | None = None, interpreters: Mapping[str, Path] | None = None
    ) -> None:
        self._front_paths = dict(front_paths or {})
        self._interpreters = dict(interpreters or {})

    def __call__(self, name: str, cores: Sequence[int]) -> Child:
        return _ProcessChild(name, cores, self._front_paths.get(name), self._interpreters.get(name))


class _ProcessChild:
    def __init__(self, name: str, cores: Sequence[int], front_path: Path | None, interpreter: Path | None) -> None:
        self._name = name
        self._pipe, theirs = Pipe()
        environment = dict(os.environ)
        if interpreter is not None:
            # It would lead to packages of this interpreter.
            environment.pop("PYTHONPATH", None)
        if front_path is not None:
            old = environment.get("PYTHONPATH")
            environment["PYTHONPATH"] = os.pathsep.join([str(front_path.resolve()), *([old] if old else [])])
        arguments = [name, str(theirs.fileno()), ",".join(map(str, cores))]
        self._process = subprocess.Popen(
            [str(interpreter or sys.executable), "-m", "benchmarks._child", *arguments],
            cwd=REPOSITORY,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
        )
        theirs.close()

    def call(self, command: str, *arguments: Any) -> Any:
        try:
            self._pipe.send((command, arguments))
            if not self._pipe.poll(ANSWER_TIMEOUT_SECONDS):
                raise ContenderFailed(self._name, f"no answer to '{command}' in {ANSWER_TIMEOUT_SECONDS:.0f} s")
            kind, answer = self._pipe.recv()
        except (EOFError, OSError) as error:
            status = self._process.wait(timeout=10)
            raise ContenderFailed(self._name, f"its process ended with status {status} in '{command}'") from error
        if kind == "error":
            raise ContenderFailed(self._name, f"'{command}' raised {answer}")
        return answer

    def close(self) -> None:
        self._pipe.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ChildPool:
    """Children that stay until they are ended, one per contender and number of workers, started on demand.

    Idle ones cost memory and no time.
    """

    def __init__(self, spawn: Spawner, cores_for: Callable[[int], Sequence[int]]) -> None:
        self._spawn = spawn
        self._cores_for = cores_for
        self._children: dict[tuple[str, int], Child] = {}

    def get(self, name: str, workers: int) -> Child:
        if (name, workers) not in self._children:
            self._children[name, workers] = self._spawn(name, self._cores_for(workers))
        return self._children[name, workers]

    def end(self, name: str) -> None:
        """Ends the contender's children; the next `get` starts a fresh one."""
        for key in [key for key in self._children if key[0] == name]:
            self._children.pop(key).close()

    def end_all(self) -> None:
        """Ends every child, all at the same time: each takes its interpreter's time to end."""
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda child: child.close(), self._children.values()))
        self._children.clear()

    def __enter__(self) -> ChildPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_all()
