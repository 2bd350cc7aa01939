"""Simulated processes: each runs until something is about to be made to last, or was, and goes on when it is told to.

Only one of them runs at a time, so that what happens is decided by whoever tells them. One that is killed touches the
world no more: whatever its `finally` blocks still try is refused, as if they had never run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


class Killed(BaseException):
    """The process is dead."""


@dataclass(slots=True)
class Clock:
    """The time as everybody is told it."""

    now: float = 1_700_000_000.0

    def time_ns(self) -> int:
        return int(self.now * 1e9)


@dataclass(slots=True)
class Hold:
    """A lease that a process has taken and not given back."""

    table: str
    renew: Callable[[], object]
    seen: float
    """When it gave its last sign of life."""
    sound: bool = True
    """The clock went as it should, and every sign of life was given in time."""


@dataclass(eq=False)
class Process:
    """Work that is done step by step."""

    number: int
    host: str
    kind: str
    work: Callable[[Process], object]
    place: str = "begun"
    """Where it waits."""
    ended: bool = False
    dead: bool = False
    stopped: bool = False
    """Suspended: it neither works nor gives signs of life, and does not know."""
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
        """Let it run to the next place, or to its end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._go.release()
        self._back.acquire()

    def kill(self) -> None:
        """Nothing of it happens any more."""
        self.dead = True
        if self._thread is not None and not self.ended:
            self.advance()

    def pause(self, place: str) -> None:
        """Called by the work itself: wait here. By anybody else: nothing."""
        if threading.current_thread() is not self._thread:
            return
        self.refuse_dead()
        self.place = place
        self._back.release()
        self._go.acquire()
        self.refuse_dead()

    def refuse_dead(self) -> None:
        if self.dead:
            raise Killed

    def _run(self) -> None:
        self._go.acquire()
        try:
            self.refuse_dead()
            self.result = self.work(self)
        except BaseException as error:  # noqa: BLE001 (whoever advances it looks at the error)
            self.error = error
        finally:
            self.ended = True
            self._back.release()
