"""Computes the upsert that merges a batch into a stored table with a keyed load."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakesmith.columns import DELETE_ROW, HIDDEN, IS_CURRENT, VALID_FROM
from lakesmith.declare.loads import Append, Changes, Merge, Scd2, Snapshot
from lakesmith.ledger.batch import Batch
from lakesmith.ports import BROADCAST_ROWS, TableFacts, TableFormat, Upsert
from lakesmith.quality.rules import operation_sql
from lakesmith.spark.loads import KeyedLoad, apply_load
from lakesmith.spark.loads.deleted_keys import DeletedKeys, as_merge, tracks_deleted_keys
from lakesmith.spark.loads.extracts import are_later, as_history, extract_changes, extract_sizes, fail_if_shrunk
from lakesmith.spark.loads.history import SINCE, intervals
from lakesmith.spark.loads.open_intervals import continue_intervals, late_keys
from lakesmith.spark.loads.order import IS_DELETE, greatest, payload, sparse_columns
from lakesmith.spark.loads.touched_keys import rows_for_keys, touched_keys
from lakesmith.spark.loads.upsert import upsert_difference, upsert_rows, upsert_with_deletes, upsert_without_deletes
from lakesmith.spark.types import sql_type
from lakesmith.sql import bounds, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STORED = f"{HIDDEN}stored_"


@dataclass(slots=True, kw_only=True)
class MergeInput:
    """A batch and the table that it is merged into."""

    load: KeyedLoad
    batch: Batch
    facts: TableFacts
    """The table before this batch."""
    format: TableFormat
    deleted_keys: DeletedKeys
    good: DataFrame
    """The good rows of the batch."""
    query_rows: Callable[[], DataFrame]
    """Returns all good rows of the query."""
    few: bool = False
    """Whether the rows of the batch are few and in memory."""
    large: bool
    """Whether the table is so large that computing bounds for file skipping pays off."""
    cached: list[DataFrame] = field(default_factory=list)
    """Cached frames, to be released after the write."""
    reads_all_rows: bool = False
    """Whether `all_rows` was called."""

    def all_rows(self) -> DataFrame:
        """Return all good rows of the query."""
        self.reads_all_rows = True
        return self.query_rows()

    def recompute(self, keys: DataFrame | None) -> Upsert:
        """Recompute some keys from all their rows, or every key when `keys` is None."""
        if isinstance(self.load, Snapshot) and self.load.max_shrink is not None:
            fail_if_shrunk(
                self.load, extract_sizes(self.load, self.all_rows()), dict(extract_sizes(self.load, self.good))
            )
        rows = self.all_rows() if keys is None else rows_for_keys(self.load, self.all_rows(), keys)
        made = apply_load(self.load, rows)
        if keys is not None and isinstance(self.load, Changes) and self.load.previous_key:
            # Drop other keys that rows of these keys moved to: they were not computed from all their rows.
            made = made.join(keys, list(self.load.key), "left_semi").select(*map(quoted, made.columns))
        return upsert_difference(self.load, keys, made, self._table_rows())

    def replay(self, keys: DataFrame | None) -> Upsert:
        """Recompute the keys of replayed rows from all their rows, and store the keys that these rows delete."""
        if tracks_deleted_keys(self.load):
            is_current = self.deleted_keys.is_current(self.batch.parent)
            rows = self.good if is_current else self.all_rows()
            self.deleted_keys.store(self.load, rows, self.batch, replace_all=not is_current)
        return self.recompute(keys)

    def incremental(self) -> Upsert:
        """Merge the rows of the batch with the rows of the table."""
        load = self.load
        if tracks_deleted_keys(load) and not self.deleted_keys.is_current(self.batch.parent):
            self.deleted_keys.store(load, self.all_rows(), self.batch, replace_all=True)
            return self.recompute(touched_keys(load, self.good))
        if isinstance(load, Scd2):
            return self._merge_history(load)
        if isinstance(load, Snapshot):
            return self._merge_extracts(load)
        if isinstance(load, Changes) and not self.good.where(f"{operation_sql(load)} = 'truncate'").isEmpty():
            self.deleted_keys.store(load, self.all_rows(), self.batch, replace_all=True)
            return self.recompute(None)
        types = {column.name: column.type for column in self.facts.columns}
        if tracks_deleted_keys(load):
            assert isinstance(load, Merge | Changes)
            known = self.deleted_keys.read(self.good.sparkSession)  # before this batch adds its own
            self.deleted_keys.store(load, self.good, self.batch, few=self.few)
            return upsert_with_deletes(as_merge(load), self.good, known, types)
        assert isinstance(load, Append | Merge)
        return upsert_rows(load, self.good, types)

    def add_to_totals(self, combine: Mapping[str, str]) -> Upsert:
        """Add the totals of the new rows, by key, to the totals of the table."""
        assert isinstance(self.load, Merge)
        key = list(self.load.key)
        stored = self._table_rows().selectExpr(
            *map(quoted, key), *(f"{quoted(name)} AS {quoted(_STORED + name)}" for name in combine)
        )
        both = self.good.join(stored, key, "left")
        how = {"add": "({old} + {new})", "least": "least({old}, {new})", "greatest": "greatest({old}, {new})"}
        made = {
            # One side may be NULL; least and greatest ignore it.
            name: f"coalesce({how[word].format(old=quoted(_STORED + name), new=quoted(name))}, "
            f"{quoted(_STORED + name)}, {quoted(name)}) AS {quoted(name)}"
            for name, word in combine.items()
        }
        types = {field.name: sql_type(field.dataType) for field in self.good.schema.fields}
        rows = both.selectExpr(*(made.get(name, quoted(name)) for name in self.good.columns))
        cast = [f"CAST({quoted(name)} AS {types[name]}) AS {quoted(name)}" for name in self.good.columns]
        return Upsert(rows=rows.selectExpr(*cast), key=self.load.key, newer="true")

    def _merge_history(self, load: Scd2) -> Upsert:
        """Continue the open intervals of keys without late rows. Recompute the other keys from all their rows."""
        # For a key without an open interval, the deleted keys have its end.
        now = self._cached(self._matching_rows(load.key).where(IS_CURRENT))
        known = self.deleted_keys.read(self.good.sparkSession) if tracks_deleted_keys(load) else None
        late = late_keys(load, self.good, now, known)
        if late.isEmpty():
            self.deleted_keys.store(load, self.good, self.batch, few=self.few)
            # A continued interval keeps its start, so no row is deleted.
            continued = intervals(load, continue_intervals(load, self.good, now))
            return replace(upsert_without_deletes(load, continued, now), matched=(self.facts.version, now))
        key = list(load.key)
        old = self._cached(self._matching_rows(load.key))
        rows, before = (frame.join(late, key, "left_anti") for frame in (self.good, old))
        continued = intervals(load, continue_intervals(load, rows, before))
        history = rows_for_keys(load, self.all_rows(), late)
        recomputed = upsert_difference(load, None, intervals(load, history), old.join(late, key, "left_semi"))
        self.deleted_keys.store(load, rows.unionByName(history), self.batch)
        both = continued.selectExpr("*", f"false AS {DELETE_ROW}").unionByName(recomputed.rows)
        return replace(recomputed, rows=both, matched=(self.facts.version, old))

    def _merge_extracts(self, load: Snapshot) -> Upsert:
        """Compare later extracts with the stored rows, and merge only the changes: Delta's MERGE rewrites every file
        with a matching row, even when the row does not change."""
        if not are_later(load, self.good, self.batch.newest_extract):
            return self.recompute(None)
        old = self._table_rows()
        current = old if load.into == "merge" else old.where(IS_CURRENT)
        if load.max_shrink is not None:
            new = extract_sizes(load, self.good)
            fail_if_shrunk(load, [(None, current.count()), *new], dict(new))
        stored = sparse_columns(self.good, {name: quoted(name) for name in payload(self.good) if name in old.columns})
        if load.into == "merge":
            events = extract_changes(load, self.good, current.selectExpr(*stored))
            last = greatest(load.key, (load.taken,), events)
            return Upsert(rows=last.withColumnRenamed(IS_DELETE, DELETE_ROW), key=load.key, newer="true")
        events = extract_changes(load, self.good, current.selectExpr(*stored, f"{VALID_FROM} AS {SINCE}"))
        # A continued interval keeps its start, so no row is deleted.
        return upsert_without_deletes(load, intervals(as_history(load), events), old)

    def _cached(self, frame: DataFrame) -> DataFrame:
        self.cached.append(frame.persist())
        return frame

    def _matching_rows(self, key: Sequence[str]) -> DataFrame:
        """Return the table rows of the batch's keys, with their positions in files."""
        from pyspark.sql import functions as F

        old = self.format.read(self.good.sparkSession, self.facts.folder, self.facts.version, positions=True)
        keys = self.good.select(*map(quoted, key))
        if self.large:
            count, inside = bounds(keys, key[0])
            if inside and old.schema[key[0]].dataType == keys.schema[key[0]].dataType:
                old = old.where(inside)
            keys = F.broadcast(keys) if count <= BROADCAST_ROWS else keys
        return old.join(keys, list(key), "left_semi")

    def _table_rows(self) -> DataFrame:
        return self.format.read(self.good.sparkSession, self.facts.folder, self.facts.version)
