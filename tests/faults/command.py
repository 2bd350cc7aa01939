"""Runs `lakesmith run` in its own process with its own Spark, and kills its JVM at a failpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.lake_process import Answer, Order, prepare

CLOSING = "session.closing"
"""The moment before a run stops Spark. It is no failpoint of the product, because nothing becomes durable there."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the command ended."""

    code: int
    answer: Answer
    errors: str
    """What it wrote to standard error."""

    @property
    def broken(self) -> list[str]:
        """Return what users must never see: the exit code of a bug, or a traceback."""
        broken = [] if self.code in (0, 1, 4) else [f"E lakesmith run ended with exit code {self.code}"]
        if "Traceback" in self.errors:
            broken.append("E lakesmith run showed a traceback")
        return [f"{each}: {self.errors.strip()[-400:]}" for each in broken]


class Command:
    """A started command."""

    def __init__(self, order: Order) -> None:
        self._order = order
        order.progress.unlink(missing_ok=True)
        Path(order.answer).unlink(missing_ok=True)
        self._errors = Path(f"{order.answer}.errors")
        with open(order.answer, "wb") as output, open(self._errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.command", json.dumps(asdict(order))],
                stdout=output,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def ended(self) -> Ended:
        """Return how the command ended."""
        code = self.process.poll()
        assert code is not None
        return Ended(code, _answer(Path(self._order.answer).read_text(), code), self._errors.read_text())


def _answer(output: str, code: int) -> Answer:
    try:
        report: dict[str, Any] = json.loads(output)
    except ValueError:
        return Answer(bug=f"lakesmith run --json wrote no JSON: {output[-400:]!r}")
    run = report.get("run")
    done = [step for step in report.get("steps", ()) if step["outcome"] == "ok" and step["version"] is not None]
    return Answer(
        run=run and run["run_id"],
        steps=tuple((step["table"], step["sequence"], step["version"]) for step in done),
        errors=tuple({**error, "exit_code": code} for error in report["errors"]),
    )


def main() -> None:
    order = Order(**json.loads(sys.argv[1]))
    prepare(order)
    if order.place == CLOSING:
        _watch_the_end()
    from lakesmith.cli import app

    os.chdir(order.lake)
    app.main(["run", "--json", "--jobs", "1"], prog_name="lakesmith")


def _watch_the_end() -> None:
    from lakesmith.failpoints import failpoint
    from lakesmith.run.execute import Executor

    close: Callable[[Executor], None] = Executor.close

    def closing(executor: Executor) -> None:
        failpoint(CLOSING)
        close(executor)

    setattr(Executor, "close", closing)  # noqa: B010 - mypy rejects an assignment to a method


if __name__ == "__main__":
    main()
