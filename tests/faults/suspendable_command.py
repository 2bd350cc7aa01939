"""A real `lakesmith` command in its own process, which is suspended at given places and can be resumed."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.attach import Jvm
from tests.faults.forks import FORKS

SHORT = 1.0
"""The seconds that a lease of such a process is valid after a renewal."""

PATIENCE = 200.0
"""The maximum seconds until a command reaches a place."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A place where a process is suspended when it first reaches it."""

    place: str
    """A failpoint, or `facts.read`: the process has read the table, and has written nothing."""
    table: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    exit_code: int
    report: dict[str, Any]

    @property
    def codes(self) -> dict[str, str]:
        """By table, the code of its error."""
        return {error["table"]: error["code"] for error in self.report["errors"]}

    @property
    def hints(self) -> list[str]:
        return [error["hint"] for error in self.report["errors"]]


class SuspendableCommand:
    """A started command that may be suspended."""

    def __init__(self, lake: Path, *words: str, said: Path, stops: Sequence[Stop] = (), jvm: Jvm | None = None) -> None:
        self._said = said
        self._process = FORKS.Process(target=_run_command, args=(["-C", str(lake), *words], str(said), stops, jvm))
        self._process.start()

    def wait_until_suspended(self) -> None:
        """Wait until the command is suspended."""
        until = time.monotonic() + PATIENCE
        while self._state() != "T":
            assert self._process.is_alive(), self._progress()
            assert time.monotonic() < until, f"it did not reach its place: {self._progress()}"
            time.sleep(0.02)

    def resume(self) -> None:
        """Resume the command and its Spark."""
        assert self._process.pid is not None
        os.killpg(self._process.pid, signal.SIGCONT)

    def ended(self) -> Ended:
        """Wait until the command ends."""
        self._process.join(PATIENCE)
        progress = self._progress()
        assert self._process.exitcode is not None, progress
        assert "Traceback" not in progress, progress
        return Ended(self._process.exitcode, json.loads(self._said.read_text()))

    def kill(self) -> None:
        """Kill the command."""
        if self._process.is_alive() and self._process.pid is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()

    def _progress(self) -> str:
        return Path(f"{self._said}.progress").read_text()

    def _state(self) -> str:
        with suppress(FileNotFoundError, ProcessLookupError):
            return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "X"


def _run_command(words: list[str], said: str, stops: Sequence[Stop], jvm: Jvm | None) -> None:
    """Run the command in this process with a short lease, and suspend it at its places."""
    os.setsid()
    for number, name in ((1, said), (2, f"{said}.progress")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    from lakesmith import failpoints
    from lakesmith.cli import app
    from lakesmith.ledger import lease
    from lakesmith.run import execute
    from lakesmith.run.table_state import TableState
    from lakesmith.spark import batch_counts

    left = {(stop.place, stop.table) for stop in stops}

    def reached(place: str, about: str) -> None:
        if (place, about) in left:
            left.discard((place, about))
            os.killpg(0, signal.SIGSTOP)

    if any(stop.place == "batch.staged" for stop in stops):
        batch_counts.FEW_ROWS = -1  # the driver stages nothing
    lease.LEASE_SECONDS = SHORT
    failpoints.watch(reached)
    real = TableState.new_batch

    def new_batch(self: TableState, *rest: Any, **named: Any) -> Any:
        reached("facts.read", str(self.table.name))
        return real(self, *rest, **named)

    setattr(TableState, "new_batch", new_batch)  # noqa: B010 - mypy rejects an assignment to a method
    if jvm is not None:
        session = jvm.attach()
        vars(execute).update(open_session=lambda *_, **__: session, close_session=lambda _: None)
    sys.argv = ["lakesmith"]
    app.main(args=[*words, "--json"], prog_name="lakesmith")
