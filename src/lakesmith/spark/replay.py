"""Replays quarantined rows: judges them by the current rules and commits those that pass through the table's load.

Three commits carry the same sequence number: to the table, to the quarantine decisions, and to the quarantine, which
removes the rows. The batch is pinned before the first commit. When a run stops in between, the next run completes the
batch from the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from lakesmith.columns import AUDIT, CORRUPT, DELETE_ROW, ERROR_CODE, HIDDEN, RESCUED
from lakesmith.declare import Append, Source, Table
from lakesmith.failpoints import failpoint
from lakesmith.ledger.batch import Batch, CompletedBatch
from lakesmith.ledger.batches import committed_version, flow
from lakesmith.plan.steps import Replay
from lakesmith.ports import CommitResult, TableFacts, TableFolder, TableFormat, Upsert, Write, find_commit
from lakesmith.quality import RowRule, Rules, rules_of
from lakesmith.quality.rules import unreadable_version
from lakesmith.spark.build import Built, cast_to_declared, full_query
from lakesmith.spark.incoming import BatchResult, IncomingBatch
from lakesmith.spark.loads import is_keyed
from lakesmith.spark.loads.touched_keys import touched_keys
from lakesmith.spark.row_checks import check_rows, field_paths, good_rows, rolled_back
from lakesmith.spark.rule_flags import add_rule_flags, is_comparable, without_own_rows
from lakesmith.spark.types import EXACT_JSON, parse_columns, sql_type
from lakesmith.spark.write import BatchWriter
from lakesmith.sql import literal, quoted
from lakesmith.store import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ID, _FIXED, _BAD, _ROW, _TEXT, _FIELDS, _WAS_BAD, _MISFIT = (
    f"{HIDDEN}{name}" for name in ("id", "is_fixed", "bad", "row", "text", "fields", "was_bad", "misfit")
)
_FIX = "fix"
"""The rule that a row fails when a fix sets a value that its column cannot hold."""


@dataclass(frozen=True, kw_only=True)
class QuarantineReplay:
    """One pinned batch of rows from a table's quarantine."""

    spark: SparkSession
    table: Table
    batch: Batch
    replay: Replay
    facts: TableFacts | None
    format: TableFormat
    warehouse: Warehouse
    is_committed: bool = False
    """Whether `facts` describe the table after this batch, because the version before it is no longer readable."""

    def commit_batch(self) -> BatchResult | None:
        """Commit the rows that pass and remove them from the quarantine. Return None when no rows are selected."""
        rows_in = self._chosen().count()
        if not rows_in:
            return None
        if self.replay.discard:
            return self._discard(rows_in, committed=None)
        with self._check_selected() as (checked, good, passed):
            written = self._commit(checked, good, passed)
            self._take_out(good)
        return self._replayed(rows_in, passed, written)

    def finish(self) -> BatchResult:
        """Complete a batch whose rows are committed to the table already."""
        rows_in = self._chosen().count()
        batch = self.batch
        made = find_commit(self.format.commits(self._folder), self._flow, batch.sequence, batch.note)
        if made is None:
            written = CommitResult(version=committed_version(batch, self.format.commits(self._folder)))
        else:
            written = self.format.commit_result(made)
        if self.replay.discard:
            return self._discard(rows_in, committed=written)
        # Check the batch as before: against the table before its commit.
        if made is None or not is_comparable(self._rules, self.format, self._folder, made.version - 1):
            earlier = replace(self, is_committed=True)
        else:
            before = replace(self.facts, version=made.version - 1) if self.facts and made.version else None
            earlier = replace(self, facts=before)
        with earlier._check_selected() as (_, good, passed):
            earlier._take_out(good)
        # The table has the batch number, so it has all rows that passed, although the commit with the counts is gone.
        return self._replayed(rows_in, passed, written if made else replace(written, inserted=passed))

    @contextmanager
    def _check_selected(self) -> Iterator[tuple[DataFrame, DataFrame, int]]:
        """Yield the checked rows, the rows that pass, and their number."""
        checked = self._checked_rows().persist()
        try:
            good = good_rows(checked, self._rules)
            yield checked, good, good.count()
        finally:
            checked.unpersist()

    def _discard(self, rows_in: int, *, committed: CommitResult | None) -> BatchResult:
        committed = committed or self._commit_nothing()
        rows = self._chosen().selectExpr(f"id AS {_ID}", "CAST(NULL AS string) AS fixed")
        self._store_decisions(rows, "discarded")
        return self._result(
            committed.version, 0, rows_in=rows_in, written=0, quarantined=0, deduplicated=0, discarded=rows_in
        )

    def _replayed(self, rows_in: int, passed: int, written: CommitResult) -> BatchResult:
        stored = written.inserted + written.updated + (written.deleted if is_keyed(self.table.load) else 0)
        stored = min(passed, stored)
        return self._result(
            written.version,
            written.bytes,
            rows_in=rows_in,
            written=stored,
            quarantined=rows_in - passed,
            deduplicated=passed - stored,
            discarded=0,
        )

    def _result(
        self,
        version: int,
        bytes: int,
        *,
        rows_in: int,
        written: int,
        quarantined: int,
        deduplicated: int,
        discarded: int,
    ) -> BatchResult:
        done = CompletedBatch(
            sequence=self.batch.sequence,
            attempt=self.batch.attempt,
            version=version,
            run_id=self.batch.run_id,
            rows_in=rows_in,
            rows_written=written,
            rows_quarantined=quarantined,
            rows_deduplicated=deduplicated,
            rows_discarded=discarded,
            # The next batch determines again which extracts the table has.
            newest_extract=None if written or deduplicated else self.batch.newest_extract,
        )
        return BatchResult(done=done, bytes=bytes, checks=())

    @property
    def _folder(self) -> TableFolder:
        return self.warehouse.table(self.table.name)

    @property
    def _flow(self) -> str:
        return flow(self.table.name)

    def _chosen(self) -> DataFrame:
        """Return the selected rows of the quarantine."""
        chosen, conditions = self.replay.chosen, []
        if chosen.ids:
            conditions.append(f"id IN ({', '.join(map(literal, chosen.ids))})")
        if chosen.rule is not None:
            conditions.append(f"array_contains(rules, {literal(chosen.rule)})")
        if chosen.reason is not None:
            conditions.append(f"contains(array_join(reasons, '; '), {literal(chosen.reason)})")
        if chosen.batch is not None:
            conditions.append(f"batch = {chosen.batch}")
        if chosen.older_than is not None:
            before = self.replay.moment - int(chosen.older_than * 1000)
            conditions.append(f"quarantined_at < timestamp_millis({before})")
        if self.batch.follows_rollback:  # rows of batches that were rolled back are ingested again
            conditions.append(f"NOT ({rolled_back(self.batch)})")
        rows = self._quarantined()
        return rows.where(" AND ".join(f"({each})" for each in conditions)) if conditions else rows

    def _quarantined(self) -> DataFrame:
        """Return all rows of the quarantine."""
        return self.format.read(self.spark, self.warehouse.quarantine(self.table.name), self.replay.version)

    @cached_property
    def _current_rules(self) -> Rules:
        built = self._cast(self._source_rows(self._chosen().limit(0), fixed=False))
        fields = field_paths(built.rows) if isinstance(self.table.origin, Source) else ()
        return rules_of(
            self.table, casts=built.casts, fields=fields, missing=built.missing, undeclared=built.undeclared
        )

    @cached_property
    def _rules(self) -> Rules:
        """Return the current row rules. A rule that would fail the batch quarantines the row instead."""
        rows = tuple(
            replace(rule, limit=None, severity="quarantine" if rule.severity == "fail" else rule.severity)
            for rule in self._current_rules.rows
        )
        fits = RowRule(
            name=_FIX,
            condition=f"{_MISFIT} IS NULL",
            severity="quarantine",
            reason="the fix sets a value that the column cannot hold",
            declared_at=self.table.declared_at,
        )
        return Rules(rows=(*rows, fits), batch=())

    def _checked_rows(self) -> DataFrame:
        """Return the rows with the rules that they fail. Only rows that fail unchanged are fixed."""
        plain = self._cast(self._source_rows(self._chosen(), fixed=False)).rows
        if not (self.replay.set or self.replay.edits):
            return self._checked(plain)
        fine = good_rows(self._checked(plain), self._rules).select(_ID)
        others = self._chosen().join(fine.withColumnRenamed(_ID, "id"), "id", "left_anti")
        fixed = self._cast(self._source_rows(others, fixed=True)).rows
        # Check all rows together: a fixed row may have become a duplicate of another row.
        return self._checked(plain.join(fine, _ID, "left_semi").select(*plain.columns).unionByName(fixed))

    def _checked(self, rows: DataFrame) -> DataFrame:
        return check_rows(add_rule_flags(self._incoming(rows), self.format, self.warehouse))

    def _incoming(self, rows: DataFrame, rules: Rules | None = None) -> IncomingBatch:
        incoming = IncomingBatch(
            table=self.table,
            batch=self.batch,
            rows=rows,
            rules=rules or self._rules,
            facts=self.facts,
            evolve=False,
        )
        return without_own_rows(incoming) if self.is_committed else incoming

    def _cast(self, rows: DataFrame) -> Built:
        if isinstance(self.table.origin, Source):
            return Built(rows=rows, casts={})
        return cast_to_declared(
            self.spark, self.table, rows, [name for name in rows.columns if name in (_ID, _FIXED, _MISFIT)]
        )

    @cached_property
    def _schema(self) -> StructType:
        """Return the columns of the rows before casts."""
        if not isinstance(self.table.origin, Source):
            return full_query(self.spark, self.table, self.batch, self.format, self.warehouse).schema
        if self.facts is not None:
            known = {column.name: column.type for column in self.facts.columns}
        else:
            known = {column.name: column.type or "string" for column in self.table.columns}
        return parse_columns(self.spark, {name: type for name, type in known.items() if name not in AUDIT})

    def _source_rows(self, quarantined: DataFrame, *, fixed: bool) -> DataFrame:
        """Turn quarantined rows back into rows of the table's query or source."""
        fixes = dict(self.replay.set) if fixed else {}
        raw = fixes.pop("raw", None)
        from_source = isinstance(self.table.origin, Source)
        fields = [*(f"{quoted(f.name)} {sql_type(f.dataType)}" for f in self._schema.fields), f"{_BAD} string"]
        fields += [f"{RESCUED} string"] if from_source else []
        options = EXACT_JSON.removesuffix(")") + f", 'columnNameOfCorruptRecord', '{_BAD}')"
        rows = quarantined.selectExpr(
            "*",
            f"from_json({f'({raw})' if raw else 'raw'}, {literal(', '.join(fields))}, {options}) AS {_ROW}",
            f"id AS {_ID}",
            f"raw AS {_TEXT}",
            f"fields AS {_FIELDS}",
            f"coalesce(array_contains(rule_versions, {literal(unreadable_version())}), false) AS {_WAS_BAD}",
        )
        values = {
            f.name: self._column_value(f.name, str(sql_type(f.dataType)), fixes, fixed=fixed)
            for f in self._schema.fields
        }
        misfits = [misfit for _, misfit in values.values() if misfit]
        rows = rows.selectExpr(
            *(f"{value} AS {quoted(name)}" for name, (value, _) in values.items()),
            *(_ROW, _ID, _TEXT, _FIELDS, _WAS_BAD),
            f"{str(fixed).lower()} AS {_FIXED}",
            f"CASE WHEN {' OR '.join(misfits) or 'false'} THEN true END AS {_MISFIT}",
        )
        if not from_source:
            return rows.drop(_ROW, _TEXT, _FIELDS, _WAS_BAD)
        names = {*fixes, *(name for edits in self.replay.edits.values() for name in edits)} if fixed else set()
        return self._with_audit_columns(rows, reread=raw is not None, fixed=names, edited=fixed)

    def _column_value(self, name: str, type: str, fixes: Mapping[str, str], *, fixed: bool) -> tuple[str, str | None]:
        """Return SQL for the fixed column value, and SQL that is true when the fix does not fit the column."""
        value, misfits = f"{_ROW}.{quoted(name)}", []
        fix = next((each for each in fixes if each.lower() == name.lower()), None)
        if fix is not None:
            new_value = f"({self._qualify(fixes[fix])})"
            value = f"try_cast({new_value} AS {type})"
            misfits.append(f"({new_value} IS NOT NULL AND {value} IS NULL)")
        edits = {
            row: text
            for row, values in self.replay.edits.items()
            for column, text in values.items()
            if column.lower() == name.lower()
        }
        if fixed and edits:
            pairs = ", ".join(
                f"{literal(row)}, {'CAST(NULL AS string)' if text is None else literal(text)}"
                for row, text in edits.items()
            )
            has, new_value = f"map_contains_key(map({pairs}), id)", f"try_element_at(map({pairs}), id)"
            value = f"IF({has}, try_cast({new_value} AS {type}), {value})"
            misfits.append(f"({has} AND {new_value} IS NOT NULL AND try_cast({new_value} AS {type}) IS NULL)")
        return value, " OR ".join(misfits) or None

    def _qualify(self, expression: str) -> str:
        """Return the expression with its columns qualified by the parsed row."""
        import sqlglot
        from sqlglot import exp

        names = {field.name.lower() for field in self._schema.fields}

        def own(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() in names:
                return exp.Dot(this=exp.to_identifier(_ROW), expression=exp.to_identifier(node.name, quoted=True))
            return node

        return sqlglot.parse_one(expression, dialect="spark").transform(own).sql(dialect="spark")

    def _with_audit_columns(self, rows: DataFrame, *, reread: bool, fixed: Set[str], edited: bool) -> DataFrame:
        """Add the audit columns of a bronze row, and the marker of rows that still cannot be parsed."""
        known = [c for c in self.facts.columns if c.name in AUDIT] if self.facts else []
        rescued = f"{_ROW}.{RESCUED}"
        if fixed:
            names = ", ".join(literal(name.lower()) for name in sorted(fixed))
            left = f"map_filter(from_json({rescued}, 'map<string,string>'), (name, _) -> lower(name) NOT IN ({names}))"
            rescued = f"nullif(to_json({left}), '{{}}')"
        own = {
            "_ingested_at": f"timestamp_millis({self.batch.pinned_at})",
            "_run_id": literal(self.batch.run_id),
            RESCUED: rescued,
        }
        types = ", ".join(f"{quoted(c.name)} {c.type}" for c in known if c.name not in own)
        audit = f"from_json({_FIELDS}, {literal(types)}, {EXACT_JSON})" if types else "NULL"
        shown = [quoted(f.name) for f in self._schema.fields]
        shown += [f"{own.get(c.name, f'audit.{quoted(c.name)}')} AS {quoted(c.name)}" for c in known]
        shown += [] if any(c.name == RESCUED for c in known) else [f"{rescued} AS {RESCUED}"]
        # An unparsable row becomes readable only when its raw text or its values are fixed.
        ids = ", ".join(map(literal, self.replay.edits)) if edited else ""
        readable = [f"{_ID} IN ({ids})"] if ids else []
        readable += [f"({_ROW} IS NOT NULL AND {_ROW}.{_BAD} IS NULL)"] if reread else []
        bad = f"CASE WHEN {_WAS_BAD} AND NOT ({' OR '.join(readable) or 'false'}) THEN {_TEXT} END"
        return rows.selectExpr("*", f"{audit} AS audit").selectExpr(
            *shown, f"{bad} AS {CORRUPT}", f"CAST(NULL AS string) AS {ERROR_CODE}", *(_ID, _FIXED, _MISFIT)
        )

    def _commit(self, checked: DataFrame, good: DataFrame, passed: int) -> CommitResult:
        incoming = self._incoming(checked)
        if not passed:
            return self._commit_nothing()
        load = self.table.load
        if is_keyed(load) and not isinstance(load, Append) and self.facts is not None:
            query = partial(full_query, self.spark, self.table, self.batch, self.format, self.warehouse)
            incoming = replace(
                incoming,
                all_rows=lambda: self._cast(query()).rows,
                # Rows that an approval let through must stay.
                all_rows_rules=self._current_rules,
                fixed_rows=good.where(_FIXED),
                keys=touched_keys(load, good),
            )
        return BatchWriter(self.format, self.warehouse).commit(incoming, good)

    def _commit_nothing(self) -> CommitResult:
        """Commit the batch number without rows, where there is a table."""
        if self.facts is None:
            return CommitResult(version=0)
        batch = self.batch
        write = Write(flow=self._flow, sequence=batch.sequence, note=batch.note, based_on=batch.base_version)
        return self.format.advance(self._folder, write, self.spark)

    def _take_out(self, good: DataFrame) -> None:
        payload = [name for name in self._incoming(good).payload if name not in AUDIT]
        fixed = f"to_json(struct({', '.join(map(quoted, payload))}), {EXACT_JSON})"
        rows = good.selectExpr(_ID, f"CASE WHEN {_FIXED} THEN {fixed} END AS fixed")
        self._store_decisions(rows, "replayed")

    def _store_decisions(self, decided: DataFrame, decision: str) -> None:
        """Store the decisions about the rows, then remove the rows from the quarantine. Each is committed once."""
        replay, batch = self.replay, self.batch
        folder = self.warehouse.quarantine_decisions(self.table.name)
        rows = self._chosen().join(decided.withColumnRenamed(_ID, "id"), "id")
        decisions = rows.selectExpr(
            "*",
            f"{literal(decision)} AS decision",
            f"{literal(replay.by)} AS decided_by",
            f"{literal(replay.why)} AS decision_reason",
            f"timestamp_millis({batch.pinned_at}) AS decided_at",
            f"{literal(batch.run_id)} AS decided_run",
            f"CAST({batch.sequence} AS bigint) AS decided_batch",
        )
        write = Write(flow=self._flow, sequence=batch.sequence, note=batch.note, evolve=True)
        facts = self.format.facts(folder, self._flow)
        if facts is None or facts.sequence < batch.sequence:
            self.format.append(decisions, folder, write)
        failpoint("decisions.committed", self.table.name)
        quarantine = self.warehouse.quarantine(self.table.name)
        own_sequence = self.format.facts(quarantine, self._flow)
        if own_sequence is not None and own_sequence.sequence < batch.sequence:
            removed = decided.selectExpr(f"{_ID} AS id", f"true AS {DELETE_ROW}")
            if batch.follows_rollback:
                stale = self._quarantined().where(rolled_back(batch))
                removed = removed.unionByName(stale.selectExpr("id", f"true AS {DELETE_ROW}"))
            upsert = Upsert(rows=_delete_rows(self._chosen(), removed), key=("id",), newer="true")
            self.format.merge(upsert, quarantine, replace(write, evolve=False))
        failpoint("quarantine.committed", self.table.name)


def _delete_rows(columns: DataFrame, removed: DataFrame) -> DataFrame:
    """Return delete rows with all columns of the quarantine."""
    others = [f for f in columns.schema.fields if f.name != "id"]
    return removed.selectExpr(
        "id", *(f"CAST(NULL AS {sql_type(f.dataType)}) AS {quoted(f.name)}" for f in others), DELETE_ROW
    )
