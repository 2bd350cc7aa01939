"""Fits typed rows of a source to the columns of the table. Values that do not fit are rescued as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesmith.columns import ALREADY_INGESTED, AUDIT, CHANGE_AUDIT, CORRUPT, ERROR_CODE, HIDDEN, RESCUED, ROW_HASH
from lakesmith.declare import Table
from lakesmith.declare.spark_type import SimpleType, digits
from lakesmith.errors import DataError
from lakesmith.intake.differences import differences
from lakesmith.intake.shapes import arrow_type, spark_type, storable
from lakesmith.ledger.batch import Batch
from lakesmith.ports import TableFacts
from lakesmith.spark.ingest.table_schema import table_schema, widened_schema
from lakesmith.spark.types import EXACT_JSON, merge_fields, parse_columns, sql_type
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRows:
    """Rows as a source returned them."""

    rows: DataFrame
    source_name: str
    """The source, for error messages."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """By column, a second column with the text of values that do not fit the column's type."""
    added: tuple[str, ...] = ()
    """Audit and hidden columns that the rows have already."""

    @property
    def payload(self) -> list[StructField]:
        """The columns of the source itself."""
        others = {*self.unfit.values(), *self.added}
        return [found for found in self.rows.schema.fields if found.name not in others]


def row_hash(extract: SourceRows) -> str:
    """Return SQL: a 128-bit hash of the record's content."""
    # NULLs are left out, so the hash of a row stays the same when the source gains a column. Spark computes it without
    # Python workers.
    source = [quoted(found.name) for found in extract.payload]
    source += [f"{quoted(text)} AS {quoted('unfit ' + name)}" for name, text in extract.unfit.items()]
    return f"left(sha2(to_json(struct({', '.join(source)}), {EXACT_JSON}), 256), 32)"


def check_columns(table: Table, extract: SourceRows, facts: TableFacts | None) -> None:
    """Reject column names that a table cannot store, and columns that the contract does not allow."""
    names = [found.name for found in extract.payload]
    odd = [name for name in names if not storable(name)]
    if odd:
        reserved = odd[0].lower() in (*AUDIT, "_metadata") or odd[0].lower().startswith(HIDDEN)
        raise DataError(
            "reserved-column" if reserved else "bad-column-name",
            f"{extract.source_name} has a column named {odd[0]!r}, "
            + ("a name reserved by Lakesmith" if reserved else "which a table cannot store"),
            hint="give it another name in the source, such as jdbc: (SELECT … AS other_name FROM …)",
        )
    lower = [name.lower() for name in names]
    if twice := sorted({name for name in names if lower.count(name.lower()) > 1}):
        raise DataError(
            "header-twice",
            f"{extract.source_name} has duplicate columns: {' and '.join(map(repr, twice))}",
            hint="column names are case-insensitive: rename one of them in the source",
        )
    if changes := _contract_violations(table, extract, facts):
        raise DataError(
            "contract-broken",
            f"{extract.source_name} does not match the contract: {'; '.join(changes)}",
            hint=f"change the columns in {table.declared_at.file}, or set `contract: additive` to add new columns",
        )


def fit_to_table(table: Table, batch: Batch, extract: SourceRows, facts: TableFacts | None) -> DataFrame:
    """Return the payload in the columns of the table, with audit columns and hidden columns."""
    check_columns(table, extract, facts)
    fits = list(_column_fills(table, extract, facts))
    unfit = [fit for fit in fits if fit.unfit is not None]
    rescued = "CAST(NULL AS string)"
    if unfit:
        fields = ", ".join(f"{fit.unfit} AS {quoted(fit.name)}" for fit in unfit)
        some = " OR ".join(f"({fit.unfit}) IS NOT NULL" for fit in unfit)
        rescued = f"IF({some}, to_json(struct({fields}), {EXACT_JSON}), NULL)"
    return extract.rows.selectExpr(
        *(f"{fit.value} AS {quoted(fit.name)}" for fit in fits if fit.value),
        *(name for name in CHANGE_AUDIT if name in extract.added),
        f"timestamp_millis({batch.pinned_at}) AS _ingested_at",
        f"'{batch.run_id}' AS _run_id",
        ROW_HASH if ROW_HASH in extract.added else f"{row_hash(extract)} AS {ROW_HASH}",
        f"{rescued} AS {RESCUED}",
        f"CAST(NULL AS string) AS {CORRUPT}",
        f"CAST(NULL AS string) AS {ERROR_CODE}",
        *([ALREADY_INGESTED] if ALREADY_INGESTED in extract.added else []),
    )


@dataclass(frozen=True, slots=True)
class _ColumnFill:
    """How one column of the table is computed."""

    name: str
    value: str | None
    """SQL. None when the table does not get the column."""
    unfit: str | None = None
    """SQL: the text of a value that does not fit the column, else NULL."""


