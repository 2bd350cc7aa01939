"""Appends Arrow tables to a Delta table, without Spark."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakesmith.disk import create, make_folders
from lakesmith.formats.delta.actions import add_action, file_stats, metadata_at
from lakesmith.formats.delta.add_files import append_actions, new_table

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


def append_arrow(location: str, rows: pa.Table) -> None:
    """Append the rows to the table, or create it. Adds missing columns."""
    import pyarrow.parquet as pq
    from deltalake import Schema

    make_folders(location)
    path = os.path.join(location, f"part-{uuid.uuid4().hex}.zstd.parquet")
    with os.fdopen(create(path), "wb") as file:
        pq.write_table(rows, file, compression="zstd", store_schema=False, write_page_checksum=True)
    schema = Schema.from_arrow(rows.schema)
    added = {"add": add_action(location, path, {}, json.dumps(file_stats(pq.read_metadata(path))))}

    def actions(table: DeltaTable | None) -> Sequence[dict[str, Any]]:
        if table is None:
            return [*new_table(schema, {}), added]
        return [*_new_columns(location, table, schema.to_json()), added]

    counts = {"numFiles": 1, "numOutputRows": rows.num_rows, "numOutputBytes": os.path.getsize(path)}
    append_actions(location, None, counts, actions)


def _new_columns(location: str, table: DeltaTable, schema: str) -> Sequence[dict[str, Any]]:
    """The action that adds the columns that the table lacks, if any."""
    stored = json.loads(table.schema().to_json())
    names = {field["name"] for field in stored["fields"]}
    new = [field for field in json.loads(schema)["fields"] if field["name"] not in names]
    if not new:
        return ()
    wider = {**stored, "fields": [*stored["fields"], *new]}
    return [{"metaData": {**metadata_at(location, table.version()), "schemaString": json.dumps(wider)}}]
