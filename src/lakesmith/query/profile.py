"""Profiles the rows of a table with DuckDB: one statement for all columns, a second for some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from lakesmith.columns import AUDIT
from lakesmith.declare import Table, TableName
from lakesmith.declare.loads import added_columns, key_columns
from lakesmith.declare.spark_type import INTEGER_DIGITS, SimpleType, SparkType, digits
from lakesmith.errors import InfrastructureError
from lakesmith.quality.profile import FEW_VALUES, ForeignKey, ProfiledTable, proposals_text, propose
from lakesmith.quality.text_patterns import TEXT_PATTERNS, TextPattern
from lakesmith.query.duckdb import DuckDB
from lakesmith.query.names import quoted
from lakesmith.reports import ColumnProfile, Frequent, TableProfile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

    Rows: TypeAlias = pyarrow.dataset.Dataset | pa.RecordBatchReader

_QUANTILES = ("0.05", "0.25", "0.5", "0.75", "0.95")
_SHOWN = 3
_CUT = 200
"""How many characters of an example text are used."""
_GENERIC = ("id", "key", "code", "uuid", "name")
"""Key names that do not identify their table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileInput:
    """A table to profile."""

    table: Table
    version: int
    rows: int
    open: Callable[[], Rows]
    """Open its rows again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProfiledColumn:
    """A column, and which aggregates apply to it."""

    number: int
    name: str
    type: SparkType
    masked: bool

    @property
    def sql(self) -> str:
        return quoted(self.name)

    @property
    def text(self) -> bool:
        return self.type == SimpleType("string")

    @property
    def float(self) -> bool:
        return self.type in (SimpleType("double"), SimpleType("float"))

    @property
    def whole(self) -> bool:
        return isinstance(self.type, SimpleType) and self.type.name in INTEGER_DIGITS

    @property
    def amount(self) -> bool:
        return self.float or digits(self.type) is not None

    @property
    def ordered(self) -> bool:
        return self.amount or self.text or str(self.type) in ("date", "timestamp", "timestamp_ntz", "boolean")


def profile(
    table: ProfileInput,
    others: Mapping[TableName, ProfileInput],
    *,
    limit: int,
    now: datetime,
    engine: DuckDB | None = None,
) -> TableProfile:
    """Return statistics of the rows and proposed checks. `others` are tables that columns may reference."""
    engine, name = engine or DuckDB(), str(table.table.name)
    opened = table.open()
    profiled = _profiled_columns(opened.schema, table.table)
    rows: Callable[[], Rows] = table.open
    try:
        if table.rows > limit:
            rows = _sampled(engine, opened, [column.name for column in profiled], limit)
        first = _query_aggregates(engine, name, rows, [("rows", "count(*)"), *_first_aggregates(profiled)])
        second = _query_aggregates(engine, name, rows, _second_aggregates(profiled, first))
        references = _references(engine, table.table, rows, profiled, others)
    except InfrastructureError as error:
        if error.code == "query-memory":
            error.hint = f"profile fewer rows: `lakesmith profile {name} --rows {max(limit // 10, 1)}`"
        raise
    values_by_key = {**first, **second}
    columns = tuple(_column(column, values_by_key) for column in profiled)
    profiled_table = ProfiledTable(
        table=table.table,
        rows=max(table.rows, values_by_key["rows"]),
        profiled_rows=values_by_key["rows"],
        references=references,
        now=now,
    )
    proposals = propose(columns, profiled_table)
    return TableProfile(
        table=name,
        version=table.version,
        rows=profiled_table.rows,
        profiled_rows=profiled_table.profiled_rows,
        columns=columns,
        proposals=proposals,
        yaml=proposals_text(proposals),
    )


def _profiled_columns(schema: pa.Schema, table: Table) -> list[_ProfiledColumn]:
    """Return the table's own columns."""
    added = {name.lower() for name in (*AUDIT, *added_columns(table.load))}
    private = {column.name.lower() for column in table.columns if column.is_private}
    own = [field for field in schema if field.name.lower() not in added]
    from lakesmith.intake.shapes import spark_type

    return [
        _ProfiledColumn(
            number=number, name=field.name, type=spark_type(field.type), masked=field.name.lower() in private
        )
        for number, field in enumerate(own)
    ]


