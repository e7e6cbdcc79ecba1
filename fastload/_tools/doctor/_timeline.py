"""The times at which batches were asked for, ready and handed over, and a picture of them."""

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
    """The times of a batch, in seconds since the call of iter().

    Attributes:
        asked: When workers were given its indices, to 2 ms; None if unknown (worker processes).
        ready: When it was finished, to 2 ms; None if unknown.
        wanted: When next() was called for it.
        given: When next() returned it.
    """

    asked: float | None
    ready: float | None
    wanted: float
    given: float

    @property
    def wait(self) -> float:
        """The time that next() took."""
        return self.given - self.wanted


@dataclass(frozen=True)
class Timeline:
    """The times of the first batches of an epoch.

    Attributes:
        batches: The times of each batch, in order.
    """

    batches: tuple[TimelineBatch, ...]

    @property
    def stalls(self) -> tuple[int, ...]:
        """The numbers of the batches with a wait of at least a tenth of the mean time between two batches."""
        enough = _STALL_SHARE * self.batches[-1].given / len(self.batches)
        return tuple(number for number, batch in enumerate(self.batches) if batch.wait >= enough)

    def write(self, path: Path, title: str, details: str = "") -> None:
        """Draws it to a PNG file or an HTML page, depending on the suffix.

        Args:
            path: Path that ends in .png or .html.
            title: Title above the picture.
            details: HTML below the picture in a page.

        Raises:
            ValueError: `path` has another suffix.
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
    """Takes the first batches of an epoch.

    Args:
        loader: A loader that was not used yet; its workers are ended.
        count: Number of batches at most.
        seconds: Duration at most.
        step_seconds: Pause after each batch.

    Raises:
        ValueError: The loader gives no batch.
        Exception: Any exception that the loader raises.
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
    """A context in which a thread watches how many batches were asked for and finished."""

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
        """Returns the times of a batch, which was asked for and ready before it was delivered, even if seen later."""
        if CurrentLoader(self._loader).settings.workers == "processes" or self._loader.num_workers == 0:
            return TimelineBatch(None, None, wanted, given)
        ready = min([given, *self._ready[number : number + 1]])
        return TimelineBatch(min([ready, *self._asked[number : number + 1]]), ready, wanted, given)
