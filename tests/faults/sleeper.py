"""A real `lakesmith` command in a process of its own, which falls asleep where it is told to and can be woken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.attach import Jvm

SHORT = 1.0
"""How many seconds a lease of such a process outlives its last sign of life."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a process falls asleep, the first time that it comes there."""

    place: str
    """A failpoint, or `facts.read`: the table was looked at, and nothing is written down."""
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


class Sleeper:
    """A command that was started and may be asleep."""

    def __init__(self, lake: Path, *words: str, stops: Sequence[Stop] = (), jvm: Jvm | None = None) -> None:
        order = {"stops": [asdict(stop) for stop in stops], "jvm": asdict(jvm) if jvm else None}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.sleeper", json.dumps(order), "-C", str(lake), *words, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def asleep(self) -> None:
        """Wait until it has fallen asleep."""
        found = os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        assert found.si_code == os.CLD_STOPPED, self._process.communicate()

    def wake(self) -> None:
        """Let it go on, and its Spark with it."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def ended(self) -> Ended:
        """Wait for its end."""
        out, said = self._process.communicate(timeout=200)
        assert "Traceback" not in said, said
        return Ended(self._process.returncode, json.loads(out))

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()


def main() -> None:
    """Be the command, with a short lease, and fall asleep where it was said."""
    order = json.loads(sys.argv.pop(1))
    from lakesmith import failpoints
    from lakesmith.cli import app
    from lakesmith.ledger import lease
    from lakesmith.run import execute
    from lakesmith.run.step import Workplace

    stops = {(stop["place"], stop["table"]) for stop in order["stops"]}

    def reached(place: str, about: str) -> None:
        if (place, about) in stops:
            stops.discard((place, about))
            os.killpg(0, signal.SIGSTOP)

    lease.SECONDS = SHORT
    failpoints.watch(reached)
    real = Workplace._batch

    def batch(self: Workplace, table: Any, *rest: Any, **named: Any) -> Any:
        reached("facts.read", str(table.name))
        return real(self, table, *rest, **named)

    setattr(Workplace, "_batch", batch)  # noqa: B010 - mypy would not have it otherwise
    if order["jvm"]:
        session = Jvm(**order["jvm"]).attach()
        vars(execute).update(open_session=lambda *_, **__: session, close_session=lambda _: None)
    app.main(prog_name="lakesmith")


if __name__ == "__main__":
    main()
