"""Rows that are typed where they come from meet the table's columns: what does not fit is kept, never bent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesmith.columns import AGAIN, AUDIT, CHANGE_AUDIT, CODE, CORRUPT, HIDDEN, RESCUED, ROW_HASH
from lakesmith.declare import Table
from lakesmith.errors import DataError
from lakesmith.intake.differences import differences
from lakesmith.intake.shapes import arrow_type, spark_type, storable
from lakesmith.ledger.batch import Batch
from lakesmith.ports import TableFacts
from lakesmith.spark.ingest.known import known_columns, widened_columns
from lakesmith.spark.types import EXACT_JSON, merged, parse_columns, spelt
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

_WHOLE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""Types of whole numbers, and how many digits they can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """Rows as a source gave them."""

    rows: DataFrame
    told: str
    """Where they come from, in a few words."""
    unfit: Mapping[str, str] = field(default_factory=dict)
    """By column, the one beside it that holds as text what has no place in the column's type."""
    added: tuple[str, ...] = ()
    """Audit columns and hidden ones that the rows have already."""

    @property
    def payload(self) -> list[StructField]:
        """The columns that the source itself has."""
        others = {*self.unfit.values(), *self.added}
        return [found for found in self.rows.schema.fields if found.name not in others]


def row_hash(extract: Extract) -> str:
    """SQL: 128 bits that tell a record from any other, from its content alone."""
    # NULLs are left out, so the hash of a row stays the same when the source gains a column. Computed by Spark itself:
    # the rows need not leave the JVM for it.
    held = [quoted(found.name) for found in extract.payload]
    held += [f"{quoted(beside)} AS {quoted('unfit ' + name)}" for name, beside in extract.unfit.items()]
    return f"left(sha2(to_json(struct({', '.join(held)}), {EXACT_JSON}), 256), 32)"


def check_columns(table: Table, extract: Extract, facts: TableFacts | None) -> None:
    """Refuse names that a table cannot hold, and what a strict contract does not allow."""
    names = [found.name for found in extract.payload]
    odd = [name for name in names if not storable(name)]
    if odd:
        reserved = odd[0].lower() in (*AUDIT, "_metadata") or odd[0].lower().startswith(HIDDEN)
        raise DataError(
            "reserved-column" if reserved else "bad-column-name",
            f"{extract.told} has a column named {odd[0]!r}, "
            + ("a name that Lakesmith uses itself" if reserved else "which a table cannot store"),
            table=str(table.name),
            hint="give it another name in the source, such as jdbc: (SELECT … AS other_name FROM …)",
        )
    lower = [name.lower() for name in names]
    if twice := sorted({name for name in names if lower.count(name.lower()) > 1}):
        raise DataError(
            "header-twice",
            f"{extract.told} has the column {' and '.join(map(repr, twice))} more than once",
            table=str(table.name),
            hint="names that differ only in upper and lower case are one column here: rename one in the source",
        )
    if changes := _not_let_in(table, extract, facts):
        raise DataError(
            "contract-broken",
            f"the contract does not let in what {extract.told} has: {'; '.join(changes)}",
            table=str(table.name),
            hint=f"change the columns in {table.declared_at.file}, or say `contract: additive` to take new ones in",
        )


def audited(table: Table, batch: Batch, extract: Extract, facts: TableFacts | None) -> DataFrame:
    """The payload as the table's columns have it, the audit columns, and the hidden ones."""
    check_columns(table, extract, facts)
    fits = list(_fits(table, extract, facts))
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
        f"CAST(NULL AS string) AS {CODE}",
        *([AGAIN] if AGAIN in extract.added else []),
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    """How one column of the table is filled."""

    name: str
    value: str | None
    """SQL; None where the table does not take the column in."""
    unfit: str | None = None
    """SQL: what cannot be in the column, NULL when all can."""


def _fits(table: Table, extract: Extract, facts: TableFacts | None) -> Iterator[_Fit]:
    known = _known(table, extract, facts)
    found = {each.name.lower(): each for each in extract.payload}
    let_in = table.drift.new_column == "evolve" or not len(known.fields)
    target = merged(known, extract.payload) if let_in else known
    for extra in () if let_in else found.values():
        if extra.name.lower() not in {column.name.lower() for column in known.fields}:
            yield _Fit(extra.name, None, _text(quoted(extra.name), extra.dataType))
    for column in target.fields:
        name, wanted = column.name, column.dataType
        if name.lower() not in found:
            yield _Fit(name, f"CAST(NULL AS {spelt(wanted)})")
            continue
        came = found[name.lower()]
        held, beside = quoted(came.name), extract.unfit.get(came.name)
        text = quoted(beside) if beside else None
        if table.contract == "open":
            value = _text(held, came.dataType)
            yield _Fit(name, f"coalesce({value}, {text})" if text else value)
            continue
        fitted = _fitted(held, came.dataType, wanted)
        if fitted is not None:
            yield _Fit(name, fitted, text)
        elif not _are_numbers(came.dataType, wanted):
            yield _Fit(
                name, f"CAST(NULL AS {spelt(wanted)})", f"coalesce({_text(held, came.dataType)}, {text or 'NULL'})"
            )
        else:
            narrow = f"try_cast({held} AS {spelt(wanted)})"
            same = f"try_cast({narrow} AS {spelt(came.dataType)}) <=> {held}"
            text = f"coalesce(IF({same}, NULL, CAST({held} AS string)), {text or 'NULL'})"
            yield _Fit(name, f"IF({same}, {narrow}, NULL)", text)


