"""The columns that a bronze table is known to have before a batch is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakesmith.columns import AUDIT, HIDDEN
from lakesmith.declare import Table
from lakesmith.errors import DataError
from lakesmith.intake.differences import differences, flat, spelt
from lakesmith.intake.shapes import (
    STRING,
    added,
    arrow_type,
    grown,
    schema_of,
    settled,
    widened,
    wider,
    widest,
)
from lakesmith.ports import TableFacts
from lakesmith.spark.types import spelt as spelt_in_spark

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
    wide = widened_columns(table, known, found)
    if table.drift.new_column == "freeze" or table.drift.type == "freeze":
        _refuse_diff(table, known, found)
    if table.drift.new_column != "evolve" and len(known):
        return wide  # what is new is put beside the row, where rules meet it
    return pa.schema(list(grown(pa.struct(list(wide)), new)))


def may_widen(table: Table, known: pa.Schema) -> frozenset[str]:
    """The columns whose types follow what comes: nobody has declared them, and the contract lets them change."""
    if table.contract != "additive" or table.drift.type != "evolve":
        return frozenset()
    declared = {column.name.lower() for column in table.columns if column.type is not None}
    return frozenset(name for name in known.names if name.lower() not in declared)


def widened_columns(table: Table, known: pa.Schema, found: pa.DataType) -> pa.Schema:
    """The table's columns, those that follow what comes as wide as it is."""
    wide, names = widest(pa.struct(list(known)), found), may_widen(table, known)
    return pa.schema([new if old.name in names else old for old, new in zip(known, wide, strict=True)])


def _refuse_diff(table: Table, known: pa.Schema, found: pa.DataType) -> None:
    """Raise when what came is not what the contract says: new columns, or types that do not fit."""

    def fits(old: pa.DataType, new: pa.DataType) -> bool:
        # Text may still be a value of the declared type: each row is held to it.
        return bool(pa.types.is_string(new) or wider(old, new) == old)

    frozen = {"+": table.drift.new_column, "~": table.drift.type}
    kinds = tuple(kind for kind, reaction in frozen.items() if reaction == "freeze")
    every = differences(flat(known), flat(settled(found)), spelt=spelt, fits=fits, gone=False)
    lines = [line for line in every if line.startswith(kinds)]
    if lines:
        raise DataError(
            "contract-broken",
            f"the contract does not let in what came: {'; '.join(lines)}",
            table=str(table.name),
            hint=f"declare it in {table.declared_at.file}, or say `contract: additive` to take new columns in",
        )


def new_fields(rows: DataFrame, facts: TableFacts | None) -> tuple[str, ...]:
    """The fields, at every depth, that rows have and the table does not."""
    return added(*_schemas(rows, facts)) if facts else ()


def wider_fields(rows: DataFrame, facts: TableFacts | None) -> tuple[str, ...]:
    """The fields, at every depth, for which rows have a wider type than the table."""
    return widened(*_schemas(rows, facts)) if facts else ()


def _schemas(rows: DataFrame, facts: TableFacts) -> tuple[pa.Schema, pa.Schema]:
    """What the table has, and what rows have for it."""
    stored = schema_of({column.name: column.type for column in facts.columns})
    shown = [field for field in rows.schema.fields if not field.name.startswith(HIDDEN)]
    arriving = [(field.name, arrow_type(spelt_in_spark(field.dataType))) for field in shown]
    return stored, pa.schema(arriving)
