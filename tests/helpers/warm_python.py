"""A Python process that has done the imports of a child's first seconds, and forks a child for each program."""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from types import CodeType
from typing import Any

from process_tree import kill_tree

# Modules that children of the tests import. None of them starts a thread, which a fork would lose.
IMPORTS = ["numpy", "torch", "torchvision_shim", "fastload", "fake_cuda", "recipes"]


class WarmPython:
    """Runs programs in children of one warm process.

    To a program it is as if `python -c` had been started in an empty folder, but that modules are there already: it is
    the main module, ends as an interpreter ends, and leads a session of its own.
    """

    def __init__(self, **variables: str) -> None:
        """Starts the process with `variables` added to its environment."""
        self._socket, theirs = socket.socketpair()
        folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
        path = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"import warm_python; exec(warm_python.next_program({theirs.fileno()}))"],
                env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", **variables},
                pass_fds=[theirs.fileno()],
                cwd="/",
            )
        self._replies = self._socket.makefile("r")

    def run(self, code: str, cwd: Path, timeout: float, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs `code` in the environment `env`.

        Raises:
            subprocess.TimeoutExpired: It, or what it has started, had not ended after `timeout` seconds. They are
                killed; the error has what they had written.
        """
        outputs = [os.pipe(), os.pipe()]
        request = json.dumps({"code": code, "cwd": str(cwd), "env": env}).encode()
        socket.send_fds(self._socket, [len(request).to_bytes(4, "big")], [write for _, write in outputs])
        self._socket.sendall(request)
        for _, write in outputs:
            os.close(write)
        pid = int(self._replies.readline())
        with ThreadPoolExecutor(2) as pool:
            # To the end of the outputs: a process that the child left running is waited for, too.
            texts = [pool.submit(lambda fd: os.fdopen(fd, errors="replace").read(), read) for read, _ in outputs]
            is_late = False
            try:
                for text in texts:
                    text.result(timeout)
            except FutureTimeoutError:  # the built-in one only since Python 3.11
                is_late = True
                kill_tree(pid)
        status = int(self._replies.readline())
        stdout, stderr = (text.result() for text in texts)
        if is_late:
            raise subprocess.TimeoutExpired(code, timeout, stdout, stderr)
        return subprocess.CompletedProcess(code, os.waitstatus_to_exitcode(status), stdout, stderr)

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # forks of this process may have the socket, too
        self._replies.close()
        self._socket.close()
        self._process.wait()


def next_program(fd: int) -> CodeType:
    """Serves requests from socket `fd`. Returns in each child, with what it is to run; the server exits at the end."""
    for name in IMPORTS:
        importlib.import_module(name)
    # Else each child's collections, the last one above all, would go through all that was imported, and copy it.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=fd) as requests:
        while True:
            header, fds, _, _ = socket.recv_fds(requests, 4, 2)
            if not header:
                sys.exit()
            request = json.loads(_received(requests, int.from_bytes(header, "big")))
            pid = os.fork()
            if pid == 0:
                return _begin(request, fds)
            for output in fds:
                os.close(output)
            requests.sendall(f"{pid}\n".encode())
            requests.sendall(f"{os.waitpid(pid, 0)[1]}\n".encode())


def _begin(request: dict[str, Any], fds: list[int]) -> CodeType:
    os.setsid()
    for number, output in enumerate(fds, start=1):
        os.dup2(output, number)
        os.close(output)
    os.chdir(request["cwd"])
    for name in os.environ.keys() - request["env"].keys():
        del os.environ[name]
    os.environ.update(request["env"])
    return compile(request["code"], "<string>", "exec")


def _received(connection: socket.socket, num_bytes: int) -> bytes:
    parts = []
    while num_bytes:
        part = connection.recv(num_bytes)
        if not part:
            sys.exit("a request broke off")
        parts.append(part)
        num_bytes -= len(part)
    return b"".join(parts)
