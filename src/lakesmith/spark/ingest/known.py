"""The columns that a bronze table is known to have before a batch is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakesmith.columns import AUDIT, HIDDEN
from lakesmith.declare import Table
from lakesmith.errors import DataError
from lakesmith.intake.shapes import STRING, added, arrow_type, grown, schema_of, settled, spark_type, wider
from lakesmith.ports import TableFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def known_columns(table: Table, facts: TableFacts | None) -> pa.Schema:
    """Those that are stored, with the types that they have, then those that are declared."""
    types = {column.name: arrow_type(column.type) for column in facts.columns} if facts else {}
    types = {name: type for name, type in types.items() if name not in AUDIT}
    stored = {name.lower() for name in types}
    for column in table.columns:
        if column.name.lower() not in stored and column.type is not None:
            types[column.name] = STRING if table.contract == "open" else arrow_type(column.type)
    return pa.schema(list(types.items()))


def grown_columns(table: Table, known: pa.Schema, found: pa.DataType) -> pa.Schema:
    """The table's columns with those that have come, as far as the contract lets them in."""
    new = pa.struct([(field.name, STRING) for field in found]) if table.contract == "open" else settled(found)
    columns = pa.schema(list(grown(pa.struct(list(known)), new)))
    if table.contract == "strict":
        _refuse_diff(table, known, columns, found)
    return columns


def _refuse_diff(table: Table, known: pa.Schema, target: pa.Schema, found: pa.DataType) -> None:
    """Raise when what came is not what the contract says: new columns, or types that do not fit."""
    new = added(known, target)
    types = {field.name: field.type for field in known}
    lower = {name.lower(): name for name in types}
    lines = [f"+ {name}" for name in new]
    for field in found:
        name = lower.get(field.name.lower())
        if name is None or pa.types.is_string(field.type):
            continue  # text may still be a value of the declared type: each row is held to it
        if wider(types[name], field.type) != types[name]:
            lines.append(f"~ {name}: {spark_type(types[name])} → {spark_type(settled(field.type))}")
    if lines:
        raise DataError(
            "contract-broken",
            f"the contract is strict, and what came differs: {'; '.join(lines)}",
            table=str(table.name),
            hint=f"declare it in {table.declared_at.file}, or say `contract: additive` to take new columns in",
        )


def new_fields(rows: DataFrame, facts: TableFacts | None) -> tuple[str, ...]:
    """The fields, at every depth, that rows have and the table does not."""
    if facts is None:
        return ()
    stored = schema_of({column.name: column.type for column in facts.columns})
    arriving = [(f.name, arrow_type(f.dataType.simpleString())) for f in rows.schema.fields if HIDDEN not in f.name]
    return added(stored, pa.schema(arriving))
