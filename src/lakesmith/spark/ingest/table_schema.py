"""The schema of a bronze table before a batch is read, and how new columns and wider types change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakesmith.columns import AUDIT, HIDDEN
from lakesmith.declare import Table
from lakesmith.errors import DataError
from lakesmith.intake.differences import differences, flat, type_name
from lakesmith.intake.shapes import (
    STRING,
    added,
    arrow_type,
    null_types_as_text,
    schema_of,
    widened,
    wider,
    widest,
    with_new_fields,
)
from lakesmith.ports import TableFacts
from lakesmith.spark.types import sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def table_schema(table: Table, facts: TableFacts | None) -> pa.Schema:
    """Return the stored columns with their types, then the declared columns that are not stored yet."""
    types = {column.name: arrow_type(column.type) for column in facts.columns} if facts else {}
    types = {name: type for name, type in types.items() if name not in AUDIT}
    stored = {name.lower() for name in types}
    for column in table.columns:
        if column.name.lower() not in stored and column.type is not None:
            types[column.name] = STRING if table.contract == "open" else arrow_type(column.type)
    return pa.schema(list(types.items()))


def evolved_schema(table: Table, known: pa.Schema, found: pa.DataType) -> pa.Schema:
    """Return the schema with new columns of the source, as far as the contract allows them."""
    new = (
        pa.struct([(field.name, STRING) for field in found]) if table.contract == "open" else null_types_as_text(found)
    )
    wide = widened_schema(table, known, found)
    if table.drift.new_column == "freeze" or table.drift.type == "freeze":
        _raise_contract_broken(table, known, found)
    if table.drift.new_column != "evolve" and len(known):
        return wide  # new columns go to _rescued, where the rules check them
    return pa.schema(list(with_new_fields(pa.struct(list(wide)), new)))


def widenable_columns(table: Table, known: pa.Schema) -> frozenset[str]:
    """Return the columns whose types may widen: undeclared columns under a contract that allows it."""
    if table.contract != "additive" or table.drift.type != "evolve":
        return frozenset()
    declared = {column.name.lower() for column in table.columns if column.type is not None}
    return frozenset(name for name in known.names if name.lower() not in declared)


def widened_schema(table: Table, known: pa.Schema, found: pa.DataType) -> pa.Schema:
    """Return the schema with wider types for the columns that may widen."""
    wide, names = widest(pa.struct(list(known)), found), widenable_columns(table, known)
    return pa.schema([new if old.name in names else old for old, new in zip(known, wide, strict=True)])


def _raise_contract_broken(table: Table, known: pa.Schema, found: pa.DataType) -> None:
    """Raise when the source has new columns or types that the contract freezes."""

    def fits(old: pa.DataType, new: pa.DataType) -> bool:
        # Text may still parse as the declared type. Each row is checked.
        return bool(pa.types.is_string(new) or wider(old, new) == old)

    frozen = {"+": table.drift.new_column, "~": table.drift.type}
    kinds = tuple(kind for kind, reaction in frozen.items() if reaction == "freeze")
    every = differences(flat(known), flat(null_types_as_text(found)), type_name=type_name, fits=fits, gone=False)
    lines = [line for line in every if line.startswith(kinds)]
    if lines:
        raise DataError(
            "contract-broken",
            f"the input does not match the contract: {'; '.join(lines)}",
            hint=f"declare the columns in {table.declared_at.file}, or set `contract: additive` to add new columns",
        )


def new_fields(rows: DataFrame, facts: TableFacts | None) -> tuple[str, ...]:
    """Return the fields, at every depth, that the rows have and the table does not."""
    return added(*_schemas(rows, facts)) if facts else ()


def wider_fields(rows: DataFrame, facts: TableFacts | None) -> tuple[str, ...]:
    """Return the fields, at every depth, for which the rows have a wider type than the table."""
    return widened(*_schemas(rows, facts)) if facts else ()


def _schemas(rows: DataFrame, facts: TableFacts) -> tuple[pa.Schema, pa.Schema]:
    """Return the schemas of the table and of the rows."""
    stored = schema_of({column.name: column.type for column in facts.columns})
    shown = [field for field in rows.schema.fields if not field.name.startswith(HIDDEN)]
    arriving = [(field.name, arrow_type(sql_type(field.dataType))) for field in shown]
    return stored, pa.schema(arriving)
