"""Importing this lets tests import the benchmarks, which are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

# At the end: an installed fastload must win over the sources that lie beside the benchmarks.
sys.path.append(str(Path(__file__).resolve().parents[2]))
