"""What a lake answers without a JVM: how tables are, what became of them, and what rows they hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from lakesmith.contracts import (
    find_views,
)
from lakesmith.declare import QueryLimits, TableName
from lakesmith.errors import (
    UsageError,
    did_you_mean,
)
from lakesmith.lake.opened import Opened
from lakesmith.lake.words import layer_order, today
from lakesmith.ledger.batches import Batches, flow, noted_run
from lakesmith.ledger.tables import SYSTEM_TABLES
from lakesmith.monitor import table_status
from lakesmith.plan.select import select as choose
from lakesmith.ports import Answer
from lakesmith.records import ReleaseRecord, RunRecord, StepRecord
from lakesmith.reports import (
    Finding,
    QuarantineCount,
    Release,
    TableProfile,
    TableStatus,
    Version,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

    from lakesmith.query import At

LATEST = "latest"
"""Instead of a release's name, the newest one."""


class Asked(Opened):
    """Questions that need no Spark."""

    def status(self, select: Sequence[str] = (), exclude: Sequence[str] = ()) -> tuple[TableStatus, ...]:
        """Each table as it is now, by layer."""
        names = choose(self.graph, self.tables, select, exclude) if select or exclude else frozenset(self.tables)
        ordered = sorted(names, key=layer_order)
        try:
            return tuple(
                table_status(
                    self.tables[name],
                    self._table_facts(name),
                    self._format.facts(self._warehouse.quarantine(name), flow(name)),
                )
                for name in ordered
            )
        finally:
            self._memory.save()

    def quarantine(self) -> tuple[QuarantineCount, ...]:
        """How many rows each rule has refused, most first."""
        counts: list[QuarantineCount] = []
        for name in sorted(self.tables):
            if self._format.facts(self._warehouse.quarantine(name), flow(name)) is None:
                continue
            found = self._internal_query(
                "SELECT reason, count(*) AS refused, any_value(raw) AS example FROM "
                f"(SELECT unnest(reasons) AS reason, raw FROM quarantine.{name.layer}_{name.name}) "
                "GROUP BY reason ORDER BY refused DESC, reason"
            )
            for reason, rows, example in found.rows:
                counts.append(
                    QuarantineCount(
                        table=str(name), reason=str(reason), rows=int(str(rows)), example=str(example)[:200]
                    )
                )
        return tuple(counts)

    def history(self, table: str | None = None, *, limit: int = 20) -> tuple[RunRecord, ...] | tuple[Version, ...]:
        """The newest runs; with a table, its newest versions."""
        if table is None:
            return self._ledger.runs(limit)
        name = self._name(table)
        return tuple(
            Version(
                version=commit.version,
                committed_at=commit.committed_at,
                operation=commit.operation,
                rows_written=written.inserted + written.updated,
                run_id=noted_run(commit),
            )
            for commit in islice(self._format.commits(self._warehouse.table(name)), limit)
            for written in [self._format.written(commit)]
        )

    def run_steps(self, run_id: str) -> tuple[StepRecord, ...]:
        """The steps of one run."""
        steps = self._ledger.steps(run_id=run_id)
        if not steps:
            known = [run.run_id for run in self._ledger.runs(200)]
            raise UsageError(
                "unknown-run",
                f"there is no run {run_id!r}",
                hint=did_you_mean(run_id, known, label="runs"),
            )
        return steps

    def releases(self, *, limit: int = 20) -> tuple[Release, ...]:
        """The newest releases: after a run that ended well, all tables at versions that were made from each other."""
        found: dict[str, list[ReleaseRecord]] = {}
        for record in self._ledger.releases(limit):
            found.setdefault(record.release, []).append(record)
        return tuple(
            Release(
                release=release,
                released_at=records[0].released_at,
                tables={record.table: record.version for record in records},
            )
            for release, records in found.items()
        )

    def _released(self, release: str) -> dict[str, ReleaseRecord]:
        """By name, the tables of a release, or of the newest: `latest`."""
        records = self._ledger.releases(1) if release == LATEST else self._ledger.release(release)
        if not records:
            known = [each.release for each in self.releases(limit=12)]
            raise UsageError(
                "unknown-release",
                f"there is no release {release!r}",
                hint=did_you_mean(release, known, label="newest releases")
                if known
                else "a run that ends well, and leaves no table behind, makes one",
            )
        return {record.table: record for record in records}

    def query(
        self,
        sql: str,
        *,
        at: Sequence[str] = (),
        release: str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        memory: int | None = None,
    ) -> Answer:
        """Answer SQL over the lake's tables, the system tables and the quarantine, without a JVM.

        With a release, the lake's tables are read at the versions that it names. The answer has the first `limit` rows.
        A query that takes longer than `timeout` seconds or more than `memory` bytes is stopped; the environment says
        what holds by default.
        """
        limits = self.query_limits(timeout=timeout, memory=memory)
        return self._answer(sql, limits, at=at, release=release, limit=limit)

    def query_limits(self, *, timeout: float | None = None, memory: int | None = None) -> QueryLimits:
        """What a query may use: as given, else as the environment says."""
        usual = self.declaration.environment.query
        return QueryLimits(timeout=timeout or usual.timeout, memory=memory or usual.memory)

    def _internal_query(self, sql: str) -> Answer:
        """Answer a query of Lakesmith itself, without a time limit."""
        return self._answer(sql, QueryLimits(timeout=None, memory=self.declaration.environment.query.memory))

    def _answer(
        self,
        sql: str,
        limits: QueryLimits,
        *,
        at: Sequence[str] = (),
        release: str | None = None,
        limit: int | None = None,
    ) -> Answer:
        from lakesmith.query import DuckDB, match_tables, parse_at

        if at and release:
            raise UsageError("one-of", "--at and --release do not go together", hint="leave one of them out")
        engine, moments = DuckDB(limits), parse_at(at)
        locations = self._queryable()
        written = engine.referenced(sql)
        views = find_views(written, self.tables, self._published, today())
        asked = {*(written - views.keys()), *(view.table for view in views.values())}
        names = tuple(dict.fromkeys(match_tables(asked, locations).values()))
        if release is not None:
            moments = self._moments(release, names)
        moments.check(names)
        tables = {name: self._rows_at(name, locations[name], moments.of(name)) for name in names}
        return engine.query(sql, tables, {name.lower(): view for name, view in views.items()}, rows=limit)

    def _moments(self, release: str, names: Sequence[str]) -> At:
        """The versions that a release names, of the lake's tables among these."""
        from lakesmith.query import At

        released = self._released(release)
        asked = [name for name in names if TableName.parse(name) in self.tables]
        for name in asked:
            facts = self._format.facts(self._warehouse.table(self._name(name)), "")
            if name not in released or facts is None or facts.table_id != released[name].table_id:
                raise UsageError(
                    "not-released",
                    f"the {name} that there is now is not in release {release}",
                    table=name,
                    hint=f"it has {', '.join(sorted(released))}; `lakesmith releases` lists others",
                )
        return At(by_table={name: released[name].version for name in asked})

    def _rows_at(
        self, name: str, location: str, moment: int | datetime | None
    ) -> pa.dataset.Dataset | pa.RecordBatchReader:
        if name.startswith("held."):
            return self._held_rows(name, location)
        facts = self._format.facts(location, "")
        if facts is None:
            raise _not_built(name)
        self._refuse_lost(name, location)
        if isinstance(moment, datetime):
            moment = self._format.version_at(location, moment)
        return self._format.arrow(location, facts.version if moment is None else moment)

    def _refuse_lost(self, name: str, location: str) -> None:
        """Raise where a table of the lake has lost its newest commits: what is left would pass for all of it."""
        table = TableName.parse(name)
        if table is None or table not in self.tables or self.tables[table].adopted:
            return
        facts = self._format.facts(location, flow(table))
        if facts is not None:
            commits = partial(self._format.commits, location)
            Batches(self._warehouse.storage, table).refuse_lost(facts, commits)

    def _held_rows(self, name: str, location: str) -> pa.dataset.Dataset:
        import pyarrow.dataset as ds

        files = sorted(map(str, Path(location, "rows").glob("*.parquet")))
        if not files:
            raise UsageError(
                "not-held", f"no batch is held back as {name}", hint="lakesmith approve lists those that are"
            )
        return ds.dataset(files)

    def _queryable(self) -> dict[str, str]:
        """Every name that a query may use, and where the table lies."""
        tables = {str(name): self._warehouse.table(name) for name in self.tables}
        kept = {f"quarantine.{n.layer}_{n.name}": self._warehouse.quarantine(n) for n in self.tables}
        kept |= {f"settled.{n.layer}_{n.name}": self._warehouse.settled(n) for n in self.tables}
        kept |= {f"held.{n.layer}_{n.name}": self._warehouse.held(n) for n in self.tables}
        system = {f"system.{name}": self._warehouse.system(name) for name in SYSTEM_TABLES}
        return {**tables, **kept, **system}

    def profile(self, table: str, *, rows: int = 1_000_000) -> TableProfile:
        """What the rows of a table are like, and what could be promised of them. Of more rows than `rows`, a sample."""
        from lakesmith.query import Input, profile

        name = self._name(table)
        beyond = self.graph.descendants(name)
        inputs: dict[TableName, Input] = {}
        for each, declared in self.tables.items():
            if each not in beyond and (facts := self._table_facts(each)):
                opened = partial(self._format.arrow, facts.location, facts.version)
                inputs[each] = Input(table=declared, version=facts.version, rows=facts.rows, open=opened)
        if name not in inputs:
            raise _not_built(str(name))
        return profile(inputs.pop(name), inputs, limit=rows, now=datetime.now(UTC))

    def doctor(self, *, fix: bool = False, deep: bool = False) -> tuple[Finding, ...]:
        """Look at Java, jars, Spark, storage and versions, and say how to mend each."""
        from lakesmith import doctor

        return doctor.diagnose(self._warehouse.storage, self.declaration.environment.connections, fix=fix, deep=deep)


def _not_built(name: str) -> UsageError:
    return UsageError(
        "not-built", f"{name} is declared, but holds nothing yet", hint=f"`lakesmith run +{name}` builds it"
    )
