"""Simulated processes: each pauses before and after every durable change, and continues when the test advances it.

Only one process runs at a time, so the test decides the order of events. A killed process changes nothing any more:
operations in its `finally` blocks raise, as if they had never run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


class Killed(BaseException):
    """The process is dead."""


@dataclass(slots=True)
class Clock:
    """The simulated time of all processes."""

    now: float = 1_700_000_000.0

    def time_ns(self) -> int:
        return int(self.now * 1e9)


@dataclass(slots=True)
class Hold:
    """A lease that a process holds."""

    table: str
    renew: Callable[[], object]
    seen: float
    """The time of its last renewal."""
    sound: bool = True
    """Whether the clock never jumped, and every renewal was in time."""


@dataclass(eq=False)
class Process:
    """A process that runs step by step."""

    number: int
    host: str
    kind: str
    work: Callable[[Process], object]
    place: str = "begun"
    """The place where it waits."""
    ended: bool = False
    dead: bool = False
    stopped: bool = False
    """Suspended: it does not work, does not renew leases, and does not know it."""
    result: object = None
    error: BaseException | None = None
    holds: list[Hold] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _go: threading.Lock = field(default_factory=threading.Lock)
    _back: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._go.acquire()
        self._back.acquire()

    @property
    def alive(self) -> bool:
        return not (self.ended or self.dead)

    def advance(self) -> None:
        """Run it to its next pause, or to its end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._go.release()
        self._back.acquire()

    def kill(self) -> None:
        """Kill it: it has no further effect."""
        self.dead = True
        if self._thread is not None and not self.ended:
            self.advance()

    def pause(self, place: str) -> None:
        """Wait here when the process itself calls this; do nothing for other callers."""
        if threading.current_thread() is not self._thread:
            return
        self.raise_if_dead()
        self.place = place
        self._back.release()
        self._go.acquire()
        self.raise_if_dead()

    def raise_if_dead(self) -> None:
        if self.dead:
            raise Killed

    def _run(self) -> None:
        self._go.acquire()
        try:
            self.raise_if_dead()
            self.result = self.work(self)
        except BaseException as error:  # noqa: BLE001 (the caller of advance reads the error)
            self.error = error
        finally:
            self.ended = True
            self._back.release()
