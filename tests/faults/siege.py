"""One lake under attack: what has landed in it, who was told what, and what the oracle has to say."""

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
from tests.faults.layouts import Layout, Stream, layout
from tests.faults.oracle import Claims
from tests.faults.victim import Answer, Deed, Order, answer_of, start

PATIENCE = 420.0
"""Seconds after which a process counts as hanging."""
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
        """The promises that are broken."""
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
class Siege:
    """A lake, and all that is known of it for certain."""

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
    """What is decided besides if a process that was cut short got that far."""
    lagging: list[Decided] = field(default_factory=list)
    """What was decided before: tables that are made from others follow with the next run."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    restored: bool = False
    vacuumed: bool = False
    rolled_back: str | None = None
    """The release that the lake was taken back to, and nothing was begun since."""
    released: dict[str, Decided] = field(default_factory=dict)
    """What was decided when a release was made."""
    ever: list[Decided] = field(default_factory=list)
    """What may have been decided at any time."""
    taken_back: tuple[Decided, ...] = ()
    """What may be decided after tables went back: their decisions have gone back with them."""
    foreign: list[Foreign] = field(default_factory=list)
    """The commits of other writers."""
    may_commit: bool = False
    """Whether a JVM may still commit what a process began that was killed."""
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
        """The next file of each stream that has one of this number."""
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
        """Whether files of a stream have landed that no run has acknowledged."""
        return any(map(stream.events.counts, range(self.acknowledged + 1, self.landed + 1)))

    def order(self, do: Deed = "run", **details: Any) -> Order:
        """A process's task on this lake."""
        self.orders += 1
        answer = str(self.folder.with_name(f"{self.folder.name}.{self.orders}.answer"))
        return Order(
            lake=str(self.folder),
            answer=answer,
            do=do,
            jvm=self.jvm,
            plant=self.plant,
            large=self.layout.large,
            **details,
        )

    def send(self, order: Order) -> Answer | None:
        """Let a process do it, and remember what it acknowledged; None when it was killed."""
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
            self.heard(order.do, answer)
        else:
            assert process.exitcode == -signal.SIGKILL, f"{order.do} died by itself: {process.exitcode}"
        return answer

    def expect(self, do: Deed) -> None:
        """From now on, what is decided may take effect."""
        self.rolled_back = None
        self.vacuumed = self.vacuumed or do == "vacuum"
        if do in ("replay", "discard"):
            self.pending = self.decided.and_then(do, self.acknowledged)
            self.ever.append(self.pending)
        elif do in ("restore", "rollback"):
            # Until the next run has ended well, the table may be at any version that there was, also at one that a
            # decision made which was cut short, and taken again later for more files.
            self.restored, self.acknowledged = True, 0
            self.taken_back = earlier((*self.taken_back, *self.ever, self.decided))

    def heard(self, do: Deed, answer: Answer) -> None:
        """A process has said what it did."""
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

    def settle(self) -> list[str]:
        """Run until a run ends well, then ask whether all is as if nothing had happened; what is broken."""
        broken: list[str] = []
        waiting: list[Deed] = ["run"]
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
                broken.append(f"E {do} does not end well: {said}")
        return broken + self.judge(settled=True)

    def judge(self, *, settled: bool = False) -> list[str]:
        """What the oracle says of the lake as it is now."""
        claims = self._claims(settled=settled)
        if not settled:
            return self.oracle.ask(claims)
        heard: list[str] = []
        for decided in claims.decided:  # all tables have to agree on one
            broken = self.oracle.ask(replace(claims, decided=(decided,)))
            if not broken:
                if self.taken_back:
                    self.decided, self.taken_back = decided, ()
                return []
            heard = heard or broken
        return heard

    def _claims(self, *, settled: bool) -> Claims:
        states = self.taken_back or (self.decided,)
        states += () if self.pending is None else (self.pending,)
        states += () if settled else tuple(self.lagging)
        return Claims(
            lake=str(self.folder),
            flow=self.flow,
            seed=self.seed,
            landed=self.landed,
            acknowledged=self.acknowledged,
            decided=states,
            ever=tuple(self.ever),
            settled=settled,
            runs=tuple(self.runs),
            restored=self.restored,
            vacuumed=self.vacuumed,
            rolled_back=self.rolled_back,
            foreign=tuple(self.foreign),
        )


_PASSING = {"commit-conflict", "commit-lost", "commit-unknown", "table-leased"}
"""Codes of errors that a process may meet after another was killed, and that pass."""


def _lasting(answer: Answer | None) -> list[str]:
    """Errors of a process that nobody disturbs, other than those that a killed one or another writer left behind."""
    found = [error for error in answer.errors if error["code"] not in _PASSING] if answer is not None else []
    return [f"E {error['code']} although nothing disturbs the run: {error['what'][:300]}" for error in found]


def _shortened(trace: str) -> str:
    """The error of a traceback, and where it was raised."""
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
"""Codes that tell of a lake that is damaged or does not add up: where nobody else touches it, Lakesmith did that."""


def untyped(answer: Answer | None) -> Sequence[str]:
    """What an error lacks: each has a code, an exit code and a next step, and none is a bug or tells of one."""
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
            broken.append(f"E {error['code']} tells of a fault of Lakesmith's own: {error['what']}")
    return broken