def _known(table: Table, extract: Extract, facts: TableFacts | None) -> StructType:
    known = widened_columns(table, known_columns(table, facts), _described(extract))
    return parse_columns(extract.rows.sparkSession, {each.name: spark_type(each.type) for each in known})


def _described(extract: Extract) -> pa.DataType:
    """What the source brings, as far as Arrow has types for it."""
    found = []
    for each in extract.payload:
        with suppress(KeyError):
            found.append((each.name, arrow_type(spelt(each.dataType))))
    return pa.struct(found)


def _fitted(held: str, found: DataType, wanted: DataType, depth: int = 0) -> str | None:
    """SQL: the value as the wanted type has it, where every value of the found type has a place in it."""
    from pyspark.sql.types import ArrayType, StructType

    if spelt(found) == spelt(wanted) or _is_wider(found, wanted):
        # The cast also takes away what the source noted about the column, such as a length that Delta would enforce.
        return f"CAST({held} AS {spelt(wanted)})"
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        names = {each.name.lower(): each for each in found.fields}
        parts: list[str] = []
        for each in wanted.fields:
            part: str | None = f"CAST(NULL AS {spelt(each.dataType)})"
            if came := names.get(each.name.lower()):
                part = _fitted(f"{held}.{quoted(came.name)}", came.dataType, each.dataType, depth)
            if part is None:
                return None
            parts.append(f"{part} AS {quoted(each.name)}")
        return f"IF({held} IS NULL, NULL, struct({', '.join(parts)}))"
    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        item = f"item{depth}"
        each_fitted = _fitted(item, found.elementType, wanted.elementType, depth + 1)
        return None if each_fitted is None else f"transform({held}, {item} -> {each_fitted})"
    return None


def _is_wider(found: DataType, wanted: DataType) -> bool:
    """Every number of the one type is a number of the other, unchanged."""
    one, other = spelt(found), spelt(wanted)
    if one == "float":
        return other == "double"
    digits, room = _digits(found), _digits(wanted)
    return digits is not None and room is not None and digits[0] <= room[0] and digits[1] <= room[1]


def _digits(type: DataType) -> tuple[int, int] | None:
    """Before and after the point."""
    from pyspark.sql.types import DecimalType

    if isinstance(type, DecimalType):
        return type.precision - type.scale, type.scale
    return (_WHOLE[spelt(type)], 0) if spelt(type) in _WHOLE else None


def _are_numbers(*types: DataType) -> bool:
    return all(spelt(type) in ("float", "double") or _digits(type) is not None for type in types)


def _text(held: str, type: DataType) -> str:
    """SQL: a value as text that tells all of it."""
    match type.typeName():
        case "array" | "map" | "struct" | "variant":
            return f"to_json({held}, {EXACT_JSON})"
        case "timestamp":
            return f"get_json_object(to_json(struct({held} AS at), {EXACT_JSON}), '$.at')"
        case "binary":
            return f"base64({held})"
        case _:
            return f"CAST({held} AS string)"


def _not_let_in(table: Table, extract: Extract, facts: TableFacts | None) -> list[str]:
    """What the source has that the contract does not let in."""
    drift = table.drift
    frozen = {"+": drift.new_column, "~": drift.type, "-": drift.missing_column}
    kinds = tuple(kind for kind, reaction in frozen.items() if reaction == "freeze")
    if table.contract == "strict":
        kinds = ("+", "~", "-")
    return [line for line in _differences(table, extract, facts) if line.startswith(kinds)] if kinds else []


def _differences(table: Table, extract: Extract, facts: TableFacts | None) -> list[str]:
    before = {each.name: each.dataType for each in _known(table, extract, facts).fields}
    now = {each.name: each.dataType for each in extract.payload}
    return differences(before, now, spelt=spelt, fits=lambda old, new: _fitted("", new, old) is not None)
