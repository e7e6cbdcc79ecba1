"""`python -m benchmarks.chart RESULTS.json [-o CHART.png]`: draws a record as bars, one row of panels per scenario."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

Record = dict[str, Any]

PANELS = (
    ("images_per_second", "images/s (more is better)"),
    ("cpu_ms_per_image", "CPU ms per image (less is better)"),
    ("fresh_first_batch_seconds", "first batch of a fresh loader, s (less is better)"),
)


def draw_chart(record: Record, path: Path) -> None:
    """Writes the PNG: medians as bars, minimum to maximum as whiskers."""
    scenarios = list(dict.fromkeys((timing["row"], timing["workers"]) for timing in record["timings"]))
    if not scenarios:
        raise ValueError("the record has no timings to draw")
    figure, grid = plt.subplots(
        len(scenarios), len(PANELS), figsize=(5 * len(PANELS), 0.8 + 2.8 * len(scenarios)), squeeze=False
    )
    for axes, (row, workers) in zip(grid, scenarios, strict=True):
        timings = [timing for timing in record["timings"] if (timing["row"], timing["workers"]) == (row, workers)]
        for panel, (measure, label) in zip(axes, PANELS, strict=True):
            _draw_bars(panel, timings, measure, label)
        axes[0].set_ylabel(f"{row}, {workers} workers")
    figure.suptitle(record["machine"]["cpu"])
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_bars(axes: Axes, timings: Sequence[Record], measure: str, label: str) -> None:
    timings = [timing for timing in timings if measure in timing["summary"]]
    if not timings:
        axes.set_axis_off()
        return
    names = [timing["contender"] for timing in timings]
    summaries = [timing["summary"][measure] for timing in timings]
    medians = [summary["median"] for summary in summaries]
    below = [summary["median"] - summary["min"] for summary in summaries]
    above = [summary["max"] - summary["median"] for summary in summaries]
    colors = ["tab:red" if "fastload" in name else "tab:gray" for name in names]
    bars = axes.barh(names, medians, xerr=[below, above], color=colors, capsize=3)
    axes.bar_label(bars, fmt="{:.4g}", padding=4)
    axes.margins(x=0.26)
    axes.invert_yaxis()
    axes.set_xlabel(label)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chart", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", "--output", type=Path, help="default: the results' name with .png")
    options = parser.parse_args(arguments)
    output = options.output or options.results.with_suffix(".png")
    draw_chart(json.loads(options.results.read_text()), output)
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
