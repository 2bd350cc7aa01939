"""Shows the progress of a run: a live table on a terminal, one line for each event elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self, TextIO, assert_never

from lakesmith.cli.formatting import duration, plural
from lakesmith.cli.output import Cell, Grid, PlainPage, Styled, TerminalPage, is_terminal, terminal_console
from lakesmith.cli.steps import NUMBERS, TITLES, step_cells
from lakesmith.records import StepRecord
from lakesmith.reports import Event, SparkStarting, StepStarted

if TYPE_CHECKING:
    import rich.console
    import rich.live


def progress(*, quiet_stdout: bool) -> LiveProgress | LineProgress:
    """A context that shows events from any thread: a live table, or lines. On stderr when stdout is for JSON."""
    stream = sys.stderr if quiet_stdout else sys.stdout
    return LiveProgress(terminal_console(stream)) if is_terminal(stream) else LineProgress(stream)


class LineProgress:
    """Prints one plain line for each event."""

    def __init__(self, stream: TextIO) -> None:
        self._page = PlainPage(stream)
        self._stream = stream
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stream.flush()

    def __call__(self, event: Event) -> None:
        with self._lock:
            self._page.line(event_line(event))
            self._stream.flush()


def event_line(event: Event) -> str:
    match event:
        case SparkStarting():
            return "starting Spark…"
        case StepStarted():
            return f"{event.table}: {event.step} ({event.reason})"
        case StepRecord():
            counts = [plural(event.rows_in, "row") + " in", f"{event.rows_written:,} written"]
            if event.rows_quarantined:
                counts.append(f"{event.rows_quarantined:,} quarantined")
            if event.rows_deduplicated:
                counts.append(f"{event.rows_deduplicated:,} deduplicated")
            result = ", ".join(counts) if event.outcome == "ok" else event.error or event.reason
            return f"{event.table}: {event.step} {event.outcome} in {duration(event.seconds)}: {result}"
        case _:
            assert_never(event)


class LiveProgress:
    """Redraws a table of the steps while they run, and removes it at the end."""

    def __init__(self, console: rich.console.Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._live: rich.live.Live | None = None
        self._started_at = time.monotonic()
        self._spark_starting = False
        self._running: dict[str, tuple[StepStarted, float]] = {}
        self._done: list[StepRecord] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case SparkStarting():
                    self._spark_starting = True
                case StepStarted():
                    self._running[event.table] = (event, time.monotonic())
                case StepRecord():
                    self._running.pop(event.table, None)
                    self._done.append(event)
                    self._spark_starting = False
                case _:
                    assert_never(event)
        self._start()

    def _start(self) -> None:
        # A run with nothing to do has no event and draws nothing.
        if self._live is None:
            from rich.live import Live

            self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=8, transient=True)
            self._live.start()

    def _render(self) -> rich.console.RenderableType:
        from rich.console import Group
        from rich.spinner import Spinner

        with self._lock:
            now = time.monotonic()
            rows = [step_cells(step) for step in self._done]
            rows += [_running_cells(started, now - since) for started, since in self._running.values()]
            activity = "starting Spark…" if self._spark_starting else "running"
            spinner = Spinner("dots", TerminalPage.text(f"{activity} {duration(now - self._started_at)}"))
            spinner.start_time = 0.0
        grid = Grid(titles=TITLES, rows=tuple(rows), right=NUMBERS)
        return Group(TerminalPage.table(grid), spinner) if rows else spinner


def _running_cells(started: StepStarted, seconds: float) -> tuple[Cell, ...]:
    unknown = (Styled("…", "quiet"),) * 5
    return (started.table, started.step, Styled("running", "strong"), *unknown, duration(seconds))
