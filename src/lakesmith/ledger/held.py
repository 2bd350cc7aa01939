"""Which batches were refused by a gate and are kept: one a table, the newest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakesmith.errors import DataError
from lakesmith.ports import Storage

_FOLDER = "_lakesmith/held"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBatch:
    """A batch that a gate has refused."""

    table: str
    run_id: str
    sequence: int
    attempt: int
    held_at: int
    """Milliseconds since 1970."""
    rows: int
    refused: int
    broken: Mapping[str, int]
    """By rule, how many rows broke it."""
    failures: tuple[str, ...]
    """What the gate said."""
    samples: tuple[str, ...] = ()


class HeldBatches:
    """The batches that are kept in one warehouse."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def keep(self, held: HeldBatch) -> None:
        self._storage.replace(_key(held.table), json.dumps(asdict(held)).encode())

    def of(self, table: str) -> HeldBatch | None:
        data = self._storage.read(_key(table))
        if data is None:
            return None
        try:
            told = json.loads(data)
            return HeldBatch(**{**told, "failures": tuple(told["failures"]), "samples": tuple(told["samples"])})
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                "batch-unreadable",
                f"{_key(table)} in the warehouse is not what Lakesmith wrote there",
                table=table,
                hint=f"run again, and the gate will hold the batch back anew: lakesmith run {table}",
            ) from error

    def forget(self, table: str) -> None:
        self._storage.remove(_key(table))


def _key(table: str) -> str:
    return f"{_FOLDER}/{table}/batch.json"
