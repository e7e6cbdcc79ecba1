"""When each of some batches was asked for, ready and handed over, and a picture of it."""

from __future__ import annotations

import html
import io
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastload._loader._current import CurrentLoader
from fastload._loader._loader import DataLoader
from fastload._process._started_thread import StartedThread

_LOOK_SECONDS = 0.002
_STALL_SHARE = 0.1


@dataclass(frozen=True)
class TimelineBatch:
    """Times in seconds since the iterator was asked for.

    Attributes:
        asked: When workers were given its indices, to 2 ms; None where nobody knows (worker processes).
        ready: When it was finished, to 2 ms; None where nobody knows.
        wanted: When next() was called for it.
        given: When next() returned it.
    """

    asked: float | None
    ready: float | None
    wanted: float
    given: float

    @property
    def wait(self) -> float:
        """How long next() took."""
        return self.given - self.wanted


@dataclass(frozen=True)
class Timeline:
    """The first batches of an epoch.

    Attributes:
        batches: Their times, in order.
    """

    batches: tuple[TimelineBatch, ...]

    @property
    def stalls(self) -> tuple[int, ...]:
        """Numbers of the batches that the consumer waited for: a tenth of the mean time between two, or longer."""
        enough = _STALL_SHARE * self.batches[-1].given / len(self.batches)
        return tuple(number for number, batch in enumerate(self.batches) if batch.wait >= enough)

    def write(self, path: Path, title: str, details: str = "") -> None:
        """Draws it to a PNG file, or to an HTML page, by the end of the name.

        Args:
            path: Ends in .png or .html.
            title: Stands above the picture.
            details: HTML that stands below it in a page.

        Raises:
            ValueError: `path` ends otherwise.
            ModuleNotFoundError: matplotlib is not installed.
            OSError: The file cannot be written.
        """
        if path.suffix == ".png":
            path.write_bytes(self._drawn(title, "png"))
        elif path.suffix == ".html":
            picture = self._drawn(title, "svg").decode()
            page = f"<!doctype html><meta charset='utf-8'><title>{html.escape(title)}</title>{picture}{details}"
            path.write_text(page)
        else:
            raise ValueError(f"the name of a timeline must end in .png or .html, got {str(path)!r}")

    def _drawn(self, title: str, kind: str) -> bytes:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(10, 1.5 + 0.06 * len(self.batches)), layout="constrained")
        axes = figure.add_subplot()
        axes.set(title=title, xlabel="seconds", ylabel="batch")
        axes.invert_yaxis()
        made = [(number, batch) for number, batch in enumerate(self.batches) if batch.ready is not None]
        for label, colour, spans in (
            ("in work", "tab:blue", [(number, batch.asked, batch.ready) for number, batch in made]),
            ("ready", "tab:green", [(number, batch.ready, batch.wanted) for number, batch in made]),
            (
                "you wait",
                "tab:red",
                [(number, self.batches[number].wanted, self.batches[number].given) for number in self.stalls],
            ),
        ):
            numbers, begins, ends = zip(*spans, strict=True) if spans else ((), (), ())
            widths = [max(0.0, end - begin) for begin, end in zip(begins, ends, strict=True)]
            axes.barh(numbers, widths, left=begins, height=0.9, color=colour, label=label)
        axes.scatter([batch.given for batch in self.batches], range(len(self.batches)), s=3, color="black", zorder=3)
        axes.set_xlim(left=0)
        axes.legend(loc="upper right")
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=120)
        return file.getvalue()


def take_timeline(loader: DataLoader[Any], count: int, seconds: float, step_seconds: float) -> Timeline:
    """Runs the first batches of an epoch.

    Args:
        loader: Has been asked for nothing yet; its workers are ended.
        count: Of batches at most.
        seconds: That it takes at most.
        step_seconds: After each batch.

    Raises:
        ValueError: It gives no batch.
        Exception: What it raises.
    """
    begin = time.perf_counter()
    watch = _Watch(loader, begin)
    times: list[tuple[float, float]] = []
    iterator = iter(loader)
    with watch:
        while len(times) < count and time.perf_counter() - begin < seconds:
            wanted = time.perf_counter() - begin
            try:
                next(iterator)
            except StopIteration:
                break
            times.append((wanted, time.perf_counter() - begin))
            time.sleep(step_seconds)
    del iterator
    loader.close()
    if not times:
        raise ValueError(f"the loader gives no batch, so there is nothing to measure: {loader!r}")
    batches = tuple(watch.of(number, wanted, given) for number, (wanted, given) in enumerate(times))
    return Timeline(batches)


class _Watch:
    """A context in which a thread looks how many batches were asked for and finished."""

    def __init__(self, loader: DataLoader[Any], begin: float) -> None:
        self._loader = loader
        self._begin = begin
        self._asked: list[float] = []
        self._ready: list[float] = []
        self._has_ended = threading.Event()
        self._thread = StartedThread(target=self._run, name="fastload timeline", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._has_ended.wait(_LOOK_SECONDS):
            stats = self._loader.stats()
            now = time.perf_counter() - self._begin
            for times, count in ((self._asked, stats.batches_in_flight), (self._ready, stats.queue_depth)):
                times += [now] * (stats.batches_delivered + count - len(times))

    def of(self, number: int, wanted: float, given: float) -> TimelineBatch:
        """What was seen of a batch. What is delivered was asked for and ready; seen later, it was not later."""
        if CurrentLoader(self._loader).settings.workers == "processes" or self._loader.num_workers == 0:
            return TimelineBatch(None, None, wanted, given)
        ready = min([given, *self._ready[number : number + 1]])
        return TimelineBatch(min([ready, *self._asked[number : number + 1]]), ready, wanted, given)
