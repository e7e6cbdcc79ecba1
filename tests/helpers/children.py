"""The type of the run_child fixture."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

RunChild = Callable[..., "subprocess.CompletedProcess[str]"]
