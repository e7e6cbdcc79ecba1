"""A Jupyter kernel of its own process, run by cells as a notebook does. Needs jupyter_client and ipykernel."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path


class Notebook:
    """A Jupyter kernel, and the front end that sends it cells."""

    def __init__(self, folder: Path) -> None:
        from jupyter_client.manager import KernelManager

        self.manager = KernelManager(connection_file=str(folder / "kernel.json"))
        self.manager.start_kernel(cwd=str(folder))
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, cell: str, when_it_prints: Callable[[], None] | None = None) -> str:
        """Runs a cell; returns its output, or ``ename: evalue`` of the error it ends in.

        Args:
            cell: its code.
            when_it_prints: called at the first line.
        """
        printed: list[str] = []

        def receive(message: dict[str, object]) -> None:
            content = message["content"]
            if message["msg_type"] != "stream" or content["name"] != "stdout":  # type: ignore[index,call-overload]
                return
            if when_it_prints is not None and not printed:
                when_it_prints()
            printed.append(content["text"])  # type: ignore[index,call-overload]

        reply = self.client.execute_interactive(textwrap.dedent(cell), timeout=60, output_hook=receive)["content"]
        return "".join(printed) if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"

    def restart(self) -> None:
        """Does what the button does: asks the kernel to end, and kills it if it does not."""
        self.client.stop_channels()
        self.manager.restart_kernel(now=False)
        self._connect()

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
