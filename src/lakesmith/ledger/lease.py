"""Leases: for what is longer than a commit, one holder a table, and everybody can see who.

A lease is a numbered file, so taking it over is put-if-absent of the next number: of two that judge a lease dead at the
same moment, one wins. A lease makes a second run wait its turn with a clear word; it is the fence in the table's
log that keeps rows from being lost or doubled. A holder that slept past the end of its lease learns from a later number
that somebody else has taken over, and leaves the lease alone from then on.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace

from lakesmith.declare import TableName
from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.failpoints import failpoint
from lakesmith.ports import Storage

LEASE_SECONDS = 60.0
"""How long a lease outlives its holder's last sign of life."""
CLOCK_SKEW_SECONDS = 600.0
"""So many seconds clocks may be apart. A lease that would last longer was written by one that has been set since."""
BACKFILL_PAUSE_SECONDS = 1.0
"""For how many seconds a backfill leaves a table to others between two of its commits."""
BACKFILL = "backfill"
"""The purpose that takes turns with all others."""

_unrecorded_releases: set[tuple[str, str]] = set()
"""Leases that this process gave back when it could not write that down: where they lie, and their holders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Who may change a table, and until when."""

    holder: str
    host: str
    process: int
    expires_at: float
    released: bool = False

    def is_dead(self, now: float) -> bool:
        if self.released or not now < self.expires_at <= now + LEASE_SECONDS + CLOCK_SKEW_SECONDS:
            return True
        return self.host == _host() and not _is_alive(self.process)


class Leases:
    """The leases of a warehouse, kept alive while this process works."""

    def __init__(self, storage: Storage, holder: str, *, clock: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._holder = holder
        self._clock = clock

    @contextmanager
    def held(self, table: TableName, purpose: str) -> Iterator[None]:
        """Hold the table's lease for as long as the block runs; an error that names the holder otherwise.

        A backfill and the runs beside it take turns.
        """
        folder = f"_lakesmith/leases/{table}"
        while True:
            try:
                key, lease = self._take(folder, table, purpose)
                break
            except LeaseTaken as error:
                if BACKFILL not in (purpose, error.holder.partition(" ")[0]):
                    raise
            time.sleep(BACKFILL_PAUSE_SECONDS / 5)
        try:
            with self._kept_alive(key, lease):
                failpoint("lease.taken", table)
                yield
        finally:
            self._give_back(key, lease)
        failpoint("lease.released", table)

    def _is_over(self, key: str, lease: Lease) -> bool:
        return lease.is_dead(self._clock()) or (self._storage.location(key), lease.holder) in _unrecorded_releases

    def _take(self, folder: str, table: TableName, purpose: str) -> tuple[str, Lease]:
        numbers = [int(name.removesuffix(".json")) for name in self._storage.keys(folder)]
        newest = max(numbers, default=0)
        held = self._read(f"{folder}/{newest:08}.json")
        if held and not self._is_over(f"{folder}/{newest:08}.json", held):
            raise LeaseTaken(table, held)
        lease = Lease(
            holder=f"{purpose} {self._holder}",
            host=_host(),
            process=_process(),
            expires_at=self._clock() + LEASE_SECONDS,
        )
        key = f"{folder}/{newest + 1:08}.json"
        if not self._storage.put_if_absent(key, _encode(lease)):
            winner = self._read(key)
            raise LeaseTaken(table, winner or lease)
        later = [name for name in self._storage.keys(folder) if name > f"{newest + 1:08}.json"]
        if later:  # the number was free only because its holder had come and gone meanwhile
            self._storage.remove(key)
            raise LeaseTaken(table, self._read(f"{folder}/{later[-1]}") or lease)
        for number in numbers:
            with suppress(LakesmithError, OSError):  # the lease is taken, and nobody goes by an older one
                self._storage.remove(f"{folder}/{number:08}.json")
        return key, lease

    def _read(self, key: str) -> Lease | None:
        data = self._storage.read(key)
        try:
            return Lease(**json.loads(data)) if data else None
        except (TypeError, ValueError):  # not a lease: nobody holds the table by it
            return None

    @contextmanager
    def _kept_alive(self, key: str, lease: Lease) -> Iterator[None]:
        """Give a sign of life now and then, from beside the work."""
        ended = threading.Event()

        def keep() -> None:
            while not ended.wait(LEASE_SECONDS / 4):
                # The store may take the next sign of life: until the lease expires there are some left.
                with suppress(LakesmithError, OSError):
                    if not self._renew(key, lease):
                        return

        keeper = threading.Thread(target=keep, daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()

    def _renew(self, key: str, lease: Lease) -> bool:
        """Give a sign of life; False where somebody else has taken over since."""
        return self._write(key, replace(lease, expires_at=self._clock() + LEASE_SECONDS))

    def _give_back(self, key: str, lease: Lease) -> None:
        """What was done under the lease counts, whether or not it can be written down that it ended: nobody keeps it
        alive any more."""
        try:
            self._write(key, replace(lease, released=True))
        except (LakesmithError, OSError):
            _unrecorded_releases.add((self._storage.location(key), lease.holder))

    def _write(self, key: str, lease: Lease) -> bool:
        if self._is_taken_over(key):
            return False
        self._storage.replace(key, _encode(lease))
        if self._is_taken_over(key):  # while it was written, and perhaps after its old number was cleared away
            self._storage.remove(key)
            return False
        return True

    def _is_taken_over(self, key: str) -> bool:
        folder, _, name = key.rpartition("/")
        return any(later > name for later in self._storage.keys(folder))


class LeaseTaken(InfrastructureError):
    """Somebody else is working on the table."""

    def __init__(self, table: TableName, lease: Lease) -> None:
        super().__init__(
            "table-leased",
            f"{lease.holder} (process {lease.process} on {lease.host}) is working on it",
            table=str(table),
            hint=f"wait until it has ended; a holder that died gives the table back within {LEASE_SECONDS:.0f} seconds",
        )
        self.holder = lease.holder


def _host() -> str:
    return socket.gethostname()


def _process() -> int:
    return os.getpid()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is alive, and somebody else's
    return True


def _encode(lease: Lease) -> bytes:
    return json.dumps(asdict(lease), sort_keys=True).encode()
