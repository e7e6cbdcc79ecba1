"""`python -m benchmarks.chart RESULTS.json [-o CHART.png]`: draws a record as bars, one row of panels per scenario.

With `--brief` it draws only images/s with one worker, the rows side by side.
"""

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

from benchmarks.contenders import FASTLOADS, OURS

Record = dict[str, Any]

PANELS = (
    ("images_per_second", "images/s (more is better)"),
    ("cpu_ms_per_image", "CPU ms per image (less is better)"),
    ("fresh_first_batch_seconds", "first batch of a fresh loader, s (less is better)"),
)

LABELS = {
    "torch_pil": "torch + PIL",
    "torch_pillow_simd": "torch + Pillow-SIMD",
    "torch_tensors": "torch, tensors",
    "dali": "DALI, CPU",
    "ffcv": "FFCV, JPEG bytes",
    "ffcv_raw": "FFCV, raw pixels",
    "fastload_first_epoch": "fastload, first epoch",
    "fastload_loader": "fastload, later epochs",
    "fastload_avx2": "the same, AVX2",
    "fastload_scalar": "the same, scalar",
    "fastload_coefficients": "fastload, stored coefficients",
    "fastload_pixels": "fastload, stored pixels",
}
TITLES = {"train": "training", "eval": "evaluation"}


def draw_chart(record: Record, path: Path) -> None:
    """Writes the PNG: medians as bars, minimum to maximum as whiskers."""
    scenarios = list(dict.fromkeys((timing["row"], timing["workers"]) for timing in record["timings"]))
    if not scenarios:
        raise ValueError("the record has no timings to draw")
    figure, grid = plt.subplots(
        len(scenarios), len(PANELS), figsize=(6 * len(PANELS), 0.8 + 3.0 * len(scenarios)), squeeze=False
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


def draw_brief_chart(record: Record, path: Path) -> None:
    """Writes the PNG: images/s of one worker, medians as bars, minimum to maximum as whiskers.

    It shows only the kernel table that fastload chooses.
    """
    left_out = FASTLOADS[1:]
    timings = [one for one in record["timings"] if one["workers"] == 1 and one["contender"] not in left_out]
    rows = list(dict.fromkeys(timing["row"] for timing in timings))
    if not rows:
        raise ValueError("the record has no timings with one worker to draw")
    most = max(sum(timing["row"] == row for timing in timings) for row in rows)
    figure, (grid,) = plt.subplots(1, len(rows), figsize=(5.5 * len(rows), 0.8 + 0.34 * most), squeeze=False)
    measure, label = PANELS[0]
    for axes, row in zip(grid, rows, strict=True):
        _draw_bars(axes, [timing for timing in timings if timing["row"] == row], measure, label)
        axes.set_title(TITLES.get(row, row))
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_bars(axes: Axes, timings: Sequence[Record], measure: str, label: str) -> None:
    order = [*LABELS, *(timing["contender"] for timing in timings)]
    timings = sorted(
        (timing for timing in timings if measure in timing["summary"]), key=lambda one: order.index(one["contender"])
    )
    if not timings:
        axes.set_axis_off()
        return
    names = [str(LABELS.get(timing["contender"], timing["contender"])) for timing in timings]
    summaries = [timing["summary"][measure] for timing in timings]
    medians = [summary["median"] for summary in summaries]
    below = [summary["median"] - summary["min"] for summary in summaries]
    above = [summary["max"] - summary["median"] for summary in summaries]
    colors = ["tab:red" if timing["contender"] in OURS else "tab:gray" for timing in timings]
    bars = axes.barh(names, medians, xerr=[below, above], color=colors, capsize=3)
    axes.bar_label(bars, fmt="%.0f" if max(medians) >= 1000 else "%.4g", padding=4)
    axes.margins(x=0.26)
    axes.invert_yaxis()
    axes.set_xlabel(label)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chart", description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--brief", action="store_true", help="images/s with one worker alone")
    parser.add_argument("-o", "--output", type=Path, help="default: the results' name with .png")
    options = parser.parse_args(arguments)
    output = options.output or options.results.with_suffix(".png")
    draw = draw_brief_chart if options.brief else draw_chart
    draw(json.loads(options.results.read_text()), output)
    print(f"written: {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
