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
from benchmarks._rows import Row
from benchmarks.contenders import CACHES, DECODE_FASTLOADS, FASTLOADS, OURS, reference_of

SCHEMA_VERSION = 2

PEERS = ("dali", "ffcv")
"""Loaders of other makers; the faster of them is the one to compare with."""

Record = dict[str, Any]


def make_record(plan: Plan, found: Measurements, environment: Record) -> Record:
    """Returns the whole run as JSON can hold it: settings, environment, every single round, and their summaries.

    Args:
        environment: the caller's data on time, command, machine and images; kept as it is.
    """
    timings = [_timing_record(timing, found.timings, plan) for timing in found.timings]
    return {
        "schema_version": SCHEMA_VERSION,
        **environment,
        "rows": {row.name: _row_record(row) for row in plan.rows},
        "contenders": {name: _contender_record(name, found) for name in plan.contenders},
        "comparisons": [asdict(comparison) for comparison in found.comparisons],
        "timings": timings,
        "against": _against_others(timings),
        "memory": [
            {"contender": row.contender, "workers": row.workers, **_memory_record(row.figures)} for row in found.memory
        ],
    }


def write_record(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n")


def format_tables(record: Record) -> str:
    """Returns the record for people: missing contenders, comparisons, a table per row, memory, stages, the summary."""
    parts = [_format_environment(record), _format_rows(record), _format_contenders(record), _format_comparisons(record)]
    parts += [_format_row(record, row, workers) for row, workers in _scenarios(record)]
    parts += [_format_options(record), _format_memory(record), _format_stages(record)]
    parts += [_format_against(record, FASTLOADS + CACHES), _format_against(record, DECODE_FASTLOADS)]
    return "\n\n".join(part for part in parts if part)


def _row_record(row: Row) -> Record:
    settings = asdict(row.settings)
    local_or_per_timing = ("data", "cache", "workers")
    kept = {name: value for name, value in settings.items() if name not in local_or_per_timing}
    return {**kept, "workers": list(row.workers), "repeats": row.repeats}


def _contender_record(name: str, found: Measurements) -> Record:
    hello = found.hellos.get(name)
    return {
        "unavailable": found.unavailable.get(name),
        "failed": found.failed.get(name, {}),
        "promises_equal_bytes": hello.promises_equal_bytes if hello else None,
        "versions": hello.versions if hello else {},
        "details": hello.details if hello else {},
    }


def _timing_record(timing: Timing, all_timings: Sequence[Timing], plan: Plan) -> Record:
    speeds = [timed.images_per_second for timed in timing.rounds]
    mode = next(row.settings.mode for row in plan.rows if row.name == timing.row)
    reference = next(
        other
        for other in all_timings
        if (other.contender, other.row, other.workers) == (reference_of(mode), timing.row, timing.workers)
    )
    summary = {
        "images_per_second": summarise(speeds),
        "ratio_to_reference": statistics.median(speeds)
        / statistics.median(timed.images_per_second for timed in reference.rounds),
        "cpu_ms_per_image": summarise([timed.cpu_ms_per_image for timed in timing.rounds]),
        "warm_first_batch_seconds": summarise([timed.first_batch_seconds for timed in timing.rounds]),
    }
    if timing.fresh_first_batch_seconds:
        summary["fresh_first_batch_seconds"] = summarise(timing.fresh_first_batch_seconds)
    return {**asdict(timing), "summary": summary}


def _against_others(timings: Sequence[Record]) -> list[Record]:
    """Returns how many times as fast as each other contender, and as itself with one worker, each of ours is.

    "ratios" compare median images per second; "cpu_ratios" compare median CPU time, which other work on the machine
    disturbs less.
    """
    by_key = {_key(timing): timing["summary"] for timing in timings}
    against = []
    for (row, workers, name), ours in by_key.items():
        if name in OURS:
            rivals = {
                rival: theirs
                for (other_row, other_workers, rival), theirs in by_key.items()
                if (other_row, other_workers) == (row, workers) and rival != name
            }
            alone = by_key.get((row, 1, name)) if workers > 1 else None
            against.append(
                {
                    "row": row,
                    "workers": workers,
                    "contender": name,
                    "ratios": {rival: _speed_ratio(ours, theirs) for rival, theirs in rivals.items()},
                    "cpu_ratios": {rival: _cpu_ratio(ours, theirs) for rival, theirs in rivals.items()},
                    "ratio_to_one_worker": None if alone is None else _speed_ratio(ours, alone),
                }
            )
    return against


def _speed_ratio(ours: Record, theirs: Record) -> float:
    return float(ours["images_per_second"]["median"] / theirs["images_per_second"]["median"])


def _cpu_ratio(ours: Record, theirs: Record) -> float:
    return float(theirs["cpu_ms_per_image"]["median"] / ours["cpu_ms_per_image"]["median"])


def _key(timing: Record) -> tuple[str, int, str]:
    return timing["row"], timing["workers"], timing["contender"]


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Returns median and spread of at least one value, in the values' unit."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def _memory_record(figures: Memory) -> Record:
    return {
        **asdict(figures),
        "total_bytes": figures.total_bytes,
        "added_bytes": figures.total_bytes - figures.idle_pss_bytes,
    }


def _scenarios(record: Record) -> list[tuple[str, int]]:
    return list(dict.fromkeys((timing["row"], timing["workers"]) for timing in record["timings"]))


def _format_environment(record: Record) -> str:
    rows = [*record.get("machine", {}).items(), *record.get("data", {}).items()]
    return str(tabulate(rows, headers=("machine and data", "value"), disable_numparse=True))


def _format_rows(record: Record) -> str:
    names = ("mode", "output", "batch_size", "image_count", "workers", "repeats", "prefetch_factor", "seed")
    rows = [(row, *(settings[name] for name in names)) for row, settings in record["rows"].items()]
    return str(tabulate(rows, headers=("row", *names), disable_numparse=True))


def _format_contenders(record: Record) -> str:
    rows = []
    for name, contender in record["contenders"].items():
        state = "measured"
        if contender["unavailable"]:
            state = f"not available: {contender['unavailable']}"
        elif contender["failed"]:
            first_lines = {row: reason.splitlines()[0] for row, reason in contender["failed"].items()}
            state = "; ".join(f"failed in {row}: {line}" for row, line in first_lines.items())
        known = {**contender["versions"], **contender["details"]}
        about = ", ".join(f"{package} {version}" for package, version in known.items() if version != "none")
        rows.append((name, state, about))
    widths = [None, 60, 70]
    return str(tabulate(rows, headers=("contender", "state", "versions"), maxcolwidths=widths))


def _format_comparisons(record: Record) -> str:
    rows = []
    for comparison in record["comparisons"]:
        sources = ", ".join(f"{count} {kind}" for kind, count in (comparison["sources"] or {}).items())
        rows.append(
            (
                comparison["row"],
                comparison["contender"],
                comparison["image_count"],
                {True: "yes", False: "no", None: "-"}[comparison["is_equal"]],
                _number(comparison["mean_abs_levels"], "{:.3g}"),
                _number(comparison["max_abs_levels"], "{:.3g}"),
                _number(comparison["psnr_db"], "{:.1f}"),
                comparison["method"],
                sources,
            )
        )
    headers = ("compared", "contender", "images", "exact", "mean abs diff", "max", "PSNR dB", "how", "loaded")
    table = tabulate(rows, headers=headers, maxcolwidths=[None] * 7 + [40, 30], disable_numparse=True)
    return f"{table}\nDifferences are in levels of 8 bits (0 to 255), normalisation undone." if rows else ""


def _format_row(record: Record, row: str, workers: int) -> str:
    timings = [timing for timing in record["timings"] if (timing["row"], timing["workers"]) == (row, workers)]
    rows = []
    for timing in timings:
        summary = timing["summary"]
        rows.append(
            (
                timing["contender"],
                _exactness(record, timing),
                _spread(summary["images_per_second"], "{:.1f}"),
                f"{summary['ratio_to_reference']:.2f}x",
                _spread(summary["cpu_ms_per_image"], "{:.2f}"),
                _spread(summary.get("fresh_first_batch_seconds"), "{:.2f}"),
                _spread(summary["warm_first_batch_seconds"], "{:.2f}"),
            )
        )
    headers = ("contender", "exact", "images/s", "ratio", "CPU ms/image", "first batch s (fresh)", "(warm)")
    repeats = record["rows"][row]["repeats"]
    title = f"{row}, {workers} workers, cores {timings[0]['cores']}, {repeats} rounds: median (min to max)"
    return f"{title}\n{tabulate(rows, headers=headers, disable_numparse=True)}"


def _exactness(record: Record, timing: Record) -> str:
    """Returns whether the contender's bytes are the reference's, as far as compared; its promise in training."""
    if timing["contender"] == reference_of(record["rows"][timing["row"]]["mode"]):
        return "reference"
    compared = {(found["row"], found["contender"]): found["is_equal"] for found in record["comparisons"]}
    is_equal = compared.get((timing["row"], timing["contender"]))
    if is_equal is None:
        return "not promised"
    return "yes" if is_equal else "no"


def _format_against(record: Record, ours: Sequence[str]) -> str:
    """Returns one line for each row and each of our contenders: how many times as fast as the others."""
    lines = [line for line in record["against"] if line["contender"] in ours]
    rivals = list(dict.fromkeys(rival for line in lines for rival in line["ratios"] if rival not in ours))
    rows = []
    for line in lines:
        peers = [rival for rival in PEERS if rival in line["ratios"]]
        fastest = min(peers, key=lambda rival: float(line["ratios"][rival]), default=None)
        rows.append(
            (
                line["row"],
                line["workers"],
                line["contender"],
                *(_ratios(line, rival) for rival in rivals),
                f"{_ratios(line, fastest)} {fastest}" if fastest else "-",
                _number(line["ratio_to_one_worker"], "{:.2f}"),
            )
        )
    headers = ("times as fast as", "workers", "", *rivals, "faster of dali, ffcv", "its 1 worker")
    title = "images/s, and CPU time after the stroke"
    return f"{title}\n{tabulate(rows, headers=headers, disable_numparse=True)}" if rows else ""


def _ratios(line: Record, rival: str) -> str:
    if rival not in line["ratios"]:
        return "-"
    return f"{line['ratios'][rival]:.2f} / {line['cpu_ratios'][rival]:.2f}"


def _number(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)


def _format_options(record: Record) -> str:
    """Returns the settings of each loader, once for all rows that have the same."""
    found: dict[tuple[str, str], list[str]] = {}
    for timing in record["timings"]:
        found.setdefault((timing["contender"], _options_line(timing["options"])), []).append(timing["row"])
    rows = [(name, ", ".join(dict.fromkeys(names)), line) for (name, line), names in found.items()]
    return tabulate(rows, headers=("options", "rows", ""), maxcolwidths=[None, 40, 90]) if rows else ""


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
        (timing["contender"], timing["row"], timing["workers"], stage, f"{value:.3f}")
        for timing in record["timings"]
        for stage, value in timing["stage_ms_per_image"].items()
    ]
    headers = ("stages", "row", "workers", "stage", "ms/image")
    return tabulate(rows, headers=headers, disable_numparse=True) if rows else ""


def _spread(summary: dict[str, float] | None, pattern: str) -> str:
    if summary is None:
        return "-"
    median, low, high = (pattern.format(summary[name]) for name in ("median", "min", "max"))
    return f"{median} ({low} to {high})"
