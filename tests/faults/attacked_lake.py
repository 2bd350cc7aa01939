"""One lake under fault injection: what landed, which results were acknowledged, and what the oracle reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.faults.attach import Jvm
from tests.faults.file_names import clutter
from tests.faults.flows import Decided, earlier
from tests.faults.foreign_log import Foreign
from tests.faults.lake_process import Answer, LakeCommand, Order, answer_of, start
from tests.faults.layouts import Layout, Stream, layout
from tests.faults.oracle import Claims

PATIENCE = 420.0
"""After this number of seconds, a process counts as hanging."""
_RETRIES = 6


class Oracle:
    """The oracle's process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, claims: Claims) -> list[str]:
        """Return the broken promises."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(claims.line() + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the oracle has ended"
        broken: list[str] = json.loads(line)
        return broken

    def close(self) -> None:
        self._process.communicate()


@dataclass
class AttackedLake:
    """A lake, and everything that is certain about it."""

    folder: Path
    flow: str
    """The lake's layout."""
    seed: int
    oracle: Oracle
    jvm: Jvm | None = None
    plant: str | None = None
    landed: int = 0
    acknowledged: int = 0
    decided: Decided = field(default_factory=Decided)
    pending: Decided | None = None
    """The additional decision that an interrupted process may have committed."""
    lagging: list[Decided] = field(default_factory=list)
    """Earlier decisions: downstream tables reflect a new one after the next run."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    restored: bool = False
    vacuumed: bool = False
    rolled_back: str | None = None
    """The release of the last rollback, if nothing was started since."""
    released: dict[str, Decided] = field(default_factory=dict)
    """The decisions at the time of each release."""
    ever: list[Decided] = field(default_factory=list)
    """All decisions that may have been committed at some time."""
    taken_back: tuple[Decided, ...] = ()
    """The possible decisions after a restore or rollback: decisions are restored with their tables."""
    foreign: list[Foreign] = field(default_factory=list)
    """The commits of other writers."""
    may_commit: bool = False
    """Whether a JVM may still commit the work of a killed process."""
    orders: int = 0

    @property
    def layout(self) -> Layout:
        return layout(self.flow, self.seed)

    @property
    def warehouse(self) -> Path:
        return self.folder / ".lakesmith" / "warehouse"

    def __post_init__(self) -> None:
        for name, text in self.layout.declarations().items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def land(self) -> None:
        """Land the next file of each stream that has a file with this number."""
        self.landed += 1
        for stream in self.layout.streams:
            folder = self.folder / "landing" / stream.name
            folder.mkdir(parents=True, exist_ok=True)
            if stream.events.odd_names:
                clutter(folder, stream.events.seed, self.landed)
            if not stream.events.lands(self.landed):
                continue
            unfinished = folder / f".{self.landed}.part"
            unfinished.write_text("".join(f"{line}\n" for line in stream.events.lines(self.landed)))
            unfinished.rename(os.fsdecode(os.path.join(os.fsencode(folder), stream.events.name(self.landed))))

    def has_new(self, stream: Stream) -> bool:
        """Return whether files of a stream have landed that no run has acknowledged."""
        return any(map(stream.events.counts, range(self.acknowledged + 1, self.landed + 1)))

    def order(self, do: LakeCommand = "run", **details: Any) -> Order:
        """Create an order for a process on this lake."""
        self.orders += 1
        answer = str(self.folder.with_name(f"{self.folder.name}.{self.orders}.answer"))
        return Order(
            lake=str(self.folder),
            answer=answer,
            do=do,
            jvm=self.jvm,
            plant=self.plant,
            large=self.layout.large,
            few=self.layout.few,
            **details,
        )

    def send(self, order: Order) -> Answer | None:
        """Run a process and remember what it acknowledged; None when it was killed."""
        self.expect(order.do)
        process = start(order)
        process.join(PATIENCE)
        if process.is_alive():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            raise AssertionError(f"{order.do} hung for {PATIENCE:.0f} s")
        answer = answer_of(order)
        if answer is not None:
            self.acknowledge(order.do, answer)
        else:
            assert process.exitcode == -signal.SIGKILL, f"{order.do} died by itself: {process.exitcode}"
        return answer

    def expect(self, do: LakeCommand) -> None:
        """Note that a command starts: from now on, its decision may take effect."""
        self.rolled_back = None
        self.vacuumed = self.vacuumed or do == "vacuum"
        if do in ("replay", "discard"):
            self.pending = self.decided.and_then(do, self.acknowledged)
            self.ever.append(self.pending)
        elif do in ("restore", "rollback"):
            # Until the next run succeeds, the table may be at any earlier version. This includes a version of an
            # interrupted decision that was repeated later for more files.
            self.restored, self.acknowledged = True, 0
            self.taken_back = earlier((*self.taken_back, *self.ever, self.decided))

    def acknowledge(self, do: LakeCommand, answer: Answer) -> None:
        """Record what a process reports."""
        if answer.bug is not None:
            return
        if answer.run is not None:
            self.runs.append({"run": answer.run, "steps": answer.steps})
        if answer.errors:
            return
        if do == "run":
            self.acknowledged = self.landed
            self.lagging.clear()
        elif do == "rollback":
            self.rolled_back = answer.release
            if answer.release in self.released:
                self.taken_back = (self.released[answer.release],)
        elif self.pending is not None and do == self.pending.decisions[-1][0]:
            self.lagging.append(self.decided)
            self.decided, self.pending = self.pending, None
        if answer.run is not None and self.pending is None and len(self.taken_back) < 2:
            self.released[answer.run] = next(iter(self.taken_back), self.decided)

    def run_to_completion(self) -> list[str]:
        """Run until a run succeeds, then check that the content is complete. Return the broken promises."""
        broken: list[str] = []
        waiting: list[LakeCommand] = ["run"]
        if self.pending is not None:
            waiting += ["replay" if self.pending.decisions[-1][0] == "replay" else "discard", "run"]
        for do in waiting:
            for _ in range(_RETRIES):
                answer = self.send(self.order(do))
                broken += [each for each in (*untyped(answer), *_lasting(answer)) if each not in broken]
                if answer is not None and not answer.errors and answer.bug is None:
                    break
                time.sleep(0.5)
            else:
                said = answer and (answer.errors or _shortened(answer.bug or "nothing"))
                broken.append(f"E {do} does not succeed: {said}")
        return broken + self.check(completed=True)

    def check(self, *, completed: bool = False) -> list[str]:
        """Return the promises that the oracle finds broken now."""
        claims = self._claims(completed=completed)
        if not completed:
            return self.oracle.ask(claims)
        first_broken: list[str] = []
        for decided in claims.decided:  # all tables must match the same one
            broken = self.oracle.ask(replace(claims, decided=(decided,)))
            if not broken:
                if self.taken_back:
                    self.decided, self.taken_back = decided, ()
                return []
            first_broken = first_broken or broken
        return first_broken

    def _claims(self, *, completed: bool) -> Claims:
        states = self.taken_back or (self.decided,)
        states += () if self.pending is None else (self.pending,)
        states += () if completed else tuple(self.lagging)
        return Claims(
            lake=str(self.folder),
            flow=self.flow,
            seed=self.seed,
            landed=self.landed,
            acknowledged=self.acknowledged,
            decided=states,
            ever=tuple(self.ever),
            completed=completed,
            runs=tuple(self.runs),
            restored=self.restored,
            vacuumed=self.vacuumed,
            rolled_back=self.rolled_back,
            foreign=tuple(self.foreign),
        )


_PASSING = {"commit-conflict", "commit-lost", "commit-unknown", "table-leased"}
"""Codes of temporary errors that a process may get after another process was killed."""


def _lasting(answer: Answer | None) -> list[str]:
    """Return the errors of an undisturbed process, except temporary ones after a kill or a commit of another writer."""
    found = [error for error in answer.errors if error["code"] not in _PASSING] if answer is not None else []
    return [f"E {error['code']} although nothing interrupts the run: {error['what'][:300]}" for error in found]


def _shortened(trace: str) -> str:
    """Return the error of a traceback, and where it was raised."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    raised = [line for line in lines if line.startswith("File ")]
    return f"{lines[-1]} ({raised[-1]})" if raised else lines[-1]


_FAULTS = {
    "batch-unknown",
    "batch-unreadable",
    "row-count-mismatch",
    "commits-missing",
    "intervals-broken",
    "key-twice",
    "ledger-unreadable",
    "partition-escaped",
    "staged-extract-missing",
    "table-unreadable",
    "unknown-progress",
}
"""Codes of corrupt or inconsistent lakes. If nobody else writes to the lake, they mean a bug of Lakesmith."""


def untyped(answer: Answer | None) -> Sequence[str]:
    """Return what errors lack. Each needs a code, an exit code and a next step, and none may be or report a bug."""
    if answer is None:
        return []
    if answer.bug is not None:
        return [f"E a process ended with a bug: {_shortened(answer.bug)}"]
    broken = []
    for error in answer.errors:
        if not error["code"]:
            broken.append(f"E an error has no code: {error['what']}")
        if error["exit_code"] not in (1, 2, 4):
            broken.append(f"E {error['code']} has the exit code {error['exit_code']}")
        if not error["hint"]:
            broken.append(f"E {error['code']} does not say what to do next")
        if error["code"] in _FAULTS:
            broken.append(f"E {error['code']} reports a bug of Lakesmith: {error['what']}")
    return broken
