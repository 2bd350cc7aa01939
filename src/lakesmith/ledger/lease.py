"""Leases: one holder per table for work that takes longer than a commit, and everybody can see who it is.

A lease is a numbered file, and taking it over is put-if-absent of the next number: of two runs that judge a lease dead
at the same moment, one wins. A lease gives a second run a clear error; the fence in the table's log is what keeps rows
from being lost or duplicated. A holder that was suspended past the end of its lease sees a later number, and leaves the
lease alone from then on.
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
from lakesmith.ports import Store, names_in_folder

LEASE_SECONDS = 60.0
"""How long a lease lasts after its last renewal."""
CLOCK_SKEW_SECONDS = 600.0
"""How far clocks may be apart. A lease that expires later than that comes from a clock that was wrong."""
BACKFILL_PAUSE_SECONDS = 1.0
"""How long a backfill leaves a table to other runs between two of its commits."""
BACKFILL = "backfill"
"""The purpose of a lease that takes turns with all other leases."""

_unrecorded_releases: set[tuple[str, str]] = set()
"""Leases that this process released without being able to record it: their locations and holders."""


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

    def __init__(self, store: Store, holder: str, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._holder = holder
        self._clock = clock

    @contextmanager
    def hold(self, table: TableName, purpose: str) -> Iterator[None]:
        """Hold the table's lease while the block runs; raise an error that names the holder when it is taken.

        A backfill and concurrent runs take turns.
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
            with self._renewed(key, lease):
                failpoint("lease.taken", table)
                yield
        finally:
            self._release(key, lease)
        failpoint("lease.released", table)

    def _is_over(self, key: str, lease: Lease) -> bool:
        return lease.is_dead(self._clock()) or (self._store.location(key), lease.holder) in _unrecorded_releases

    def _take(self, folder: str, table: TableName, purpose: str) -> tuple[str, Lease]:
        numbers = [int(name.removesuffix(".json")) for name in names_in_folder(self._store, folder)]
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
        if not self._store.put_if_absent(key, _encode(lease)):
            winner = self._read(key)
            raise LeaseTaken(table, winner or lease)
        later = [name for name in names_in_folder(self._store, folder) if name > f"{newest + 1:08}.json"]
        if later:  # the number was free only because another holder came and went meanwhile
            self._store.delete([key])
            raise LeaseTaken(table, self._read(f"{folder}/{later[-1]}") or lease)
        for number in numbers:
            with suppress(LakesmithError, OSError):  # the lease is taken, and older ones no longer count
                self._store.delete([f"{folder}/{number:08}.json"])
        return key, lease

    def _read(self, key: str) -> Lease | None:
        data = self._store.read(key)
        try:
            return Lease(**json.loads(data)) if data else None
        except (TypeError, ValueError):  # not a lease: nobody holds the table
            return None

    @contextmanager
    def _renewed(self, key: str, lease: Lease) -> Iterator[None]:
        """Renew the lease in the background."""
        ended = threading.Event()

        def renew() -> None:
            while not ended.wait(LEASE_SECONDS / 4):
                # A later renewal may succeed: there are several before the lease expires.
                with suppress(LakesmithError, OSError):
                    if not self._renew(key, lease):
                        return

        renewer = threading.Thread(target=renew, daemon=True)
        renewer.start()
        try:
            yield
        finally:
            ended.set()
            renewer.join()

    def _renew(self, key: str, lease: Lease) -> bool:
        """Extend the lease; return False when somebody else has taken it over."""
        return self._write(key, replace(lease, expires_at=self._clock() + LEASE_SECONDS))

    def _release(self, key: str, lease: Lease) -> None:
        """Release the lease. Work done under it counts even when the release cannot be recorded: it then expires."""
        try:
            self._write(key, replace(lease, released=True))
        except (LakesmithError, OSError):
            _unrecorded_releases.add((self._store.location(key), lease.holder))

    def _write(self, key: str, lease: Lease) -> bool:
        if self._is_taken_over(key):
            return False
        self._store.replace(key, _encode(lease))
        if self._is_taken_over(key):  # while it was written, perhaps after its old number was removed
            self._store.delete([key])
            return False
        return True

    def _is_taken_over(self, key: str) -> bool:
        folder, _, name = key.rpartition("/")
        return any(later > name for later in names_in_folder(self._store, folder))


class LeaseTaken(InfrastructureError):
    """Another holder is working on the table."""

    def __init__(self, table: TableName, lease: Lease) -> None:
        super().__init__(
            "table-leased",
            f"{lease.holder} (process {lease.process} on {lease.host}) is working on it",
            table=str(table),
            hint=f"wait until it ends; the lease of a dead holder expires within {LEASE_SECONDS:.0f} seconds",
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
        pass  # it is alive and belongs to another user
    return True


def _encode(lease: Lease) -> bytes:
    return json.dumps(asdict(lease), sort_keys=True).encode()
