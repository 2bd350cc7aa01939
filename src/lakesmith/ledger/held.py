"""Records of the batches that gates hold: the newest one per table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakesmith.errors import DataError
from lakesmith.ports import Store

_FOLDER = "_lakesmith/held"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBatch:
    """A batch that a gate holds."""

    table: str
    run_id: str
    sequence: int
    attempt: int
    held_at: int
    """Milliseconds since 1970."""
    rows: int
    rejected: int
    broken: Mapping[str, int]
    """By rule, how many rows break it."""
    failures: tuple[str, ...]
    """The failed checks, as text."""
    samples: tuple[str, ...] = ()


class HeldBatches:
    """The held batches of a warehouse."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, held: HeldBatch) -> None:
        self._store.replace(_key(held.table), json.dumps(asdict(held)).encode())

    def get(self, table: str) -> HeldBatch | None:
        data = self._store.read(_key(table))
        if data is None:
            return None
        try:
            fields = json.loads(data)
            return HeldBatch(**{**fields, "failures": tuple(fields["failures"]), "samples": tuple(fields["samples"])})
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                "batch-unreadable",
                f"{_key(table)} in the warehouse is corrupt",
                table=table,
                hint=f"run again, and the gate will hold the batch again: lakesmith run {table}",
            ) from error

    def remove(self, table: str) -> None:
        self._store.delete([_key(table)])


def _key(table: str) -> str:
    return f"{_FOLDER}/{table}/batch.json"
