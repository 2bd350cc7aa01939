"""A batch meets a table whose load weighs rows of one key against each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakesmith.columns import GONE, HIDDEN, IS_CURRENT, VALID_FROM
from lakesmith.declare.loads import Append, Changes, Merge, Scd2, Snapshot
from lakesmith.ledger.batch import Batch
from lakesmith.ports import BROADCAST_ROWS, TableFacts, TableFormat, Upsert
from lakesmith.quality.rules import kind
from lakesmith.spark.loads import Shaped, shaped
from lakesmith.spark.loads.deleted_keys import DeletedKeys, as_merge, has_ends
from lakesmith.spark.loads.extracts import are_later, as_events, as_history, refuse_shrunk, sizes
from lakesmith.spark.loads.history import SINCE, intervals
from lakesmith.spark.loads.in_order import continued, late_keys
from lakesmith.spark.loads.keys import rows_of, touched_keys
from lakesmith.spark.loads.order import DELETE, greatest, only, payload
from lakesmith.spark.loads.upsert import additions, difference, of_batch, of_ends
from lakesmith.spark.types import spelt
from lakesmith.sql import bounds, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HELD = f"{HIDDEN}held_"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeInput:
    """What is known when a batch enters a table that is there."""

    load: Shaped
    batch: Batch
    facts: TableFacts
    """The table as it is before."""
    format: TableFormat
    ends: DeletedKeys
    good: DataFrame
    """The rows of the batch that no rule refuses."""
    whole: Callable[[], DataFrame]
    """All rows that the query gives and no rule refuses."""
    large: bool
    """Whether the table is so large that it pays to find out what need not be read."""
    held: list[DataFrame] = field(default_factory=list)
    """What is kept in memory until the rows are written."""

    def recomputed(self, keys: DataFrame | None) -> Upsert:
        """The keys that changes touch, from all their rows; every key when `keys` is None."""
        if isinstance(self.load, Snapshot) and self.load.max_shrink is not None:
            refuse_shrunk(self.load, sizes(self.load, self.whole()), dict(sizes(self.load, self.good)))
        rows = self.whole() if keys is None else rows_of(self.load, self.whole(), keys)
        made = shaped(self.load, rows)
        if keys is not None and isinstance(self.load, Changes) and self.load.previous_key:
            # Of a row that left one of these keys for another, the other is not computed from all its rows.
            made = made.join(keys, list(self.load.key), "left_semi").select(*map(quoted, made.columns))
        return difference(self.load, keys, made, self._old())

    def replayed(self, keys: DataFrame | None) -> Upsert:
        """The keys of rows that leave the quarantine, from all their rows; with them go the ends that they tell."""
        if has_ends(self.load):
            believed = self.ends.follows(self.batch.parent)
            self.ends.keep(self.load, self.good if believed else self.whole(), self.batch, all_there_are=not believed)
        return self.recomputed(keys)

    def followed(self) -> Upsert:
        """The rows of the batch against those of the table."""
        load = self.load
        if has_ends(load) and not self.ends.follows(self.batch.parent):
            self.ends.keep(load, self.whole(), self.batch, all_there_are=True)
            return self.recomputed(touched_keys(load, self.good))
        if isinstance(load, Scd2):
            return self._history(load)
        if isinstance(load, Snapshot):
            return self._extracts(load)
        if isinstance(load, Changes) and not self.good.where(f"{kind(load)} = 'truncate'").isEmpty():
            self.ends.keep(load, self.whole(), self.batch, all_there_are=True)
            return self.recomputed(None)
        types = {column.name: column.type for column in self.facts.columns}
        if has_ends(load):
            assert isinstance(load, Merge | Changes)
            known = self.ends.known(self.good.sparkSession)  # as they are now: what this batch adds is not among them
            self.ends.keep(load, self.good, self.batch)
            return of_ends(as_merge(load), self.good, known, types)
        assert isinstance(load, Append | Merge)
        return of_batch(load, self.good, types)

    def added_up(self, combine: Mapping[str, str]) -> Upsert:
        """What new rows give by key, together with what the table holds of it."""
        assert isinstance(self.load, Merge)
        key = list(self.load.key)
        held = self._old().selectExpr(
            *map(quoted, key), *(f"{quoted(name)} AS {quoted(_HELD + name)}" for name in combine)
        )
        both = self.good.join(held, key, "left")
        how = {"add": "({old} + {new})", "least": "least({old}, {new})", "greatest": "greatest({old}, {new})"}
        made = {
            # One side may have no value; least and greatest pass over it by themselves.
            name: f"coalesce({how[word].format(old=quoted(_HELD + name), new=quoted(name))}, "
            f"{quoted(_HELD + name)}, {quoted(name)}) AS {quoted(name)}"
            for name, word in combine.items()
        }
        types = {field.name: spelt(field.dataType) for field in self.good.schema.fields}
        rows = both.selectExpr(*(made.get(name, quoted(name)) for name in self.good.columns))
        cast = [f"CAST({quoted(name)} AS {types[name]}) AS {quoted(name)}" for name in self.good.columns]
        return Upsert(rows=rows.selectExpr(*cast), key=self.load.key, newer="true")

    def _history(self, load: Scd2) -> Upsert:
        """Rows that are later than all that is known of their key go on from there; the others need its history."""
        # Of a key without an open interval, the end is known.
        now = self._held(self._met(load.key).where(IS_CURRENT))
        known = self.ends.known(self.good.sparkSession) if has_ends(load) else None
        late = late_keys(load, self.good, now, known)
        if late.isEmpty():
            self.ends.keep(load, self.good, self.batch)
            # An interval that goes on keeps its start: none goes away.
            going_on = intervals(load, continued(load, self.good, now))
            return replace(additions(load, going_on, now), met=(self.facts.version, now))
        key = list(load.key)
        old = self._held(self._met(load.key))
        rows, before = (frame.join(late, key, "left_anti") for frame in (self.good, old))
        going_on = intervals(load, continued(load, rows, before))
        history = rows_of(load, self.whole(), late)
        anew = difference(load, None, intervals(load, history), old.join(late, key, "left_semi"))
        self.ends.keep(load, rows.unionByName(history), self.batch)
        both = going_on.selectExpr("*", f"false AS {GONE}").unionByName(anew.rows)
        return replace(anew, rows=both, met=(self.facts.version, old))

    def _extracts(self, load: Snapshot) -> Upsert:
        """Extracts that are later than all others are compared with what the table holds. Only changes are merged:
        Delta's MERGE copies every file in which a row has a match, whether the row changes or not."""
        if not are_later(load, self.good, self.batch.newest_extract):
            return self.recomputed(None)
        old = self._old()
        current = old if load.into == "merge" else old.where(IS_CURRENT)
        if load.max_shrink is not None:
            new = sizes(load, self.good)
            refuse_shrunk(load, [(None, current.count()), *new], dict(new))
        held = only(self.good, {name: quoted(name) for name in payload(self.good) if name in old.columns})
        if load.into == "merge":
            events = as_events(load, self.good, current.selectExpr(*held))
            last = greatest(load.key, (load.taken,), events)
            return Upsert(rows=last.withColumnRenamed(DELETE, GONE), key=load.key, newer="true")
        events = as_events(load, self.good, current.selectExpr(*held, f"{VALID_FROM} AS {SINCE}"))
        # An interval that goes on keeps its start: none goes away.
        return additions(load, intervals(as_history(load), events), old)

    def _held(self, frame: DataFrame) -> DataFrame:
        self.held.append(frame.persist())
        return frame

    def _met(self, key: Sequence[str]) -> DataFrame:
        """The table's rows of the keys that the batch has, with their places."""
        from pyspark.sql import functions as F

        old = self.format.read(self.good.sparkSession, self.facts.location, self.facts.version, places=True)
        keys = self.good.select(*map(quoted, key))
        if self.large:
            count, inside = bounds(keys, key[0])
            if inside and old.schema[key[0]].dataType == keys.schema[key[0]].dataType:
                old = old.where(inside)
            keys = F.broadcast(keys) if count <= BROADCAST_ROWS else keys
        return old.join(keys, list(key), "left_semi")

    def _old(self) -> DataFrame:
        return self.format.read(self.good.sparkSession, self.facts.location, self.facts.version)
