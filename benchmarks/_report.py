"""Turns measurements into the record that is written as JSON, and the record into tables."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks._harness import Measurements, Plan, Timing
from benchmarks._protocol import Memory
from benchmarks.contenders import REFERENCE

SCHEMA_VERSION = 1

Record = dict[str, Any]


def make_record(plan: Plan, found: Measurements, environment: Record) -> Record:
    """The whole run as JSON can hold it: settings, environment, every single round, and the summaries made of them.

    Args:
        environment: what the caller knows of time, command, machine and data; kept as it is.
    """
    per_scenario_or_local = ("mode", "workers", "data", "cache")
    settings = {name: value for name, value in asdict(plan.settings).items() if name not in per_scenario_or_local}
    return {
        "schema_version": SCHEMA_VERSION,
        **environment,
        "settings": {**settings, "repeats": plan.repeats},
        "contenders": {name: _contender_record(name, found) for name in plan.contenders},
        "comparisons": [asdict(comparison) for comparison in found.comparisons],
        "timings": [_timing_record(timing, found.timings) for timing in found.timings],
        "memory": [
            {"contender": row.contender, "workers": row.workers, **_memory_record(row.figures)} for row in found.memory
        ],
    }


def write_record(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def format_tables(record: Record) -> str:
    """The record for people: what could not run, what was compared, a table per scenario, memory, stages."""
    parts = [_format_environment(record), _format_contenders(record), _format_comparisons(record)]
    for mode, workers in _scenarios(record):
        parts.append(_format_scenario(record, mode, workers))
    parts += [_format_memory(record), _format_stages(record)]
    return "\n\n".join(part for part in parts if part)


def _contender_record(name: str, found: Measurements) -> Record:
    hello = found.hellos.get(name)
    return {
        "unavailable": found.unavailable.get(name),
        "failed": found.failed.get(name),
        "versions": hello.versions if hello else {},
        "details": hello.details if hello else {},
    }


def _timing_record(timing: Timing, all_timings: Sequence[Timing]) -> Record:
    speeds = [timed.images_per_second for timed in timing.rounds]
    first_batches = timing.fresh_first_batch_seconds
    reference = next(
        other
        for other in all_timings
        if (other.contender, other.mode, other.workers) == (REFERENCE, timing.mode, timing.workers)
    )
    return {
        **asdict(timing),
        "summary": {
            "images_per_second": summarise(speeds),
            "ratio_to_torch_pil": statistics.median(speeds)
            / statistics.median(timed.images_per_second for timed in reference.rounds),
            "cpu_ms_per_image": summarise([timed.cpu_ms_per_image for timed in timing.rounds]),
            "fresh_first_batch_seconds": summarise(first_batches),
            "warm_first_batch_seconds": summarise([timed.first_batch_seconds for timed in timing.rounds]),
        },
    }


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Median and spread of at least one value, in the values' unit."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def _memory_record(figures: Memory) -> Record:
    return {
        **asdict(figures),
        "total_bytes": figures.total_bytes,
        "added_bytes": figures.total_bytes - figures.idle_pss_bytes,
    }


def _scenarios(record: Record) -> list[tuple[str, int]]:
    return list(dict.fromkeys((timing["mode"], timing["workers"]) for timing in record["timings"]))


def _format_environment(record: Record) -> str:
    rows = [(name, value) for name, value in record.get("machine", {}).items()]
    rows += [(name, value) for name, value in record["settings"].items()]
    if "data" in record:
        rows.append(("data", record["data"]))
    return str(tabulate(rows, headers=("setting", "value"), disable_numparse=True))


def _format_contenders(record: Record) -> str:
    rows = []
    for name, contender in record["contenders"].items():
        state = "measured"
        if contender["unavailable"]:
            state = f"not available: {contender['unavailable']}"
        elif contender["failed"]:
            state = f"failed: {contender['failed'].splitlines()[0]}"
        known = {**contender["versions"], **contender["details"]}
        about = ", ".join(f"{package} {version}" for package, version in known.items() if version != "none")
        rows.append((name, state, about))
    widths = [None, 60, 70]
    return str(tabulate(rows, headers=("contender", "state", "versions"), maxcolwidths=widths))


def _format_comparisons(record: Record) -> str:
    rows = []
    for comparison in record["comparisons"]:
        verdict = {True: "equal", False: "differs", None: "-"}[comparison["is_equal"]]
        largest = comparison["max_abs_difference"]
        sources = ", ".join(f"{count} {kind}" for kind, count in (comparison["sources"] or {}).items())
        rows.append(
            (
                comparison["contender"],
                comparison["mode"],
                comparison["image_count"],
                verdict,
                "-" if largest is None else f"{largest:.4g}",
                "-" if largest is None else f"{comparison['mean_abs_difference']:.4g}",
                comparison["method"],
                sources,
            )
        )
    headers = ("compared", "mode", "images", "bytes", "max abs diff", "mean", "how", "loaded")
    return tabulate(rows, headers=headers, maxcolwidths=[None] * 6 + [40, 30]) if rows else ""


def _format_scenario(record: Record, mode: str, workers: int) -> str:
    rows = []
    timings = [timing for timing in record["timings"] if (timing["mode"], timing["workers"]) == (mode, workers)]
    for timing in timings:
        summary = timing["summary"]
        rows.append(
            (
                timing["contender"],
                _spread(summary["images_per_second"], "{:.1f}"),
                f"{summary['ratio_to_torch_pil']:.2f}x",
                _spread(summary["cpu_ms_per_image"], "{:.2f}"),
                _spread(summary["fresh_first_batch_seconds"], "{:.2f}"),
                _spread(summary["warm_first_batch_seconds"], "{:.2f}"),
            )
        )
    headers = ("contender", "images/s", "ratio", "CPU ms/image", "first batch s (fresh)", "first batch s (warm)")
    repeats = record["settings"]["repeats"]
    title = f"{mode}, {workers} workers, cores {timings[0]['cores']}, {repeats} rounds: median (min to max)"
    options = [(timing["contender"], _options_line(timing["options"])) for timing in timings]
    return f"{title}\n{tabulate(rows, headers=headers, disable_numparse=True)}\n{tabulate(options, tablefmt='plain')}"


def _options_line(options: Record) -> str:
    return ", ".join(f"{name}={value}" for name, value in options.items() if "\n" not in str(value))


def _format_memory(record: Record) -> str:
    rows = [
        (
            row["contender"],
            row["workers"],
            f"{row['total_bytes'] / 2**20:.0f}",
            f"{row['added_bytes'] / 2**20:.0f}",
            f"{row['pss_bytes'] / 2**20:.0f}",
            f"{row['unmapped_shared_bytes'] / 2**20:.0f}",
            row["process_count"],
        )
        for row in record["memory"]
    ]
    headers = ("memory, train", "workers", "MiB, queue full", "added by loader", "PSS", "in /dev/shm", "processes")
    return tabulate(rows, headers=headers) if rows else ""


def _format_stages(record: Record) -> str:
    rows = [
        (timing["contender"], timing["mode"], timing["workers"], stage, f"{value:.3f}")
        for timing in record["timings"]
        for stage, value in timing["stage_ms_per_image"].items()
    ]
    headers = ("stages", "mode", "workers", "stage", "ms/image")
    return tabulate(rows, headers=headers, disable_numparse=True) if rows else ""


def _spread(summary: dict[str, float], pattern: str) -> str:
    median, low, high = (pattern.format(summary[name]) for name in ("median", "min", "max"))
    return f"{median} ({low} to {high})"
