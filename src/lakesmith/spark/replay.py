"""Rows of a quarantine are judged by today's rules; those that pass enter the table through its own load, once.

Three commits carry the same sequence number: the table's, that of what became of the rows, and that which takes them
out of the quarantine. The batch is pinned before the first, so that a run which is cut short between them is seen
through by the next one from the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lakesmith.columns import AUDIT, CODE, CORRUPT, GONE, HIDDEN, RESCUED
from lakesmith.declare import Append, Source, Table
from lakesmith.failpoints import reach
from lakesmith.ledger.batch import Batch, Done
from lakesmith.ledger.batches import flow, version_of
from lakesmith.plan.steps import Replay
from lakesmith.ports import TableFacts, TableFormat, Upsert, Write, Written, find_commit
from lakesmith.quality import RowRule, Rules, rules_of
from lakesmith.quality.rules import unreadable_version
from lakesmith.spark.build import Built, typed, whole_query
from lakesmith.spark.checked import checked, field_paths, good_rows, rolled_back
from lakesmith.spark.flags import flagged, is_comparable, without_own_rows
from lakesmith.spark.incoming import BatchResult, IncomingBatch
from lakesmith.spark.loads import is_keyed
from lakesmith.spark.loads.keys import touched_keys
from lakesmith.spark.types import EXACT_JSON, parse_columns, spelt
from lakesmith.spark.write import Writer
from lakesmith.sql import literal, quoted
from lakesmith.storage import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ID, _MENDED, _BAD, _ROW, _TEXT, _FIELDS, _WAS_BAD, _MISFIT = (
    f"{HIDDEN}{name}" for name in ("id", "is_mended", "bad", "row", "text", "fields", "was_bad", "misfit")
)
_MEND = "mend"
"""The rule that a row breaks when it is given a value that its column cannot hold."""


@dataclass(frozen=True, kw_only=True)
class Replaying:
    """One pinned batch of rows out of a table's quarantine."""

    spark: SparkSession
    table: Table
    batch: Batch
    facts: TableFacts | None
    format: TableFormat
    warehouse: Warehouse
    is_there: bool = False
    """Whether `facts` are those of the table with this batch, because the version before it cannot be read any more."""

    @property
    def _replay(self) -> Replay:
        assert self.batch.replay is not None
        return self.batch.replay

    def settle(self) -> BatchResult | None:
        """Commit what passes, and take it out of the quarantine; None where no row is meant."""
        came = self._chosen().count()
        if not came:
            return None
        if self._replay.discard:
            return self._discard(came, committed=None)
        with self._passing() as (judged, good, passed):
            written = self._commit(judged, good, passed)
            self._put_aside(good)
        return self._settled(came, passed, written)

    def finish(self) -> BatchResult:
        """See a batch through whose rows are in the table already."""
        came = self._chosen().count()
        batch = self.batch
        made = find_commit(self.format.commits(self._location), self._flow, batch.sequence, batch.note)
        if made is None:
            written = Written(version=version_of(batch, self.format.commits(self._location)))
        else:
            written = self.format.written(made)
        if self._replay.discard:
            return self._discard(came, committed=written)
        # As it was judged: against the table before the batch was in it.
        if made is None or not is_comparable(self._rules, self.format, self._location, made.version - 1):
            earlier = replace(self, is_there=True)
        else:
            before = replace(self.facts, version=made.version - 1) if self.facts and made.version else None
            earlier = replace(self, facts=before)
        with earlier._passing() as (_, good, passed):
            earlier._put_aside(good)
        # The table has the number of the batch, so it has its rows: with no commit left that counts them, all.
        return self._settled(came, passed, written if made else replace(written, inserted=passed))

    @contextmanager
    def _passing(self) -> Iterator[tuple[DataFrame, DataFrame, int]]:
        """The rows with what the rules think of them, those that pass, and how many these are."""
        judged = self._judged().persist()
        try:
            good = good_rows(judged, self._rules)
            yield judged, good, good.count()
        finally:
            judged.unpersist()

    def _discard(self, came: int, *, committed: Written | None) -> BatchResult:
        if committed is None and self.facts is not None:
            committed = self._advanced()
        rows = self._chosen().selectExpr(f"id AS {_ID}", "CAST(NULL AS string) AS mended")
        self._keep(rows, "discarded")
        version = committed.version if committed else 0
        return self._closed(version, 0, came=came, written=0, refused=0, deduplicated=0, discarded=came)

    def _settled(self, came: int, passed: int, written: Written) -> BatchResult:
        kept = written.inserted + written.updated + (written.deleted if is_keyed(self.table.load) else 0)
        kept = min(passed, kept)
        return self._closed(
            written.version,
            written.bytes,
            came=came,
            written=kept,
            refused=came - passed,
            deduplicated=passed - kept,
            discarded=0,
        )

    def _closed(
        self, version: int, bytes: int, *, came: int, written: int, refused: int, deduplicated: int, discarded: int
    ) -> BatchResult:
        done = Done(
            sequence=self.batch.sequence,
            attempt=self.batch.attempt,
            version=version,
            run_id=self.batch.run_id,
            rows_in=came,
            rows_written=written,
            rows_quarantined=refused,
            rows_deduplicated=deduplicated,
            rows_discarded=discarded,
            # Which extracts the rows belong to is left to the next batch to find out.
            newest_extract=None if written or deduplicated else self.batch.newest_extract,
        )
        return BatchResult(done=done, bytes=bytes, checks=())

    @property
    def _location(self) -> str:
        return self.warehouse.table(self.table.name)

    @property
    def _flow(self) -> str:
        return flow(self.table.name)

    def _chosen(self) -> DataFrame:
        """The rows of the quarantine that are meant."""
        chosen, conditions = self._replay.chosen, []
        if chosen.ids:
            conditions.append(f"id IN ({', '.join(map(literal, chosen.ids))})")
        if chosen.rule is not None:
            conditions.append(f"array_contains(rules, {literal(chosen.rule)})")
        if chosen.reason is not None:
            conditions.append(f"contains(array_join(reasons, '; '), {literal(chosen.reason)})")
        if chosen.batch is not None:
            conditions.append(f"batch = {chosen.batch}")
        if chosen.older_than is not None:
            before = self._replay.moment - int(chosen.older_than * 1000)
            conditions.append(f"quarantined_at < timestamp_millis({before})")
        if self.batch.follows_rollback:  # they are no part of the table's past any more, and come again
            conditions.append(f"NOT ({rolled_back(self.batch)})")
        rows = self._quarantined()
        return rows.where(" AND ".join(f"({each})" for each in conditions)) if conditions else rows

    def _quarantined(self) -> DataFrame:
        """All rows of the quarantine."""
        return self.format.read(self.spark, self.warehouse.quarantine(self.table.name), self._replay.version)

    @cached_property
    def _todays_rules(self) -> Rules:
        built = self._typed(self._rows(self._chosen().limit(0), mended=False))
        fields = field_paths(built.rows) if isinstance(self.table.origin, Source) else ()
        return rules_of(
            self.table, casts=built.casts, fields=fields, missing=built.missing, undeclared=built.undeclared
        )

    @cached_property
    def _rules(self) -> Rules:
        """Today's rules on rows: one that would stop a batch keeps a row in quarantine."""
        rows = tuple(
            replace(rule, limit=None, severity="quarantine" if rule.severity == "fail" else rule.severity)
            for rule in self._todays_rules.rows
        )
        fits = RowRule(
            name=_MEND,
            condition=f"{_MISFIT} IS NULL",
            severity="quarantine",
            reason="it was given a value that its column cannot hold",
            declared_at=self.table.declared_at,
        )
        return Rules(rows=(*rows, fits), batch=())

    def _judged(self) -> DataFrame:
        """The rows with the rules that they break: as they are, and where that is not good, as they are mended."""
        plain = self._typed(self._rows(self._chosen(), mended=False)).rows
        if not (self._replay.set or self._replay.edits):
            return self._checked(plain)
        fine = good_rows(self._checked(plain), self._rules).select(_ID)
        others = self._chosen().join(fine.withColumnRenamed(_ID, "id"), "id", "left_anti")
        mended = self._typed(self._rows(others, mended=True)).rows
        # All of them together: rows that are mended may be the same as others by now.
        return self._checked(plain.join(fine, _ID, "left_semi").select(*plain.columns).unionByName(mended))

    def _checked(self, rows: DataFrame) -> DataFrame:
        return checked(flagged(self._arrival(rows), self.format, self.warehouse))

    def _arrival(self, rows: DataFrame, rules: Rules | None = None) -> IncomingBatch:
        arrival = IncomingBatch(
            table=self.table,
            batch=self.batch,
            rows=rows,
            rules=rules or self._rules,
            facts=self.facts,
            evolve=False,
        )
        return without_own_rows(arrival) if self.is_there else arrival

    def _typed(self, rows: DataFrame) -> Built:
        if isinstance(self.table.origin, Source):
            return Built(rows=rows, casts={})
        return typed(self.spark, self.table, rows, [name for name in rows.columns if name in (_ID, _MENDED, _MISFIT)])

    @cached_property
    def _schema(self) -> StructType:
        """The columns that the rows had before they were cast."""
        if not isinstance(self.table.origin, Source):
            return whole_query(self.spark, self.table, self.batch, self.format, self.warehouse).schema
        if self.facts is not None:
            known = {column.name: column.type for column in self.facts.columns}
        else:
            known = {column.name: column.type or "string" for column in self.table.columns}
        return parse_columns(self.spark, {name: type for name, type in known.items() if name not in AUDIT})

    def _rows(self, kept: DataFrame, *, mended: bool) -> DataFrame:
        """Rows of the quarantine as rows of the table's query or source again."""
        mends = dict(self._replay.set) if mended else {}
        raw = mends.pop("raw", None)
        from_source = isinstance(self.table.origin, Source)
        told = [*(f"{quoted(f.name)} {spelt(f.dataType)}" for f in self._schema.fields), f"{_BAD} string"]
        told += [f"{RESCUED} string"] if from_source else []
        options = EXACT_JSON.removesuffix(")") + f", 'columnNameOfCorruptRecord', '{_BAD}')"
        rows = kept.selectExpr(
            "*",
            f"from_json({f'({raw})' if raw else 'raw'}, {literal(', '.join(told))}, {options}) AS {_ROW}",
            f"id AS {_ID}",
            f"raw AS {_TEXT}",
            f"fields AS {_FIELDS}",
            f"coalesce(array_contains(rule_versions, {literal(unreadable_version())}), false) AS {_WAS_BAD}",
        )
        values = {f.name: self._value(f.name, spelt(f.dataType), mends, mended=mended) for f in self._schema.fields}
        misfits = [misfit for _, misfit in values.values() if misfit]
        rows = rows.selectExpr(
            *(f"{value} AS {quoted(name)}" for name, (value, _) in values.items()),
            *(_ROW, _ID, _TEXT, _FIELDS, _WAS_BAD),
            f"{str(mended).lower()} AS {_MENDED}",
            f"CASE WHEN {' OR '.join(misfits) or 'false'} THEN true END AS {_MISFIT}",
        )
        if not from_source:
            return rows.drop(_ROW, _TEXT, _FIELDS, _WAS_BAD)
        names = {*mends, *(name for edits in self._replay.edits.values() for name in edits)} if mended else set()
        return self._as_arrived(rows, reread=raw is not None, mended=names, edited=mended)

    def _value(self, name: str, type: str, mends: Mapping[str, str], *, mended: bool) -> tuple[str, str | None]:
        """SQL: the column with what mends it; and: it is given what it cannot hold."""
        value, misfits = f"{_ROW}.{quoted(name)}", []
        spelt_as = next((each for each in mends if each.lower() == name.lower()), None)
        if spelt_as is not None:
            given = f"({self._over_row(mends[spelt_as])})"
            value = f"try_cast({given} AS {type})"
            misfits.append(f"({given} IS NOT NULL AND {value} IS NULL)")
        edits = {
            row: text
            for row, values in self._replay.edits.items()
            for column, text in values.items()
            if column.lower() == name.lower()
        }
        if mended and edits:
            pairs = ", ".join(
                f"{literal(row)}, {'CAST(NULL AS string)' if text is None else literal(text)}"
                for row, text in edits.items()
            )
            has, given = f"map_contains_key(map({pairs}), id)", f"try_element_at(map({pairs}), id)"
            value = f"IF({has}, try_cast({given} AS {type}), {value})"
            misfits.append(f"({has} AND {given} IS NOT NULL AND try_cast({given} AS {type}) IS NULL)")
        return value, " OR ".join(misfits) or None

    def _over_row(self, expression: str) -> str:
        """SQL: an expression whose columns are those of the row."""
        import sqlglot
        from sqlglot import exp

        names = {field.name.lower() for field in self._schema.fields}

        def own(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() in names:
                return exp.Dot(this=exp.to_identifier(_ROW), expression=exp.to_identifier(node.name, quoted=True))
            return node

        return sqlglot.parse_one(expression, dialect="spark").transform(own).sql(dialect="spark")

    def _as_arrived(self, rows: DataFrame, *, reread: bool, mended: Set[str], edited: bool) -> DataFrame:
        """With the columns that tell where a bronze row came from, and whether it can be read by now."""
        known = [c for c in self.facts.columns if c.name in AUDIT] if self.facts else []
        beside = f"{_ROW}.{RESCUED}"
        if mended:
            gone = ", ".join(literal(name.lower()) for name in sorted(mended))
            left = f"map_filter(from_json({beside}, 'map<string,string>'), (name, _) -> lower(name) NOT IN ({gone}))"
            beside = f"nullif(to_json({left}), '{{}}')"
        own = {
            "_ingested_at": f"timestamp_millis({self.batch.pinned_at})",
            "_run_id": literal(self.batch.run_id),
            RESCUED: beside,
        }
        types = ", ".join(f"{quoted(c.name)} {c.type}" for c in known if c.name not in own)
        audit = f"from_json({_FIELDS}, {literal(types)}, {EXACT_JSON})" if types else "NULL"
        shown = [quoted(f.name) for f in self._schema.fields]
        shown += [f"{own.get(c.name, f'audit.{quoted(c.name)}')} AS {quoted(c.name)}" for c in known]
        shown += [] if any(c.name == RESCUED for c in known) else [f"{beside} AS {RESCUED}"]
        # What nobody could read is read only when somebody has mended its text, or given its values.
        ids = ", ".join(map(literal, self._replay.edits)) if edited else ""
        readable = [f"{_ID} IN ({ids})"] if ids else []
        readable += [f"({_ROW} IS NOT NULL AND {_ROW}.{_BAD} IS NULL)"] if reread else []
        bad = f"CASE WHEN {_WAS_BAD} AND NOT ({' OR '.join(readable) or 'false'}) THEN {_TEXT} END"
        return rows.selectExpr("*", f"{audit} AS audit").selectExpr(
            *shown, f"{bad} AS {CORRUPT}", f"CAST(NULL AS string) AS {CODE}", *(_ID, _MENDED, _MISFIT)
        )

    def _commit(self, judged: DataFrame, good: DataFrame, passed: int) -> Written:
        arrival = self._arrival(judged)
        if not passed:
            return self._nothing(arrival)
        load = self.table.load
        if is_keyed(load) and not isinstance(load, Append) and self.facts is not None:
            raw = whole_query(self.spark, self.table, self.batch, self.format, self.warehouse)
            arrival = replace(
                arrival,
                whole=self._typed(raw).rows,
                # What was approved at the time has to stay.
                whole_rules=self._todays_rules,
                beside=good.where(_MENDED),
                keys=touched_keys(load, good),
            )
        return Writer(self.format, self.warehouse).commit(arrival, good)

    def _nothing(self, arrival: IncomingBatch) -> Written:
        if arrival.facts is None:
            return Written(version=0)
        return self._advanced()

    def _advanced(self) -> Written:
        """Commit the batch's number, and no row."""
        batch = self.batch
        write = Write(flow=self._flow, sequence=batch.sequence, note=batch.note, since=batch.continues)
        return self.format.advance(self._location, write, self.spark)

    def _put_aside(self, good: DataFrame) -> None:
        payload = [name for name in self._arrival(good).payload if name not in AUDIT]
        mended = f"to_json(struct({', '.join(map(quoted, payload))}), {EXACT_JSON})"
        rows = good.selectExpr(_ID, f"CASE WHEN {_MENDED} THEN {mended} END AS mended")
        self._keep(rows, "replayed")

    def _keep(self, settled: DataFrame, how: str) -> None:
        """Write down what became of rows, then take them out of the quarantine; each is done once."""
        replay, batch = self._replay, self.batch
        location = self.warehouse.settled(self.table.name)
        rows = self._chosen().join(settled.withColumnRenamed(_ID, "id"), "id")
        told = rows.selectExpr(
            "*",
            f"{literal(how)} AS how",
            f"{literal(replay.by)} AS settled_by",
            f"{literal(replay.why)} AS settled_why",
            f"timestamp_millis({batch.pinned_at}) AS settled_at",
            f"{literal(batch.run_id)} AS settled_run",
            f"CAST({batch.sequence} AS bigint) AS settled_batch",
        )
        write = Write(flow=self._flow, sequence=batch.sequence, note=batch.note, evolve=True)
        facts = self.format.facts(location, self._flow)
        if facts is None or facts.sequence < batch.sequence:
            self.format.append(told, location, write)
        reach("settled.committed", self.table.name)
        quarantine = self.warehouse.quarantine(self.table.name)
        kept = self.format.facts(quarantine, self._flow)
        if kept is not None and kept.sequence < batch.sequence:
            gone = settled.selectExpr(f"{_ID} AS id", f"true AS {GONE}")
            if batch.follows_rollback:
                stale = self._quarantined().where(rolled_back(batch))
                gone = gone.unionByName(stale.selectExpr("id", f"true AS {GONE}"))
            upsert = Upsert(rows=_shaped_like(self._chosen(), gone), key=("id",), newer="true")
            self.format.merge(upsert, quarantine, replace(write, evolve=False))
        reach("quarantine.committed", self.table.name)


def _shaped_like(columns: DataFrame, gone: DataFrame) -> DataFrame:
    """Rows that stand for those to be taken away, with all columns of the table."""
    others = [f for f in columns.schema.fields if f.name != "id"]
    return gone.selectExpr("id", *(f"CAST(NULL AS {spelt(f.dataType)}) AS {quoted(f.name)}" for f in others), GONE)
