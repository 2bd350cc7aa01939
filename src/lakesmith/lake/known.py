"""All that a plan has to know of the world, and whether declarations fit together with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from lakesmith import quarantine as quarantine_room
from lakesmith.contracts import (
    Published,
    contract_errors,
)
from lakesmith.declare import Files, Jdbc, Kafka, Source, SqlQuery, TableName
from lakesmith.errors import (
    DataError,
    DeclarationError,
    InfrastructureError,
    LakesmithError,
    raise_all,
)
from lakesmith.lake.reads import Asked
from lakesmith.lake.words import today
from lakesmith.ledger.batches import Batches
from lakesmith.plan.fingerprint import rebuild_because
from lakesmith.plan.lineage import lineage
from lakesmith.plan.listing import next_look, settled
from lakesmith.plan.steps import (
    Chosen,
    LakeFacts,
    Progress,
)
from lakesmith.ports import SkippedEntry, TableFacts
from lakesmith.reports import (
    Lineage,
)
from lakesmith.sources import connection, new_in
from lakesmith.storage import LocalStorage, found_in_order, not_ours


class Known(Asked):
    """Facts, and what they say of the declarations."""

    def _facts(self, *, afar: bool = True) -> LakeFacts:
        """All that a plan has to know; without `afar`, only what this machine can tell."""
        tables, progress, landing, skipped, looks, slices = {}, {}, {}, {}, {}, {}
        problems: dict[TableName, LakesmithError] = {}
        for name, table in self.tables.items():
            try:
                if facts := self._table_facts(name):
                    tables[name] = facts
                progress[name] = self._progress(name, facts)
            except (DataError, InfrastructureError) as error:
                error.table = str(name)
                progress[name], problems[name] = Progress(), error
            try:
                if isinstance(table.origin, Files):
                    storage, glob = self._landings[name]
                    if not afar and not isinstance(storage, LocalStorage):
                        continue
                    taken, seen = progress[name].taken, progress[name].seen
                    passed: set[SkippedEntry] = set()
                    if table.origin.listing == "ordered":
                        look = looks[name] = next_look(seen, storage.location(glob), today().isoformat())
                        upto = settled(seen, look.pattern)
                        landing[name] = found_in_order(storage, glob, taken, look.after, upto, passed.add)
                    else:
                        landing[name] = tuple(storage.list(glob, taken, None, passed.add))
                    if foreign := not_ours(passed, glob, table.origin.archive):
                        skipped[name] = foreign
                elif afar and (found := new_in(table, self.declaration.environment, progress[name].reached)):
                    slices[name] = found
            except LakesmithError as error:
                error.table = str(name)
                problems.setdefault(name, error)
        self._memory.save()
        return LakeFacts(
            tables=tables,
            progress=progress,
            landing=landing,
            skipped=skipped,
            looks=looks,
            slices=slices,
            problems=problems,
            retyped=self._retyped(tables, progress),
            aged=self._aged(),
        )

    def _progress(self, name: TableName, facts: TableFacts | None) -> Progress:
        """How far a table has come."""
        if self.tables[name].adopted:
            return Progress()  # the batches in its log are those of the lake that writes it
        commits = partial(self._format.commits, self._warehouse.table(name))
        return Batches(self._warehouse.storage, name).progress(facts, commits)

    def _aged(self) -> dict[TableName, int]:
        limits = {name: table.quarantine.discard_after for name, table in self.tables.items()}
        kept = {name: limit for name, limit in limits.items() if limit is not None and self._quarantined(name)}
        return {
            name: quarantine_room.count(self._internal_query, name, Chosen(older_than=limit))
            for name, limit in kept.items()
        }

    def _retyped(
        self, tables: Mapping[TableName, TableFacts], progress: Mapping[TableName, Progress]
    ) -> dict[tuple[TableName, int], Sequence[str]]:
        """By a table and a version that another has read it up to, its columns that are wider now."""
        read = {(name, at.version) for made in progress.values() for name, at in made.positions.items()}
        retyped: dict[tuple[TableName, int], Sequence[str]] = {}
        for name, since in read:
            source = TableName.parse(name)
            facts = tables.get(source) if source else None
            if source and facts and facts.widened and facts.version > since:
                retyped[source, since] = self._format.retyped(facts.location, since)
        return retyped

    def _check(self, facts: LakeFacts) -> None:
        """Hold the queries and checks to the columns that are known, and contracts to those that are recorded."""
        self._check_against(facts, self._published())

    def _check_against(self, facts: LakeFacts, published: Mapping[str, Sequence[Published]]) -> None:
        from lakesmith.sqlproof.query import check_columns, check_conditions, given_columns

        schemas = self._schemas(facts)
        errors: list[LakesmithError] = []
        for table in self.tables.values():
            if isinstance(table.origin, Kafka | Jdbc):
                try:
                    connection(table, self.declaration.environment)
                except DeclarationError as error:
                    errors.append(error)
            if isinstance(table.origin, SqlQuery):
                errors += check_columns(table.origin, schemas)
            errors += check_conditions(table, given_columns(table, schemas))
        raise_all([*errors, *contract_errors(self.tables, published, self.graph, schemas, today())])

    def _schemas(self, facts: LakeFacts) -> dict[TableName, tuple[str, ...]]:
        """The columns of each table, where they are known: from its query, else from its log."""
        from lakesmith.sqlproof.query import table_columns

        schemas: dict[TableName, tuple[str, ...]] = {}
        for name in self.graph.order:
            table, stored = self.tables[name], facts.tables.get(name)
            columns = table_columns(table, schemas)
            if columns is None and stored and not self._may_gain_columns(name, facts):
                declared = [column.name for column in table.columns]
                columns = tuple(dict.fromkeys([*(column.name for column in stored.columns), *declared]))
            if columns is not None:
                schemas[name] = columns
        return schemas

    def _may_gain_columns(self, name: TableName, facts: LakeFacts) -> bool:
        """The stored columns may not be those that the table will have: it is defined in another way by now, or files
        wait, here or upstream, that may bring columns which nobody has seen yet."""
        for each in (name, *self.graph.ancestors(name)):
            if each in self.graph.incomplete:
                return True
            table, progress = self.tables[each], facts.progress[each]
            if isinstance(table.origin, Source):
                open_ended = table.contract != "strict"
                if open_ended and (each not in facts.landing or facts.landing[each]):
                    return True
            elif progress.definition is None or rebuild_because(progress.definition, table):
                return True
        return False

    def lineage(self, table: str | None = None) -> Lineage:
        """Where a table's rows come from and where they go."""
        name = self._name(table) if table else None
        return lineage(self.graph, self.tables, name, self._schemas(self._facts(afar=False)))
