"""Appends Arrow tables to a Delta table, without Spark."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakesmith.formats.delta.actions import file_action, metadata_at
from lakesmith.formats.delta.add_files import append_actions, new_table
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.few_rows import write_file
from lakesmith.formats.delta.integrity import log_failure
from lakesmith.ports import TableFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


def append_arrow(folder: TableFolder, rows: pa.Table) -> None:
    """Append the rows to the table, or create it. Adds missing columns."""
    from deltalake import exceptions

    try:
        _append(folder, rows)
    except exceptions.DeltaError as error:
        raise log_failure(folder, str(error)) from error
    write_checksums(folder)


def _append(folder: TableFolder, rows: pa.Table) -> None:
    from deltalake import Schema

    schema, file = Schema.from_arrow(rows.schema), write_file(rows, folder, f"part-{uuid.uuid4().hex}.zstd.parquet")
    added = {"add": file_action(file)}

    def actions(table: DeltaTable | None) -> Sequence[dict[str, Any]]:
        if table is None:
            return [*new_table(schema.to_json(), {}), added]
        return [*_new_columns(folder, table, schema.to_json()), added]

    counts = {"numFiles": 1, "numOutputRows": rows.num_rows, "numOutputBytes": file.size}
    append_actions(folder, None, counts, actions)


def _new_columns(folder: TableFolder, table: DeltaTable, schema: str) -> Sequence[dict[str, Any]]:
    """The action that adds the columns that the table lacks, if any."""
    stored = json.loads(table.schema().to_json())
    names = {field["name"] for field in stored["fields"]}
    new = [field for field in json.loads(schema)["fields"] if field["name"] not in names]
    if not new:
        return ()
    wider = {**stored, "fields": [*stored["fields"], *new]}
    return [{"metaData": {**metadata_at(folder, table.version()), "schemaString": json.dumps(wider)}}]
