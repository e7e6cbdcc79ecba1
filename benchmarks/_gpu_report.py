"""Turns timings on a GPU into the record that is written as JSON, and the record into tables and goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

from tabulate import tabulate

from benchmarks._gpu_training import RESIDENT, GpuFindings
from benchmarks._gpu_turns import Turn
from benchmarks._report import Record, summarise

COPY_GOAL = 0.95
IDLE_GOAL = 0.02
_SHARES = ("idle_share", "device_wait_share", "host_wait_share")


def make_record(found: GpuFindings, environment: Record) -> Record:
    """Returns the run as JSON can hold it; `environment` is kept as it is."""
    alone = {name: {"rounds": _rounds(turns), **_speed(turns)} for name, turns in found.alone.items()}
    return {
        **environment,
        "compared_images": found.compared_images,
        "copies": {
            "batch_bytes": found.batch_bytes,
            "rounds": found.copies,
            "gigabytes_per_second": {kind: summarise(rounds) for kind, rounds in found.copies.items()},
            "share_of_plain": median_ratio(found.copies["staged"], found.copies["plain"]),
        },
        "alone": alone,
        "training": {model: _training_record(turns) for model, turns in found.training.items()},
    }


def median_ratio(values: Sequence[float], others: Sequence[float]) -> float:
    """Returns the median of the rounds' ratios: a disturbance of a round disturbs both loaders."""
    return median(value / other for value, other in zip(values, others, strict=True))


def idle_shares(turns: Sequence[Turn], resident: Sequence[Turn]) -> list[float]:
    """Returns for each round the share of a step in which the device idled: 1 - ceiling / measured."""
    return [
        max(0.0, 1 - turn.images_per_second / ceiling.images_per_second)
        for turn, ceiling in zip(turns, resident, strict=True)
    ]


def _training_record(turns: Mapping[str, Sequence[Turn]]) -> Record:
    resident = turns[RESIDENT]
    return {
        name: {
            "rounds": _rounds(rounds),
            **_speed(rounds),
            "idle_share": summarise(idle_shares(rounds, resident)),
            "device_wait_share": summarise([turn.device_wait_share for turn in rounds]),
            "host_wait_share": summarise([turn.host_wait_share for turn in rounds]),
            "ratio_to_torch": median_ratio(
                [turn.images_per_second for turn in rounds], [turn.images_per_second for turn in turns["torch"]]
            ),
        }
        for name, rounds in turns.items()
    }


def _rounds(turns: Sequence[Turn]) -> list[Record]:
    return [asdict(turn) for turn in turns]


def _speed(turns: Sequence[Turn]) -> Record:
    return {"images_per_second": summarise([turn.images_per_second for turn in turns])}


# ---- for people ------------------------------------------------------------------------------------------------------


def format_page(record: Record) -> str:
    """Returns the table of docs/device.md: each loader alone, training with them, and training on a resident batch."""
    speeds = {name: found["images_per_second"]["median"] for name, found in record["alone"].items()}
    lines = [
        ("no model" if name == "torch" else "", name, f"{speed:.0f}", f"{speed / speeds['torch']:.2f}x", "")
        for name, speed in speeds.items()
    ]
    for model, loaders in record["training"].items():
        for name in ("torch", "fastload", RESIDENT):
            found = loaders[name]
            idle = _percent(found["idle_share"]["median"]) if name != RESIDENT else ""
            speed = f"{found['images_per_second']['median']:.0f}"
            lines.append((model if name == "torch" else "", name, speed, f"{found['ratio_to_torch']:.2f}x", idle))
    headers = ("", "batches from", "images/s", "torch's", "GPU idle")
    return str(tabulate(lines, headers=headers, tablefmt="pipe", disable_numparse=True))


def format_tables(record: Record) -> str:
    """Returns copies, loading alone, training, goals."""
    compared = f"{record['compared_images']} images of both loaders compared: equal, byte for byte"
    return "\n\n".join([compared, _format_copies(record), _format_training(record), "\n".join(goals(record))])


def _format_copies(record: Record) -> str:
    copies = record["copies"]
    rows = [
        (kind, f"{copies['batch_bytes'] / 1e6:.1f}", _spread(speed, "{:.2f}"))
        for kind, speed in copies["gigabytes_per_second"].items()
    ]
    return str(tabulate(rows, headers=("copies to the device", "MB/batch", "GB/s"), disable_numparse=True))


def _format_training(record: Record) -> str:
    rows = [
        ("no model", name, _spread(found["images_per_second"], "{:.0f}"), "", "", "", "")
        for name, found in record["alone"].items()
    ]
    for model, loaders in record["training"].items():
        for name, found in loaders.items():
            rows.append(
                (
                    model,
                    name,
                    _spread(found["images_per_second"], "{:.0f}"),
                    f"{found['ratio_to_torch']:.2f}x",
                    *(_percent(found[share]["median"]) for share in _SHARES),
                )
            )
    headers = ("model", "loader", "images/s", "torch's", "GPU idle", "GPU waits for batch", "host waits in next()")
    return str(tabulate(rows, headers=headers, disable_numparse=True))


def goals(record: Record) -> list[str]:
    """Returns a line for each goal: the figure, the goal, whether it is met, or why it does not apply."""
    share = record["copies"]["share_of_plain"]
    lines = [_goal("copies", f"{_percent(share)} of the plain copy", f"{COPY_GOAL:.0%} or more", share >= COPY_GOAL)]
    supply = record["alone"]["fastload"]["images_per_second"]["median"]
    for model, loaders in record["training"].items():
        ours, ceiling = loaders["fastload"], loaders[RESIDENT]["images_per_second"]["median"]
        idle = ours["idle_share"]["median"]
        can = supply >= ceiling
        host = f"the host {'can' if can else 'cannot'} supply it: {supply:.0f} images/s alone, the model {ceiling:.0f}"
        goal = f"less than {IDLE_GOAL:.0%} where the host can supply"
        lines.append(_goal(f"{model}, idle", f"{_percent(idle)}; {host}", goal, idle < IDLE_GOAL if can else None))
        ratio = ours["ratio_to_torch"]
        lines.append(_goal(f"{model}, speed", f"{ratio:.2f}x torch's loader", "1.00x or more", ratio >= 1))
    return lines


def _goal(what: str, figure: str, goal: str, is_met: bool | None) -> str:
    verdict = {True: "met", False: "MISSED", None: "does not apply"}[is_met]
    return f"{what}: {figure} (goal: {goal}): {verdict}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _spread(summary: Mapping[str, float], pattern: str) -> str:
    low, high = (pattern.format(summary[name]) for name in ("min", "max"))
    return f"{pattern.format(summary['median'])} ({low} to {high})"
