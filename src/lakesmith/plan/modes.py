"""How much of a table has to be computed: the cheapest way that provably gives the same rows as computing everything.

Where that is everything, or more than the new rows, it is said why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
from lakesmith.plan.graph import Graph, is_append_only
from lakesmith.plan.steps import Build, LakeFacts, Mode, Progress, TablePlan, Widen
from lakesmith.plan.widening import retyped_text
from lakesmith.sqlproof.query import by_finder, key_finder, partition_source, rowwise, sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Chooses modes, knowing what is planned for the tables before."""

    lake: LakeDeclaration
    graph: Graph
    facts: LakeFacts
    planned: Mapping[TableName, TablePlan]

    def cheapest(self, table: Table, progress: Progress, changed: frozenset[TableName]) -> tuple[Mode, str | None]:
        """The cheapest mode that gives the same rows as computing all, and why it is not a cheaper one."""
        mode, why = self._mode(table, progress, changed)
        if mode != "whole" and (retyped := self._retyped(progress, changed)):
            return "whole", retyped
        return mode, why

    def _mode(self, table: Table, progress: Progress, changed: frozenset[TableName]) -> tuple[Mode, str | None]:
        match table.load:
            case Replace():
                return "whole", "a table with load: replace is computed from all rows each time"
            case ReplacePartitions():
                return self._partitions_mode(table, changed)
            case Append() | Merge() | Scd2() | Changes() | Snapshot():
                return self._rows_mode(table, progress)

    def _partitions_mode(self, table: Table, changed: frozenset[TableName]) -> tuple[Mode, str | None]:
        source = partition_source(table)
        if isinstance(source, str):
            return "whole", f"the touched partitions cannot be told: {source}"
        others = sorted(str(each) for each in changed if each != source.table)
        if not self.facts.tables[source.table].change_feed:
            return "whole", f"the touched partitions cannot be told: {source.table} has no change feed"
        if others:
            return "whole", (f"{' and '.join(others)} changed, and only changes of {source.table} lead to partitions")
        return "partitions", None

    def _keyed_mode(self, table: Table, load: Merge, progress: Progress) -> tuple[Mode, str | None]:
        """For a query that gives one row a key by itself, as aggregates and joins do."""
        assert isinstance(table.origin, SqlQuery)
        finder = key_finder(table.origin, load.key)
        if isinstance(finder, str):
            return "whole", f"the touched keys cannot be told: {finder}"
        keys = {name.lower() for name in load.key}
        promised = [column for column in table.columns if column.name.lower() not in keys]
        if any(column.required or column.check or column.key or column.unique for column in promised) or any(
            check.row_rule and check.on_fail == "quarantine" for check in table.checks
        ):
            return (
                "whole",
                "rows that checks refuse could not be told from those refused before, were only some computed",
            )
        upstream = self.graph.upstream(table.name)
        for source in upstream:
            if not self.facts.tables[source].change_feed:
                return "whole", f"the touched keys cannot be told: {source} has no change feed"
            if self._is_rewritten(source, progress.positions[str(source)].version):
                return "whole", f"{source} was rebuilt: rows that were read before may be others now"
        why = self._not_added_up(table, table.origin, load, upstream)
        return ("keys", why) if why else ("sums", None)

    def _not_added_up(self, table: Table, query: SqlQuery, load: Merge, upstream: tuple[TableName, ...]) -> str | None:
        """Why the result of new rows cannot be added to what the table holds."""
        summed = sums(query, load.key)
        if isinstance(summed, str):
            return f"what new rows give cannot be added up: {summed}"
        changing = next((name for name in upstream if not is_append_only(self.lake.tables[name])), None)
        if changing is not None:
            return f"what new rows give cannot be added up: rows of {changing} change and go"
        if len(upstream) > 1:
            return "what new rows give cannot be added up: it reads several tables"
        if table.checks:
            return "what new rows give cannot be added up: checks judge whole rows"
        keys = {name.lower() for name in load.key}
        cast = [column.name for column in table.columns if column.type and column.name.lower() not in keys]
        if cast:
            return f"what new rows give cannot be added up: {cast[0]} is cast to its declared type"
        types = {column.name.lower(): column.type for column in self.facts.tables[table.name].columns}
        inexact = [name for name in summed.exact_only_for if types.get(name.lower(), "") in ("double", "float")]
        if inexact:
            return f"what new rows give cannot be added up: {inexact[0]} is a sum of floating point numbers"
        wide = [name for name in summed.exact_only_for if types.get(name.lower(), "").startswith("decimal(38,")]
        if wide:
            return f"what new rows give cannot be added up: {wide[0]} has more digits than a sum of two keeps"
        return None

    def _rows_mode(self, table: Table, progress: Progress) -> tuple[Mode, str | None]:
        if by_finder(table):
            assert isinstance(table.load, Merge)
            return self._keyed_mode(table, table.load, progress)
        because = rowwise(table)
        if because is not None:
            return "whole", f"changed rows alone do not suffice: {because}"
        upstream = self.graph.upstream(table.name)
        if len(upstream) > 1:
            return "whole", f"changed rows alone do not suffice: it reads {len(upstream)} tables"
        source = upstream[0]
        if not self.facts.tables[source].change_feed:
            return "whole", f"changed rows cannot be told: {source} has no change feed"
        if self._is_rewritten(source, progress.positions[str(source)].version):
            return "whole", f"{source} was rebuilt: rows that were read before may be others now"
        if not is_append_only(self.lake.tables[source]):
            if isinstance(table.load, Append):
                return (
                    "whole",
                    f"rows of {source} change and go, and the first of those that are alike may be among them",
                )
            return "keys", f"rows of {source} change and go, so all rows of each key that they touch are weighed anew"
        why = needs_history(table.load)
        return ("keys", why) if why else ("changes", None)

    def _retyped(self, progress: Progress, changed: Iterable[TableName]) -> str | None:
        """Why the changes of an input cannot be followed: types in it became wider, or will in this run."""
        for source in changed:
            planned = self.planned.get(source)
            steps = planned.steps if planned is not None else ()
            coming = [column.name for step in steps if isinstance(step, Widen) for column in step.columns]
            names = [*self.facts.retyped.get((source, progress.positions[str(source)].version), ()), *coming]
            if names:
                return retyped_text(source, names)
        return None

    def _is_rewritten(self, source: TableName, seen: int) -> bool:
        planned = self.planned.get(source)
        steps = planned.steps if planned is not None else ()
        if any(isinstance(step, Build) and step.mode == "whole" for step in steps):
            return True
        rewritten = self.facts.progress.get(source, Progress()).rewritten
        return rewritten is not None and rewritten > seen


def needs_history(load: Load) -> str | None:
    """Why new rows and the table do not suffice to tell what the table holds, over rows that only come."""
    match load:
        case Merge(order_by=()):
            return "a row that came before may have the same key"
        case Merge(update=update) if update:
            return "the first row of a key decides the columns that later ones do not change"
        case Changes(amounts=amounts, previous_key=previous) if amounts or previous:
            return "a late change may come before others that are in the table already"
        case _:
            return None
