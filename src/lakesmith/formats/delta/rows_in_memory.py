"""Rows that this process holds are appended to a table, without Spark."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakesmith.disk import create, make_folders
from lakesmith.formats.delta.actions import addition, metadata_at, stats_of
from lakesmith.formats.delta.files import append_actions, new_table

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable


def append_rows(location: str, rows: pa.Table) -> None:
    """Append the rows to the table, or make it. Columns that it lacks are added."""
    import pyarrow.parquet as pq
    from deltalake import Schema

    make_folders(location)
    path = os.path.join(location, f"part-{uuid.uuid4().hex}.zstd.parquet")
    with os.fdopen(create(path), "wb") as file:
        pq.write_table(rows, file, compression="zstd", store_schema=False, write_page_checksum=True)
    schema = Schema.from_arrow(rows.schema)
    added = {"add": addition(location, path, {}, json.dumps(stats_of(pq.read_metadata(path))))}

    def actions(table: DeltaTable | None) -> Sequence[dict[str, Any]]:
        if table is None:
            return [*new_table(schema, {}), added]
        return [*_new_columns(location, table, schema.to_json()), added]

    counts = {"numFiles": 1, "numOutputRows": rows.num_rows, "numOutputBytes": os.path.getsize(path)}
    append_actions(location, None, counts, actions)


def _new_columns(location: str, table: DeltaTable, schema: str) -> Sequence[dict[str, Any]]:
    """The action that adds the columns of the rows which the table lacks, where there are such."""
    stored = json.loads(table.schema().to_json())
    names = {field["name"] for field in stored["fields"]}
    new = [field for field in json.loads(schema)["fields"] if field["name"] not in names]
    if not new:
        return ()
    wider = {**stored, "fields": [*stored["fields"], *new]}
    return [{"metaData": {**metadata_at(location, table.version()), "schemaString": json.dumps(wider)}}]
