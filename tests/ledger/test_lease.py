"""Leases: one holder for each table, and a dead holder does not keep it forever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakesmith.declare import TableName
from lakesmith.errors import InfrastructureError
from lakesmith.ledger import lease as lease_room
from lakesmith.ledger.lease import LEASE_SECONDS, Leases
from lakesmith.ports import names_in_folder
from lakesmith.store import LocalStore

NAME = TableName("gold", "sales")


def test_a_second_holder_gets_an_error_that_names_the_first(tmp_path: Path) -> None:
    storage = LocalStore(tmp_path)
    second = Leases(storage, "run two").hold(NAME, "vacuum")
    with Leases(storage, "run one").hold(NAME, "run"), pytest.raises(InfrastructureError) as caught, second:
        pass
    assert caught.value.code == "table-leased"
    assert "run one" in caught.value.what
    assert str(os.getpid()) in caught.value.what


def test_a_released_lease_can_be_taken_again(tmp_path: Path) -> None:
    leases = Leases(LocalStore(tmp_path), "run")
    for _ in range(3):
        with leases.hold(NAME, "run"):
            pass
    assert len(names_in_folder(LocalStore(tmp_path), f"_lakesmith/leases/{NAME}")) == 1


def test_leases_of_two_tables_are_independent(tmp_path: Path) -> None:
    leases = Leases(LocalStore(tmp_path), "run")
    with leases.hold(NAME, "run"), leases.hold(TableName("gold", "other"), "run"):
        pass


def test_a_lease_whose_process_died_is_taken_over_at_once(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from lakesmith.ledger.lease import Leases\nfrom lakesmith.store import LocalStore\n"
        "from lakesmith.declare import TableName\n"
        f"context = Leases(LocalStore({str(tmp_path)!r}), 'run dead').hold(TableName('gold', 'sales'), 'run')\n"
        "context.__enter__()\nos._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    with Leases(LocalStore(tmp_path), "run alive").hold(NAME, "run"):
        pass


def test_an_expired_lease_of_another_machine_is_taken_over(tmp_path: Path) -> None:
    storage = LocalStore(tmp_path)
    lease = {"holder": "run far", "host": "elsewhere", "process": 1, "expires_at": 1000.0, "released": False}
    storage.put_if_absent(f"_lakesmith/leases/{NAME}/00000001.json", json.dumps(lease).encode())
    with pytest.raises(InfrastructureError), Leases(storage, "b", clock=lambda: 999.0).hold(NAME, "run"):
        pass
    with Leases(storage, "b", clock=lambda: 1000.0 + LEASE_SECONDS).hold(NAME, "run"):
        pass


def test_a_lease_by_a_clock_a_day_ahead_does_not_hold_the_table(tmp_path: Path) -> None:
    storage = LocalStore(tmp_path)
    lease = {"holder": "run far", "host": "elsewhere", "process": 1, "expires_at": 87400.0, "released": False}
    storage.put_if_absent(f"_lakesmith/leases/{NAME}/00000001.json", json.dumps(lease).encode())
    with Leases(storage, "b", clock=lambda: 1000.0).hold(NAME, "run"):
        pass


def test_a_failed_renewal_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = threading.Event()

    class Faulty(LocalStore):
        failed = False

        def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
            if not self.failed:
                self.failed = True
                raise InfrastructureError("storage-write", "no room", hint="make some")
            super().replace(key, data)
            heard.set()
            return True

    monkeypatch.setattr(lease_room, "LEASE_SECONDS", 0.04)
    with Leases(Faulty(tmp_path), "run").hold(NAME, "run"):
        assert heard.wait(60)


def test_an_old_lease_that_cannot_be_removed_does_not_block_a_new_holder(tmp_path: Path) -> None:
    class Faulty(LocalStore):
        def delete(self, keys: Iterable[str]) -> None:
            raise InfrastructureError("storage-write", "not now", hint="later")

    for holder in ("one", "two", "three"):
        with Leases(Faulty(tmp_path), f"run {holder}").hold(NAME, "run"):
            pass
    with Leases(LocalStore(tmp_path), "run four").hold(NAME, "run"):
        assert len(names_in_folder(LocalStore(tmp_path), f"_lakesmith/leases/{NAME}")) == 1


def test_a_holder_taken_over_during_a_renewal_leaves_no_lease(tmp_path: Path) -> None:
    class Slow(LocalStore):
        """A store that waits for the length of a lease during a write."""

        def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
            with Leases(LocalStore(tmp_path), "run awake", clock=lambda: 2 * LEASE_SECONDS).hold(NAME, "run"):
                pass
            return super().replace(key, data)

    folder = f"_lakesmith/leases/{NAME}"
    with Leases(Slow(tmp_path), "run asleep", clock=lambda: 0.0).hold(NAME, "run"):
        pass
    (left,) = names_in_folder(LocalStore(tmp_path), folder)
    assert "run awake" in (tmp_path / folder / left).read_text()


def test_one_of_many_takeovers_of_a_dead_lease_wins(tmp_path: Path) -> None:
    storage = LocalStore(tmp_path)
    lease = {"holder": "run far", "host": "elsewhere", "process": 1, "expires_at": 0.0, "released": False}
    storage.put_if_absent(f"_lakesmith/leases/{NAME}/00000001.json", json.dumps(lease).encode())
    entered = []

    def take(number: int) -> None:
        try:
            context = Leases(storage, f"run {number}").hold(NAME, "run")
            context.__enter__()
        except InfrastructureError:
            return
        entered.append(context)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(take, range(8)))
    assert len(entered) == 1
    entered[0].__exit__(None, None, None)
