"""Chooses how to build a table: the cheapest mode that provably gives the same rows as a full build.

Where the mode reads more than the new rows, it comes with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lakesmith.declare import (
    Append,
    Changes,
    LakeDeclaration,
    Load,
    Merge,
    Replace,
    ReplacePartitions,
    Scd2,
    Snapshot,
    SqlQuery,
    Table,
    TableName,
)
from lakesmith.declare.spark_type import DecimalType, SimpleType, read_type
from lakesmith.plan.graph import Graph, is_append_only
from lakesmith.plan.steps import Build, BuildMode, LakeFacts, Progress, Step, Widen
from lakesmith.plan.widening import type_change_text
from lakesmith.sqlproof.query import key_finder, partition_source, rowwise, sums, uses_key_finder


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Chooses modes from the facts and from what is planned for the inputs."""

    lake: LakeDeclaration
    graph: Graph
    facts: LakeFacts
    steps: Callable[[TableName], tuple[Step, ...]]
    """The steps that are planned for an input."""

    def cheapest(self, table: Table, progress: Progress, changed: frozenset[TableName]) -> tuple[BuildMode, str | None]:
        """Return the cheapest mode that gives the same rows as a full build, and why no cheaper one is possible."""
        mode, why = self._mode(table, progress, changed)
        if mode != "full" and (retyped := self._type_change(progress, changed)):
            return "full", retyped
        return mode, why

    def _mode(self, table: Table, progress: Progress, changed: frozenset[TableName]) -> tuple[BuildMode, str | None]:
        match table.load:
            case Replace():
                return "full", "load: replace builds the table from all rows every time"
            case ReplacePartitions():
                return self._partitions_mode(table, changed)
            case Append() | Merge() | Scd2() | Changes() | Snapshot():
                return self._rows_mode(table, progress)

    def _partitions_mode(self, table: Table, changed: frozenset[TableName]) -> tuple[BuildMode, str | None]:
        source = partition_source(table)
        if isinstance(source, str):
            return "full", f"the touched partitions are unknown: {source}"
        others = sorted(str(each) for each in changed if each != source.table)
        if not self.facts.tables[source.table].change_feed:
            return "full", f"the touched partitions are unknown: {source.table} has no change feed"
        if others:
            return "full", f"{' and '.join(others)} changed, and only {source.table} decides the partition of a row"
        return "partitions", None

    def _keyed_mode(self, table: Table, load: Merge, progress: Progress) -> tuple[BuildMode, str | None]:
        """Choose for a query that gives one row per key by itself, as aggregates and joins do."""
        assert isinstance(table.origin, SqlQuery)
        finder = key_finder(table.origin, load.key)
        if isinstance(finder, str):
            return "full", f"the touched keys are unknown: {finder}"
        keys = {name.lower() for name in load.key}
        promised = [column for column in table.columns if column.name.lower() not in keys]
        if any(column.required or column.check or column.key or column.unique for column in promised) or any(
            check.row_rule and check.on_fail == "quarantine" for check in table.checks
        ):
            rejects = "its checks reject rows, and a build of some keys cannot tell these from rows rejected before"
            return "full", rejects
        upstream = self.graph.upstream(table.name)
        for source in upstream:
            if why := self._why_not_changes(source, progress, "the touched keys"):
                return "full", why
        if why := self._why_not_sums(table, table.origin, load, upstream):
            return "keys", f"new rows cannot be added to the sums: {why}"
        return "sums", None

    def _why_not_sums(self, table: Table, query: SqlQuery, load: Merge, upstream: tuple[TableName, ...]) -> str | None:
        """Return why the result of new rows cannot be added to the stored rows, or None."""
        summed = sums(query, load.key)
        if isinstance(summed, str):
            return summed
        changing = next((name for name in upstream if not is_append_only(self.lake.tables[name])), None)
        if changing is not None:
            return f"rows of {changing} change or are deleted"
        if len(upstream) > 1:
            return "it reads several tables"
        if table.checks:
            return "its checks need complete rows"
        keys = {name.lower() for name in load.key}
        cast = [column.name for column in table.columns if column.type and column.name.lower() not in keys]
        if cast:
            return f"{cast[0]} is cast to its declared type"
        types = {column.name.lower(): read_type(column.type) for column in self.facts.tables[table.name].columns}
        for name in summed.exact_only_for:
            match types.get(name.lower()):
                case SimpleType("double" | "float"):
                    return f"{name} is a floating-point sum"
                case DecimalType(precision=38):
                    return f"{name} is decimal(38), so a sum may overflow"
        return None

    def _rows_mode(self, table: Table, progress: Progress) -> tuple[BuildMode, str | None]:
        if uses_key_finder(table):
            assert isinstance(table.load, Merge)
            return self._keyed_mode(table, table.load, progress)
        reason = rowwise(table)
        if reason is not None:
            return "full", f"changed rows alone are not enough: {reason}"
        upstream = self.graph.upstream(table.name)
        if len(upstream) > 1:
            return "full", f"changed rows alone are not enough: it reads {len(upstream)} tables"
        source = upstream[0]
        if why := self._why_not_changes(source, progress, "changed rows"):
            return "full", why
        if not is_append_only(self.lake.tables[source]):
            changing = f"rows of {source} change or are deleted"
            if isinstance(table.load, Append):
                return "full", f"{changing}, which may change the first of several duplicates"
            return "keys", f"{changing}, so each touched key is recomputed from all its rows"
        why = needs_history(table.load)
        return ("keys", why) if why else ("changes", None)

    def _type_change(self, progress: Progress, changed: Iterable[TableName]) -> str | None:
        """Return why an input's changes cannot be read: types in it became wider, or will in this run."""
        for source in changed:
            widened = self.facts.widened_columns.get((source, progress.positions[str(source)].version), ())
            steps = self.steps(source)
            planned = [column.name for step in steps if isinstance(step, Widen) for column in step.columns]
            names = [*widened, *planned]
            if names:
                return type_change_text(source, names)
        return None

    def _why_not_changes(self, source: TableName, progress: Progress, needed: str) -> str | None:
        """Return why the changes of an input do not say which rows are affected, or None."""
        if not self.facts.tables[source].change_feed:
            return f"{needed} are unknown: {source} has no change feed"
        rewritten = self.facts.progress.get(source, Progress()).rewritten
        rebuilds = any(isinstance(step, Build) and step.mode == "full" for step in self.steps(source))
        if rebuilds or (rewritten is not None and rewritten > progress.positions[str(source)].version):
            return f"{source} was rebuilt: rows that were read before may have changed"
        return None


def needs_history(load: Load) -> str | None:
    """Return why new rows and the stored rows are not enough for a load over append-only rows, or None."""
    match load:
        case Merge(order_by=()):
            return "an earlier row may have the same key"
        case Merge(update=update) if update:
            return "the first row of a key decides the columns that later rows do not update"
        case Changes(amounts=amounts, previous_key=previous) if amounts or previous:
            return "a late change may precede changes that are already applied"
        case _:
            return None
