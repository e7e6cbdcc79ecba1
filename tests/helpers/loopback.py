"""Whether processes of this machine can talk to each other over its loopback interface: some sandboxes have none."""

from __future__ import annotations

import socket

import pytest


def need_loopback() -> None:
    """Skips the test that calls it where a connection to 127.0.0.1 cannot be made."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        pytest.skip(f"needs connections to 127.0.0.1: {error}")
