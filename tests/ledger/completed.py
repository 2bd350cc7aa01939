"""Shared by tests of the ledger: a completed batch and facts of its table."""

from __future__ import annotations

from datetime import UTC, datetime

from lakesmith.declare import TableName
from lakesmith.ledger.batch import Batch, CompletedBatch
from lakesmith.ports import TableFacts
from lakesmith.store import folder_at

NAME = TableName("silver", "orders")
START = datetime(2026, 1, 1, tzinfo=UTC)


def done(pinned: Batch, version: int) -> CompletedBatch:
    return CompletedBatch(
        sequence=pinned.sequence,
        attempt=pinned.attempt,
        version=version,
        run_id=pinned.run_id,
        rows_in=0,
        rows_written=0,
        rows_quarantined=0,
        rows_deduplicated=0,
    )


def facts(version: int, sequence: int, maintenance_commits: int = 0) -> TableFacts:
    return TableFacts(
        folder=folder_at("x"),
        version=version,
        table_id="id",
        columns=(),
        partition_by=(),
        rows=0,
        bytes=0,
        files=0,
        committed_at=START,
        oldest=0,
        sequence=sequence,
        maintenance_commits=maintenance_commits,
    )
