"""Looks at the rows of a table with DuckDB: one statement for all columns, a second for what only some of them need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from lakesmith.columns import AUDIT
from lakesmith.declare import Table, TableName
from lakesmith.declare.loads import added_columns, key_columns
from lakesmith.errors import InfrastructureError
from lakesmith.quality.profile import FEW_VALUES, ProfiledTable, Reference, propose, proposals_text
from lakesmith.quality.text_patterns import TEXT_PATTERNS, TextPattern
from lakesmith.query.duckdb import DuckDB
from lakesmith.reports import ColumnProfile, Frequent, TableProfile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

    Rows: TypeAlias = pyarrow.dataset.Dataset | pa.RecordBatchReader

_QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")
_SHOWN = 3
_CUT = 200
"""Of texts, so many characters are looked at as examples."""
_GENERIC = ("id", "key", "code", "uuid", "name")
"""Names of keys that do not tell of which table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileInput:
    """A table that is looked at."""

    table: Table
    version: int
    rows: int
    open: Callable[[], Rows]
    """Its rows, each time anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """A column, and what may be asked of it."""

    number: int
    name: str
    kind: str
    """A Spark SQL type where there is one; else Arrow's."""
    masked: bool

    @property
    def sql(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'

    @property
    def text(self) -> bool:
        return self.kind == "string"

    @property
    def float(self) -> bool:
        return self.kind in ("double", "float")

    @property
    def whole(self) -> bool:
        return self.kind in ("tinyint", "smallint", "int", "bigint")

    @property
    def amount(self) -> bool:
        return self.whole or self.float or self.kind.startswith("decimal(")

    @property
    def ordered(self) -> bool:
        return self.amount or self.text or self.kind in ("date", "timestamp", "timestamp_ntz", "boolean")


def profile(
    table: ProfileInput,
    others: Mapping[TableName, ProfileInput],
    *,
    limit: int,
    now: datetime,
    engine: DuckDB | None = None,
) -> TableProfile:
    """What the rows are like, and what could be promised of them. `others` are tables that may be referred to."""
    engine, name = engine or DuckDB(), str(table.table.name)
    opened = table.open()
    looked = _looked(opened.schema, table.table)
    rows: Callable[[], Rows] = table.open
    try:
        if table.rows > limit:
            rows = _sampled(engine, opened, [column.name for column in looked], limit)
        first = _ask(engine, name, rows, [("rows", "count(*)"), *_questions(looked)])
        second = _ask(engine, name, rows, _second(looked, first))
        references = _references(engine, table.table, rows, looked, others)
    except InfrastructureError as error:
        if error.code == "query-memory":
            error.hint = f"look at fewer rows: `lakesmith profile {name} --rows {max(limit // 10, 1)}`"
        raise
    told = {**first, **second}
    columns = tuple(_column(column, told) for column in looked)
    seen = ProfiledTable(
        table=table.table,
        rows=max(table.rows, told["rows"]),
        profiled_rows=told["rows"],
        references=references,
        now=now,
    )
    proposals = propose(columns, seen)
    return TableProfile(
        table=name,
        version=table.version,
        rows=seen.rows,
        profiled_rows=seen.profiled_rows,
        columns=columns,
        proposals=proposals,
        yaml=proposals_text(proposals),
    )


def _looked(schema: pa.Schema, table: Table) -> list[_Looked]:
    """The columns that are the table's own."""
    added = {name.lower() for name in (*AUDIT, *added_columns(table.load))}
    private = {column.name.lower() for column in table.columns if column.is_private}
    own = [field for field in schema if field.name.lower() not in added]
    return [
        _Looked(number=number, name=field.name, kind=_kind(field.type), masked=field.name.lower() in private)
        for number, field in enumerate(own)
    ]


def _kind(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    simple = {
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.bool_(): "boolean",
        pa.date32(): "date",
    }
    return simple.get(kind, str(kind))


def _sampled(engine: DuckDB, rows: Rows, columns: Sequence[str], limit: int) -> Callable[[], Rows]:
    import pyarrow.dataset

    kept = pyarrow.dataset.dataset(engine.sample(rows, columns, limit))
    return lambda: kept


def _ask(engine: DuckDB, table: str, rows: Callable[[], Rows], questions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The aggregates by name, all of them in one statement."""
    if not questions:
        return {}
    asked = ", ".join(f"{sql} AS v{number}" for number, (_, sql) in enumerate(questions))
    (answer,) = engine.query(f"SELECT {asked} FROM {table}", {table: rows()}).rows
    return {key: value for (key, _), value in zip(questions, answer, strict=True)}


def _questions(looked: Iterable[_Looked]) -> list[tuple[str, str]]:
    """What is asked of every column. Values of a masked one never leave the engine."""
    asked: list[tuple[str, str]] = []
    for column in looked:
        name, number = column.sql, column.number
        asked.append((f"{number}.present", f"count({name})"))
        if column.ordered or column.kind == "binary":
            asked.append((f"{number}.distinct", f"approx_count_distinct({name})"))
        if column.text:
            asked += [(f"{number}.shortest", f"min(length({name}))"), (f"{number}.longest", f"max(length({name}))")]
        if column.masked or not column.ordered:
            continue
        some = f" FILTER (WHERE isfinite({name}))" if column.float else ""
        if column.float:
            asked.append((f"{number}.not_finite", f"count_if(NOT isfinite({name}))"))
        for word in ("min", "max"):
            found = f"{word}({name}){some}"
            asked.append((f"{number}.{word}", f"left({found}, {_CUT})" if column.text else found))
        if column.amount:
            amount = f"CAST({name} AS DOUBLE)"
            asked += [
                (f"{number}.mean", f"avg({amount}){some}"),
                # The squares of large numbers overflow a double; then there is no deviation to tell.
                (
                    f"{number}.deviation",
                    f"sqrt(greatest(0, avg({amount} * {amount}){some} - avg({amount}){some} ** 2))",
                ),
                (f"{number}.quantiles", f"quantile_cont({amount}, [{', '.join(_QUANTILES)}]){some}"),
            ]
        example = f"left({name}, {_CUT})" if column.text else name
        asked.append((f"{number}.frequent", f"approx_top_k({example}, {_SHOWN})"))
    return asked


def _second(looked: Iterable[_Looked], first: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is asked of those columns only that may be unique, have few values, or have a form."""
    asked: list[tuple[str, str]] = []
    for column in looked:
        name, number = column.sql, column.number
        present, about = first[f"{number}.present"], first.get(f"{number}.distinct")
        if not present or about is None:
            continue
        if (column.text or column.whole) and about > present / 2:
            # Equal values have equal hashes: as many hashes as values prove that all differ.
            asked.append((f"{number}.hashes", f"count(DISTINCT hash({name}))"))
        if not column.masked and not column.float and about <= 3 * FEW_VALUES:
            asked.append((f"{number}.values", f"map_entries(histogram({name}))"))
        if column.text:
            for form in _possible(column, first):
                asked.append((f"{number}.{form.name}", f"count_if(regexp_matches({name}, '{form.matches}'))"))
    return asked


def _possible(column: _Looked, first: Mapping[str, Any]) -> list[TextPattern]:
    """The forms that the examples have; of a masked column there are none to look at."""
    if column.masked:
        return list(TEXT_PATTERNS)
    number = column.number
    examples = [first[f"{number}.min"], first[f"{number}.max"], *first[f"{number}.frequent"]]
    return [form for form in TEXT_PATTERNS if all(form.fits(example) for example in examples if example is not None)]


def _column(column: _Looked, told: Mapping[str, Any]) -> ColumnProfile:
    number, rows = column.number, told["rows"]

    def of(key: str) -> Any:
        return told.get(f"{number}.{key}")

    present = of("present")
    values, hashes = of("values"), of("hashes")
    counted = values is not None or hashes is not None
    distinct = len(values) if values is not None else hashes if hashes is not None else of("distinct")
    quantiles = of("quantiles")
    made = ColumnProfile(
        column=column.name,
        type=column.kind,
        nulls=rows - present,
        null_rate=(rows - present) / rows if rows else 0.0,
        distinct=min(distinct, present) if distinct is not None else None,
        counted=counted,
        unique=counted and present > 0 and distinct == present,
        shortest=of("shortest"),
        longest=of("longest"),
        pattern=next((form.name for form in TEXT_PATTERNS if present and of(form.name) == present), None),
        masked=column.masked,
    )
    if column.masked:
        return made
    return replace(
        made,
        min=of("min"),
        max=of("max"),
        mean=of("mean"),
        deviation=of("deviation"),
        quantiles=dict(zip(_QUANTILES, quantiles, strict=True)) if quantiles else {},
        not_finite=of("not_finite") or 0,
        frequent=_frequent(values, of("frequent"), unique=made.unique),
    )


def _frequent(
    values: list[dict[str, Any]] | None, examples: list[object] | None, *, unique: bool
) -> tuple[Frequent, ...]:
    """All values where they are few, with the rows that have them; else some that come often."""
    if unique:
        return ()
    if values is not None:
        listed = [Frequent(value=each["key"], rows=each["value"]) for each in values]
        listed.sort(key=lambda each: (-(each.rows or 0), str(each.value)))
        return tuple(listed) if len(listed) <= FEW_VALUES else tuple(listed[:_SHOWN])
    return tuple(Frequent(value=value, rows=None) for value in examples or () if value is not None)


def _references(
    engine: DuckDB,
    table: Table,
    rows: Callable[[], Rows],
    looked: Sequence[_Looked],
    others: Mapping[TableName, ProfileInput],
) -> tuple[Reference, ...]:
    """The columns that are named like another table's key, where the key has all their values."""
    opened: dict[str, Rows] = {}
    candidates: list[Reference] = []
    for name, other in others.items():
        key = _single_key(other.table)
        named = [column for column in looked if key and column.name.lower() in _names(name.name, key)]
        if key is None or not named:
            continue
        found = other.open()
        kinds = {field.name.lower(): (field.name, _kind(field.type)) for field in found.schema}
        spelt, kind = kinds.get(key.lower(), (key, ""))
        for column in named:
            if column.kind == kind and (column.text or column.whole):
                opened[str(name)] = found
                candidates.append(Reference(column=column.name, table=name, key=spelt))
    if not candidates:
        return ()
    asked = ", ".join(_missing(str(table.name), each) for each in candidates)
    (missing,) = engine.query(f"SELECT {asked}", {str(table.name): rows(), **opened}).rows
    return tuple(each for each, count in zip(candidates, missing, strict=True) if count == 0)


def _missing(table: str, reference: Reference) -> str:
    """SQL: how many values the other table does not have."""
    own, theirs = ('"' + name.replace('"', '""') + '"' for name in (reference.column, reference.key))
    joined = f"{table} AS own ANTI JOIN {reference.table} AS other ON own.{own} = other.{theirs}"
    return f"(SELECT count(DISTINCT own.{own}) FROM {joined})"


def _single_key(table: Table) -> str | None:
    """The column that tells the rows of a table apart, if it is one alone."""
    declared = tuple(column.name for column in table.columns if column.key)
    unique = tuple(column.name for column in table.columns if column.unique)
    return next((keys[0] for keys in (key_columns(table.load), declared, unique) if len(keys) == 1), None)


def _names(table: str, key: str) -> set[str]:
    """How a column is called that holds the key of a table."""
    key = key.lower()
    singular = table.removesuffix("ies") + "y" if table.endswith("ies") else table.removesuffix("s")
    long = {f"{table}_{key}", f"{singular}_{key}"}
    return long if key in _GENERIC else {key, *long}
