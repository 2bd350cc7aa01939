"""How rows enter a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Every new row of the input is added, once. Never changes a row that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """The whole table is computed anew and swapped in one commit. Readers never see it empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacePartitions:
    """Only the partitions that the input's changes touch are computed anew, in one commit."""

    by: str
    """The column that the table is partitioned by."""
    same_as: str | None = None
    """`layer.table.column` whose value decides the partition of a row. SQL tables need not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One row a key, the latest by `order_by`. Never overwrites a newer row with an older one."""

    key: tuple[str, ...]
    order_by: tuple[str, ...]


Load = Append | Replace | ReplacePartitions | Merge