def _sampled(engine: DuckDB, rows: Rows, columns: Sequence[str], limit: int) -> Callable[[], Rows]:
    import pyarrow.dataset

    sample = pyarrow.dataset.dataset(engine.sample(rows, columns, limit))
    return lambda: sample


def _query_aggregates(
    engine: DuckDB, table: str, rows: Callable[[], Rows], aggregates: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return the aggregates by name, computed in one statement."""
    if not aggregates:
        return {}
    columns = ", ".join(f"{sql} AS v{number}" for number, (_, sql) in enumerate(aggregates))
    (answer,) = engine.query(f"SELECT {columns} FROM {table}", {table: rows()}).rows
    return {key: value for (key, _), value in zip(aggregates, answer, strict=True)}


def _first_aggregates(profiled: Iterable[_ProfiledColumn]) -> list[tuple[str, str]]:
    """Return the aggregates of every column. Values of a masked column never leave the engine."""
    aggregates: list[tuple[str, str]] = []
    for column in profiled:
        name, number = column.sql, column.number
        aggregates.append((f"{number}.present", f"count({name})"))
        if column.ordered or column.type == SimpleType("binary"):
            aggregates.append((f"{number}.distinct", f"approx_count_distinct({name})"))
        if column.text:
            aggregates += [
                (f"{number}.shortest", f"min(length({name}))"),
                (f"{number}.longest", f"max(length({name}))"),
            ]
        if column.masked or not column.ordered:
            continue
        some = f" FILTER (WHERE isfinite({name}))" if column.float else ""
        if column.float:
            aggregates.append((f"{number}.not_finite", f"count_if(NOT isfinite({name}))"))
        for word in ("min", "max"):
            extreme = f"{word}({name}){some}"
            aggregates.append((f"{number}.{word}", f"left({extreme}, {_CUT})" if column.text else extreme))
        if column.amount:
            amount = f"CAST({name} AS DOUBLE)"
            aggregates += [
                (f"{number}.mean", f"avg({amount}){some}"),
                # The squares of large numbers overflow a double; then there is no deviation.
                (
                    f"{number}.deviation",
                    f"sqrt(greatest(0, avg({amount} * {amount}){some} - avg({amount}){some} ** 2))",
                ),
                (f"{number}.quantiles", f"quantile_cont({amount}, [{', '.join(_QUANTILES)}]){some}"),
            ]
        example = f"left({name}, {_CUT})" if column.text else name
        aggregates.append((f"{number}.frequent", f"approx_top_k({example}, {_SHOWN})"))
    return aggregates


def _second_aggregates(profiled: Iterable[_ProfiledColumn], first: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the aggregates for columns that may be unique, have few values, or match a format."""
    aggregates: list[tuple[str, str]] = []
    for column in profiled:
        name, number = column.sql, column.number
        present, about = first[f"{number}.present"], first.get(f"{number}.distinct")
        if not present or about is None:
            continue
        if (column.text or column.whole) and about > present / 2:
            # Equal values have equal hashes: as many hashes as values prove that all differ.
            aggregates.append((f"{number}.hashes", f"count(DISTINCT hash({name}))"))
        if not column.masked and not column.float and about <= 3 * FEW_VALUES:
            aggregates.append((f"{number}.values", f"map_entries(histogram({name}))"))
        if column.text:
            for form in _matching_formats(column, first):
                aggregates.append((f"{number}.{form.name}", f"count_if(regexp_matches({name}, '{form.matches}'))"))
    return aggregates


def _matching_formats(column: _ProfiledColumn, first: Mapping[str, Any]) -> list[TextPattern]:
    """Return the formats that the examples match; a masked column has no examples."""
    if column.masked:
        return list(TEXT_PATTERNS)
    number = column.number
    examples = [first[f"{number}.min"], first[f"{number}.max"], *first[f"{number}.frequent"]]
    return [form for form in TEXT_PATTERNS if all(form.fits(example) for example in examples if example is not None)]


def _column(column: _ProfiledColumn, values_by_key: Mapping[str, Any]) -> ColumnProfile:
    number, rows = column.number, values_by_key["rows"]

    def of(key: str) -> Any:
        return values_by_key.get(f"{number}.{key}")

    present = of("present")
    values, hashes = of("values"), of("hashes")
    counted = values is not None or hashes is not None
    distinct = len(values) if values is not None else hashes if hashes is not None else of("distinct")
    quantiles = of("quantiles")
    profile = ColumnProfile(
        column=column.name,
        type=str(column.type),
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
        return profile
    return replace(
        profile,
        min=of("min"),
        max=of("max"),
        mean=of("mean"),
        deviation=of("deviation"),
        quantiles=dict(zip(_QUANTILES, quantiles, strict=True)) if quantiles else {},
        not_finite=of("not_finite") or 0,
        frequent=_frequent(values, of("frequent"), unique=profile.unique),
    )


def _frequent(
    values: list[dict[str, Any]] | None, examples: list[object] | None, *, unique: bool
) -> tuple[Frequent, ...]:
    """Return all values with their counts where they are few, else some frequent values."""
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
    profiled: Sequence[_ProfiledColumn],
    others: Mapping[TableName, ProfileInput],
) -> tuple[ForeignKey, ...]:
    """Return columns named like another table's key, where the key contains all their values."""
    opened: dict[str, Rows] = {}
    candidates: list[ForeignKey] = []
    from lakesmith.intake.shapes import spark_type

    for name, other in others.items():
        key = _single_key(other.table)
        named = [column for column in profiled if key and column.name.lower() in _names(name.name, key)]
        if key is None or not named:
            continue
        other_rows = other.open()
        types = {field.name.lower(): (field.name, spark_type(field.type)) for field in other_rows.schema}
        name_in_schema, key_type = types.get(key.lower(), (key, None))
        for column in named:
            if column.type == key_type and (column.text or column.whole):
                opened[str(name)] = other_rows
                candidates.append(ForeignKey(column=column.name, table=name, key=name_in_schema))
    if not candidates:
        return ()
    counts = ", ".join(_missing_values(str(table.name), each) for each in candidates)
    (missing,) = engine.query(f"SELECT {counts}", {str(table.name): rows(), **opened}).rows
    return tuple(each for each, count in zip(candidates, missing, strict=True) if count == 0)


def _missing_values(table: str, reference: ForeignKey) -> str:
    """Return SQL that counts the values that the other table lacks."""
    own, theirs = quoted(reference.column), quoted(reference.key)
    joined = f"{table} AS own ANTI JOIN {reference.table} AS other ON own.{own} = other.{theirs}"
    return f"(SELECT count(DISTINCT own.{own}) FROM {joined})"


def _single_key(table: Table) -> str | None:
    """Return the column that identifies the rows of a table, if it is a single one."""
    declared = tuple(column.name for column in table.columns if column.key)
    unique = tuple(column.name for column in table.columns if column.unique)
    return next((keys[0] for keys in (key_columns(table.load), declared, unique) if len(keys) == 1), None)


def _names(table: str, key: str) -> set[str]:
    """Return the likely names of a column that holds the key of a table."""
    key = key.lower()
    singular = table.removesuffix("ies") + "y" if table.endswith("ies") else table.removesuffix("s")
    long = {f"{table}_{key}", f"{singular}_{key}"}
    return long if key in _GENERIC else {key, *long}
