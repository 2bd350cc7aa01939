"""Reads the rows of a batch: from its source for a bronze table, from its query for others."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakesmith.declare import Append, Files, Source, TableName
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import flow
from lakesmith.ledger.content import AddedSums, ChangedKeys, ChangedPartitions, ChangedRows, FullBuild
from lakesmith.ports import TableFolder
from lakesmith.quality import checks_only_readability, rules_of
from lakesmith.run.table_state import TableState
from lakesmith.spark import batch_counts
from lakesmith.spark.build import build_batch
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.ingest import read_batch
from lakesmith.spark.ingest.table_schema import new_fields, wider_fields
from lakesmith.spark.row_checks import field_paths

_FEW_BYTES = 1 << 20
"""Files of this size together have few rows."""
_MAX_BYTES = 16 << 20
"""Few rows of more bytes, in the compressed files of a table, may not fit into the driver."""


def direct_write_folder(state: TableState) -> TableFolder | None:
    """Return the folder of the table when readers can write good rows to it directly; None when more is to be done."""
    table = state.table
    if not (
        isinstance(table.origin, Files)
        and isinstance(table.load, Append)
        and checks_only_readability(rules_of(table))
        and table.drift.missing_column == "evolve"
    ):
        return None
    return state.folder if state.format.accepts_files(state.folder) else None


def read_incoming(
    state: TableState, batch: Batch, *, survey: bool = False, whole: bool = False, into: TableFolder | None = None
) -> IncomingBatch | None:
    """Return the rows of a batch; None when its changes touch no row.

    With `survey`, files are searched for new columns before any row is read. With `whole`, no file is read in parts.
    Readers may write good rows to `into`.
    """
    table, run = state.table, state.run
    if isinstance(table.origin, Source):
        context = run.ingest_context(table)
        rows = read_batch(context, table, batch, state.facts, survey=survey, whole=whole, into=into)
        rules = partial(rules_of, table, fields=field_paths(rows))
        return IncomingBatch(
            table=table,
            batch=batch,
            rows=rows,
            rules=rules(),
            facts=state.facts,
            evolve=True,
            columns_added=new_fields(rows, state.facts),
            columns_widened=wider_fields(rows, state.facts),
            expects_few=0 < sum(file.size for file in batch.files) <= _FEW_BYTES,
            past=partial(run.check_history, table.name),
            rules_if_missing=None if table.drift.missing_column == "evolve" else lambda gone: rules(missing=gone),
        )
    built = build_batch(run.session(), table, batch, run.format, run.warehouse)
    if built is None:
        return None
    return IncomingBatch(
        table=table if built.load is None else replace(table, load=built.load),
        batch=batch,
        rows=built.rows,
        rules=rules_of(table, casts=built.casts, missing=built.missing, undeclared=built.undeclared),
        facts=state.facts,
        evolve=batch.is_full or table.contract != "strict",
        replace_where=built.replace_where,
        replace_quarantine=built.replace_quarantine,
        all_rows=built.all_rows,
        keys=built.keys,
        inputs=built.inputs,
        expects_few=_expects_few(state, batch),
        past=partial(run.check_history, table.name),
    )


def _expects_few(state: TableState, batch: Batch) -> bool:
    """Whether a build probably makes few rows, by the rows that changed in its inputs."""
    content, format = batch.content, state.format
    if isinstance(content, ChangedPartitions):
        return state.facts is not None and _are_few(state.facts.rows, state.facts.bytes)
    if isinstance(content, FullBuild):
        found = [format.facts(state.warehouse.table(name), flow(name)) for name in _inputs(batch)]
        return _are_few(sum(facts.rows for facts in found if facts), sum(facts.bytes for facts in found if facts))
    if not isinstance(content, ChangedRows | AddedSums | ChangedKeys):
        return False
    rows = bytes = 0
    for name in _inputs(batch):
        until = batch.inputs[str(name)].version
        for commit in format.commits(state.warehouse.table(name), content.since[str(name)]):
            if commit.version > until:
                continue
            changed = format.commit_result(commit)
            rows += changed.inserted + changed.updated + changed.deleted
            bytes += changed.bytes
            if not _are_few(rows, bytes):
                return False
    return True


def _are_few(rows: int, bytes: int) -> bool:
    return rows <= batch_counts.FEW_ROWS and bytes <= _MAX_BYTES


def _inputs(batch: Batch) -> list[TableName]:
    names = map(TableName.parse, batch.inputs)
    return [name for name in names if name is not None]