def _column_fills(table: Table, extract: SourceRows, facts: TableFacts | None) -> Iterator[_ColumnFill]:
    known = _expected_columns(table, extract, facts)
    found = {each.name.lower(): each for each in extract.payload}
    accepts_new = table.drift.new_column == "evolve" or not len(known.fields)
    target = merge_fields(known, extract.payload) if accepts_new else known
    for extra in () if accepts_new else found.values():
        if extra.name.lower() not in {column.name.lower() for column in known.fields}:
            yield _ColumnFill(extra.name, None, _text(quoted(extra.name), extra.dataType))
    for column in target.fields:
        name, target_type = column.name, column.dataType
        if name.lower() not in found:
            yield _ColumnFill(name, f"CAST(NULL AS {sql_type(target_type)})")
            continue
        source_field = found[name.lower()]
        source, text = quoted(source_field.name), extract.unfit.get(source_field.name)
        text = quoted(text) if text else None
        if table.contract == "open":
            value = _text(source, source_field.dataType)
            yield _ColumnFill(name, f"coalesce({value}, {text})" if text else value)
            continue
        fitted = _lossless_cast(source, source_field.dataType, target_type)
        if fitted is not None:
            yield _ColumnFill(name, fitted, text)
        elif not _are_numbers(source_field.dataType, target_type):
            yield _ColumnFill(
                name,
                f"CAST(NULL AS {sql_type(target_type)})",
                f"coalesce({_text(source, source_field.dataType)}, {text or 'NULL'})",
            )
        else:
            narrow = f"try_cast({source} AS {sql_type(target_type)})"
            same = f"try_cast({narrow} AS {sql_type(source_field.dataType)}) <=> {source}"
            text = f"coalesce(IF({same}, NULL, CAST({source} AS string)), {text or 'NULL'})"
            yield _ColumnFill(name, f"IF({same}, {narrow}, NULL)", text)


def _expected_columns(table: Table, extract: SourceRows, facts: TableFacts | None) -> StructType:
    known = widened_schema(table, table_schema(table, facts), _arrow_type(extract))
    return parse_columns(extract.rows.sparkSession, {each.name: spark_type(each.type) for each in known})


def _arrow_type(extract: SourceRows) -> pa.DataType:
    """Return the columns of the source that have an Arrow type."""
    found = []
    for each in extract.payload:
        with suppress(KeyError):
            found.append((each.name, arrow_type(sql_type(each.dataType))))
    return pa.struct(found)


def _lossless_cast(source: str, found: DataType, target_type: DataType, depth: int = 0) -> str | None:
    """Return SQL that casts the value to the target type, or None when some value would not fit."""
    from pyspark.sql.types import ArrayType, StructType

    if sql_type(found) == sql_type(target_type) or _fits_into(found, target_type):
        # The cast also removes column metadata of the source, such as a length that Delta would enforce.
        return f"CAST({source} AS {sql_type(target_type)})"
    if isinstance(found, StructType) and isinstance(target_type, StructType):
        names = {each.name.lower(): each for each in found.fields}
        parts: list[str] = []
        for each in target_type.fields:
            part: str | None = f"CAST(NULL AS {sql_type(each.dataType)})"
            if field := names.get(each.name.lower()):
                part = _lossless_cast(f"{source}.{quoted(field.name)}", field.dataType, each.dataType, depth)
            if part is None:
                return None
            parts.append(f"{part} AS {quoted(each.name)}")
        return f"IF({source} IS NULL, NULL, struct({', '.join(parts)}))"
    if isinstance(found, ArrayType) and isinstance(target_type, ArrayType):
        item = f"item{depth}"
        each_fitted = _lossless_cast(item, found.elementType, target_type.elementType, depth + 1)
        return None if each_fitted is None else f"transform({source}, {item} -> {each_fitted})"
    return None


def _fits_into(found: DataType, target_type: DataType) -> bool:
    """Whether every number of the found type is representable in the target type."""
    one, other = sql_type(found), sql_type(target_type)
    if one == SimpleType("float"):
        return other == SimpleType("double")
    size, room = digits(one), digits(other)
    return size is not None and room is not None and size[0] - size[1] <= room[0] - room[1] and size[1] <= room[1]


def _are_numbers(*types: DataType) -> bool:
    inexact = (SimpleType("float"), SimpleType("double"))
    return all(type in inexact or digits(type) is not None for type in map(sql_type, types))


def _text(source: str, type: DataType) -> str:
    """Return SQL: the value as text, without loss."""
    match type.typeName():
        case "array" | "map" | "struct" | "variant":
            return f"to_json({source}, {EXACT_JSON})"
        case "timestamp":
            return f"get_json_object(to_json(struct({source} AS at), {EXACT_JSON}), '$.at')"
        case "binary":
            return f"base64({source})"
        case _:
            return f"CAST({source} AS string)"


def _contract_violations(table: Table, extract: SourceRows, facts: TableFacts | None) -> list[str]:
    """Return the differences that the contract does not allow."""
    drift = table.drift
    frozen = {"+": drift.new_column, "~": drift.type, "-": drift.missing_column}
    kinds = tuple(kind for kind, reaction in frozen.items() if reaction == "freeze")
    if table.contract == "strict":
        kinds = ("+", "~", "-")
    return [line for line in _differences(table, extract, facts) if line.startswith(kinds)] if kinds else []


def _differences(table: Table, extract: SourceRows, facts: TableFacts | None) -> list[str]:
    before = {each.name: each.dataType for each in _expected_columns(table, extract, facts).fields}
    now = {each.name: each.dataType for each in extract.payload}
    return differences(
        before,
        now,
        type_name=lambda type: str(sql_type(type)),
        fits=lambda old, new: _lossless_cast("", new, old) is not None,
    )
