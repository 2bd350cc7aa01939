"""Generates the database SQL that reads each column, so that Spark's types do not change any value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.declare.spark_type import INTEGER_DIGITS, SparkType, digits
from lakesmith.errors import DataError
from lakesmith.sources.jdbc import Kind
from lakesmith.spark.types import sql_type

if TYPE_CHECKING:
    from pyspark.sql.types import DecimalType, StructField

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(INTEGER_DIGITS, "number"),
    "date": "date",
    "timestamp_ntz": "moment",
    "timestamp": "instant",
    "string": "text",
}
_AS_TEXT = ("time", "timetz", "interval", "bit", "varbit")
"""PostgreSQL types that Spark would change: it adds a date, truncates to milliseconds, or reads booleans or bytes."""
_COMPARABLE = "abs({column}) < 1e1000"
"""PostgreSQL numbers may be NaN or Infinity, which sort after all other numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseColumn:
    """A column and the database SQL that reads it."""

    name: str
    quoted: str
    """The name, quoted for the database."""
    value: str
    fits: str | None = None
    """SQL: whether the value fits Spark's type. Otherwise NULL is read, and the text into a second column."""
    kind: Kind | None = None
    """How the values compare. None when they have no order."""
    as_text: bool = False
    """Whether only the database can write the numbers with all their digits."""

    @property
    def unfit(self) -> str:
        """SQL: the text of a value that does not fit Spark's type."""
        return f"CASE WHEN NOT ({self.fits}) THEN CAST({self.quoted} AS text) END"

    def extreme(self, function: str) -> str:
        """Return SQL: the exact minimum or maximum."""
        found = f"{function}({self.quoted})"
        return f"CAST({found} AS text)" if self.as_text else found


def database_column(field: StructField, url: str, target_type: SparkType | None = None) -> DatabaseColumn:
    """Return how to read a column. `target_type` is its type in the bronze table."""
    quoted = database_name(field.name, url)
    if url.startswith("jdbc:postgresql:"):
        return _postgresql_column(field, quoted, target_type)
    if "logical_time_type" in field.metadata or _is_cut(field):
        described = field.metadata.get("jdbcClientType", "of a type")
        raise DataError(
            "type-inexact",
            f"the column '{field.name}' is {described}, and Spark would change its values ({sql_type(field.dataType)})",
            hint=f"cast it in the source: jdbc: (SELECT CAST({field.name} AS VARCHAR(40)) AS {field.name}, …)",
        )
    return DatabaseColumn(name=field.name, quoted=quoted, value=quoted, kind=_kind(field))


def database_name(name: str, url: str) -> str:
    """Return a name, quoted for the database."""
    sign = "`" if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")) else '"'
    return sign + name.replace(sign, sign * 2) + sign


def _postgresql_column(field: StructField, quoted: str, target_type: SparkType | None) -> DatabaseColumn:
    type = str(field.metadata.get("jdbcClientType", ""))
    value, kind, fits = quoted, _kind(field), None
    match type:
        case "timestamp" | "date" | "timestamptz":
            # Without infinity and BC dates, which few readers support.
            zone = "+00" if type == "timestamptz" else ""
            fits = f"{quoted} >= '0001-01-01{zone}' AND {quoted} < '10000-01-01{zone}'"
            value = f"CASE WHEN {fits} THEN {quoted} END"
        case "numeric":
            kind = "number"
            value, fits = _number(field, quoted, target_type)
        case "money":
            value, kind = f"CAST(CAST({quoted} AS numeric) AS text)", None
        case _ if type in _AS_TEXT:
            value, kind = f"CAST({quoted} AS text)", None
        case _ if type.startswith("_"):
            # A column that is declared as a flat array may hold nested arrays. JSON can represent them all.
            value, kind = f"CAST(to_json({quoted}) AS text)", None
    return DatabaseColumn(name=field.name, quoted=quoted, value=value, fits=fits, kind=kind, as_text=type == "numeric")


def _number(field: StructField, quoted: str, target_type: SparkType | None) -> tuple[str, str | None]:
    """Return SQL for a number and for whether it fits. Unconstrained numbers get the target type, or become text."""
    type = target_type if _is_cut(field) else sql_type(field.dataType)
    size = digits(type) if type else None
    if size is None:
        return f"CAST({quoted} AS text)", None
    precision, scale = size
    fits = f"abs({quoted}) < 1e{precision - scale} AND round({quoted}, {scale}) = {quoted}"
    # A CASE loses the precision of its branches.
    return f"CAST(CASE WHEN {fits} THEN {quoted} END AS numeric({precision},{scale}))", fits


def comparable(column: DatabaseColumn) -> str | None:
    """Return SQL: whether the value is comparable with others. None when every value is."""
    return _COMPARABLE.format(column=column.quoted) if column.as_text else column.fits


def _is_cut(field: StructField) -> bool:
    """Whether Spark reads the numbers with another scale than the database."""
    if field.dataType.typeName() != "decimal":
        return False
    type: DecimalType = field.dataType  # type: ignore[assignment]
    return bool(type.scale != field.metadata.get("scale"))


def _kind(field: StructField) -> Kind | None:
    return "number" if field.dataType.typeName() == "decimal" else _KINDS.get(str(sql_type(field.dataType)))
