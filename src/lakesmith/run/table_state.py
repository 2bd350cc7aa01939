"""One table as a step finds it under its lease: its facts, its batches, its bookmarks, and its next batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lakesmith.declare import Table
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches, flow
from lakesmith.ledger.content import BatchContent, FullBuild, RestoredVersion
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.steps import Position, Progress
from lakesmith.ports import CommitFact, TableFacts, TableFolder, TableFormat
from lakesmith.quality import referenced_tables, rules_of
from lakesmith.run.context import RunContext
from lakesmith.run.errors import committed_on_rollback
from lakesmith.spark.write import BatchWriter
from lakesmith.store import Warehouse


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """One table as a step finds it."""

    run: RunContext
    table: Table
    facts: TableFacts | None
    batches: Batches
    progress: Progress

    @classmethod
    def read(cls, run: RunContext, table: Table, *, rebuild: bool) -> TableState:
        """Read the table's facts and bookmarks. A rebuild needs no bookmarks, and they may be lost."""
        batches = Batches(run.warehouse.store, table.name)
        # Before the facts: a batch is in the table before it is anywhere else, so the facts contain every batch found
        # here. A batch that another run commits later gets the number that this run will use, and they collide.
        highest = batches.highest_sequence()
        quarantine = run.format.facts(run.warehouse.quarantine(table.name), flow(table.name))
        highest = max(highest, quarantine.sequence if quarantine else 0)
        folder = run.warehouse.table(table.name)
        facts = run.format.facts(folder, flow(table.name))
        progress = Progress() if rebuild else batches.progress(facts, lambda: run.format.commits(folder))
        progress = replace(progress, highest_sequence=highest)
        return cls(run=run, table=table, facts=facts, batches=batches, progress=progress)

    @property
    def format(self) -> TableFormat:
        return self.run.format

    @property
    def warehouse(self) -> Warehouse:
        return self.run.warehouse

    @property
    def folder(self) -> TableFolder:
        return self.warehouse.table(self.table.name)

    @property
    def writer(self) -> BatchWriter:
        return BatchWriter(self.format, self.warehouse)

    def commits(self) -> Iterable[CommitFact]:
        """Return the commits of the table, the newest first."""
        return self.format.commits(self.folder)

    def is_committed(self, sequence: int) -> bool:
        """Whether the table now has a batch with this number or a later one."""
        facts = self.format.facts(self.folder, flow(self.table.name))
        return facts is not None and facts.sequence >= sequence

    def new_batch(self, content: BatchContent, *, inputs: Mapping[str, Position] | None = None) -> Batch:
        """Return the next batch of the table, not pinned yet."""
        replaces_all = isinstance(content, FullBuild | RestoredVersion)
        return Batch(
            sequence=max(self.facts.sequence if self.facts else 0, self.progress.highest_sequence) + 1,
            attempt=0,
            parent=self.progress.base_batch,
            run_id=self.run.run_id,
            pinned_at=time.time_ns() // 1_000_000,
            definition=definition(self.table),
            content=content,
            inputs=inputs or {},
            lookups=self._lookups(),
            contract=self.run.contracts.get(self.table.name),
            backfill=self.progress.backfill if not isinstance(content, FullBuild) else None,
            base_version=self.facts.version if self.facts is not None and not replaces_all else None,
            newest_extract=self.progress.newest_extract if not replaces_all else None,
        )

    def _lookups(self) -> dict[str, Position]:
        """Return the current versions of the tables that checks look up."""
        names = {reference.table for reference in referenced_tables(rules_of(self.table))}
        found = {name: self.format.facts(self.warehouse.table(name), flow(name)) for name in names}
        return {
            str(name): Position(table_id=facts.table_id, version=facts.version)
            for name, facts in found.items()
            if facts is not None
        }

    def refuse_if_rolled_back(self, batch: Batch, version: int) -> None:
        """Raise when the table was rolled back between the base version of a batch and its commit. Lakesmith's own
        commits fail there. A commit of Spark succeeds when the rollback comes in the moment before it."""
        if batch.base_version is None or version <= batch.base_version + 1:
            return  # no commit lies between
        commits = tuple(self.format.commits(self.folder, batch.base_version))
        own = next((commit.version for commit in commits if commit.note == batch.note), 0)
        between = (commit for commit in commits if commit.version < own)
        rollback = next((commit.version for commit in between if commit.operation == "RESTORE"), None)
        if rollback is not None:
            raise committed_on_rollback(self.table, batch, rollback)
