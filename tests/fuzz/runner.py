"""Gives cases to worker processes and classifies the results: read, rejected with a reason, or a failure."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Verdict = Literal["ok", "rejected", "FAILURE"]
ROOT = Path(__file__).parents[2]
_TICK = 0.05
_START = 120.0


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """The limits of one case."""

    cpu: int = 20
    """CPU seconds."""
    wall: float = 120.0
    """Wall seconds: a waiting case uses no CPU."""
    memory: int = 1 << 30
    """Bytes above the use before the case."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a case."""

    number: int
    kind: str
    target: str
    verdict: Verdict
    why: str = ""
    trace: str = ""
    codes: tuple[str, ...] = ()
    seconds: float = 0.0
    peak: int = 0
    """The highest memory use in bytes, above that before."""


@dataclass(kw_only=True)
class Report:
    """The results of all cases."""

    seed: str
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failures(self) -> list[Outcome]:
        return sorted((each for each in self.outcomes if each.verdict == "FAILURE"), key=lambda each: each.number)

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report."""
        counts = Counter((each.kind, each.verdict) for each in self.outcomes)
        yield f"{'kind':10}{'cases':>8}{'ok':>8}{'rejected':>9}{'FAILURE':>9}{'slowest':>9}{'memory':>9}"
        for kind in [*sorted({each.kind for each in self.outcomes}), "all"]:
            of_kind = [each for each in self.outcomes if kind in (each.kind, "all")]
            verdicts: tuple[Verdict, ...] = ("ok", "rejected", "FAILURE")
            numbers = [
                sum(counts[kind, v] for kind in {each.kind for each in of_kind}) if kind == "all" else counts[kind, v]
                for v in verdicts
            ]
            slowest = max((each.seconds for each in of_kind), default=0)
            peak = max((each.peak for each in of_kind), default=0)
            yield f"{kind:10}{len(of_kind):8}{numbers[0]:8}{numbers[1]:9}{numbers[2]:9}{slowest:8.1f}s{peak >> 20:6} MB"
        for each in self.failures:
            yield f"FAILURE {each.kind} {each.target}: {each.why}"
            yield f"  replay: python -m tests.fuzz --seed {self.seed} --only {each.number}"
        yield f"seed {self.seed}: {len(self.outcomes):,} cases in {self.seconds:.0f} s, {len(self.failures)} failures"


def fuzz(
    numbers: Iterable[int],
    *,
    seed: str,
    workers: int = 2,
    bounds: Bounds | None = None,
    subjects: str = "tests.fuzz.subjects",
    on_outcome: Callable[[Outcome], None] | None = None,
) -> Report:
    """Run the cases with these numbers."""
    bounds = bounds or Bounds()
    report = Report(seed=seed)
    began = time.monotonic()
    waiting = iter(numbers)
    lock = threading.Lock()
    broken: list[BaseException] = []

    def work(sandbox: str) -> None:
        try:
            with _Worker(sandbox, seed, bounds, subjects) as worker:
                while True:
                    with lock:
                        number = next(waiting, None)
                    if number is None or broken:
                        return
                    outcome = worker.outcome(number)
                    with lock:
                        report.outcomes.append(outcome)
                        if on_outcome is not None:
                            on_outcome(outcome)
        except BaseException as error:  # noqa: BLE001 - raised again where the threads are joined
            broken.append(error)

    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=work, args=(f"{folder}/{number}",)) for number in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if broken:
        raise broken[0]
    report.seconds = time.monotonic() - began
    return report


class _Worker:
    """A process that runs cases; a new one starts when one has ended."""

    def __init__(self, sandbox: str, seed: str, bounds: Bounds, subjects: str) -> None:
        self._sandbox = sandbox
        self._seed = seed
        self._bounds = bounds
        self._subjects = subjects
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("case", "tmp", "cache", "home"):
            Path(sandbox, name).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def outcome(self, number: int) -> Outcome:
        process = self._process or self._start()
        assert process.stdin is not None
        began = time.monotonic()
        self._usual = _resident(process.pid)
        process.stdin.write(f"{number}\n".encode())
        process.stdin.flush()
        answer, why = self._answer(process, self._bounds.wall)
        seconds = time.monotonic() - began
        if answer is None:
            self._end()
            said = self._last_words()
            made = importlib.import_module(self._subjects).case(self._seed, number)
            return Outcome(
                number=number,
                kind=made.kind,
                target=made.target,
                verdict="FAILURE",
                why=why,
                trace=said,
                seconds=seconds,
            )
        peak = answer.get("peak", 0)
        if peak > self._bounds.memory and "why" not in answer:
            answer["why"] = f"memory: {peak >> 20:,} MB were used, and {self._bounds.memory >> 20:,} MB may be"
        codes = tuple(answer.get("codes", ()))
        return Outcome(
            number=number,
            kind=answer["kind"],
            target=answer["target"],
            verdict="FAILURE" if "why" in answer else "rejected" if codes else "ok",
            why=answer.get("why", ""),
            trace=answer.get("trace", ""),
            codes=codes,
            seconds=seconds,
            peak=peak,
        )

    def _start(self) -> subprocess.Popen[bytes]:
        sandbox, bounds = self._sandbox, self._bounds
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ},
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",
            "TMPDIR": f"{sandbox}/tmp",
            "HOME": f"{sandbox}/home",
            "LAKESMITH_CACHE": f"{sandbox}/cache",
            **dict.fromkeys(("FUZZ_TOKEN", "SHOP_TOKEN"), "not shown"),
            # One arena, and small stacks of threads, so that the limit counts only the memory of cases.
            "MALLOC_ARENA_MAX": "2",
            "OMP_NUM_THREADS": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        command = [sys.executable, "-m", "tests.fuzz.worker", self._subjects, sandbox, self._seed]
        with open(f"{sandbox}/stderr", "wb") as errors:
            self._process = process = subprocess.Popen(
                [*command, str(bounds.cpu), str(bounds.memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=ROOT,
                start_new_session=True,
            )
        self._usual = 1 << 60
        ready, why = self._answer(process, _START)
        if ready is None:
            self._end()
            raise RuntimeError(f"the worker did not start: {why}\n{self._last_words()}")
        return process

    def _answer(self, process: subprocess.Popen[bytes], wall: float) -> tuple[dict[str, Any] | None, str]:
        """Return the worker's answer, or why there is none."""
        assert process.stdout is not None
        until = time.monotonic() + wall
        while True:
            readable, _, _ = select.select([process.stdout], [], [], _TICK)
            if readable:
                line = process.stdout.readline()
                return (json.loads(line), "") if line else (None, _death(process))
            if time.monotonic() > until:
                return None, f"hang: no answer in {wall:.0f} s"
            used = _resident(process.pid) - self._usual
            if used > self._bounds.memory:
                return None, f"memory: {used >> 20:,} MB were used, and {self._bounds.memory >> 20:,} MB may be"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _last_words(self) -> str:
        return Path(self._sandbox, "stderr").read_text(errors="replace")[-2000:]


def _death(process: subprocess.Popen[bytes]) -> str:
    code = process.wait(10)
    if code == -signal.SIGXCPU:
        return "hang: the processor's time is used up"
    if code < 0:
        return f"crash: {signal.Signals(-code).name}"
    return f"crash: the worker ended with {code}"


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
