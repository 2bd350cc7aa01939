"""How each column of a database is read, so that no value becomes another one on its way into Spark's types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakesmith.errors import DataError
from lakesmith.sources.jdbc import Kind
from lakesmith.spark.types import spelt

if TYPE_CHECKING:
    from pyspark.sql.types import DecimalType, StructField

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(_DIGITS, "number"),
    "date": "date",
    "timestamp_ntz": "moment",
    "timestamp": "instant",
    "string": "text",
}
_AS_TEXT = ("time", "timetz", "interval", "bit", "varbit")
"""Types of PostgreSQL that Spark gives a date, cuts to milliseconds, or turns into a flag or bytes."""
_COMPARABLE = "abs({column}) < 1e1000"
"""PostgreSQL's numbers may also be NaN and Infinity, which are greater than all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseColumn:
    """A column, and SQL of its database that reads it."""

    name: str
    quoted: str
    """Its name, for the database."""
    value: str
    fits: str | None = None
    """Where this does not hold, the value has no place in Spark's type: NULL is read, and text beside the column."""
    kind: Kind | None = None
    """What its values can be compared as."""
    as_text: bool = False
    """Only the database itself can write its numbers with all their digits."""

    @property
    def unfit(self) -> str:
        """SQL: what has no place in Spark's type, as text."""
        return f"CASE WHEN NOT ({self.fits}) THEN CAST({self.quoted} AS text) END"

    def extreme(self, function: str) -> str:
        """SQL: the least or the greatest value, exactly."""
        found = f"{function}({self.quoted})"
        return f"CAST({found} AS text)" if self.as_text else found


def database_column(field: StructField, url: str, wanted: str | None = None) -> DatabaseColumn:
    """The way to read a column that Spark describes so. `wanted` is the type that the bronze table has for it."""
    quoted = database_name(field.name, url)
    if url.startswith("jdbc:postgresql:"):
        return _postgresql_column(field, quoted, wanted)
    if "logical_time_type" in field.metadata or _is_cut(field):
        described = field.metadata.get("jdbcClientType", "of a type")
        raise DataError(
            "type-inexact",
            f"the column '{field.name}' is {described}, and Spark would read other values ({spelt(field.dataType)})",
            hint=f"cast it in the source, such as jdbc: (SELECT CAST({field.name} AS VARCHAR(40)) AS {field.name}, …)",
        )
    return DatabaseColumn(name=field.name, quoted=quoted, value=quoted, kind=_kind(field))


def database_name(name: str, url: str) -> str:
    """A name, quoted for the database."""
    sign = "`" if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")) else '"'
    return sign + name.replace(sign, sign * 2) + sign


def _postgresql_column(field: StructField, quoted: str, wanted: str | None) -> DatabaseColumn:
    type = str(field.metadata.get("jdbcClientType", ""))
    value, kind, fits = quoted, _kind(field), None
    match type:
        case "timestamp" | "date" | "timestamptz":
            # Without infinity and the years before Christ, which few others can read.
            zone = "+00" if type == "timestamptz" else ""
            fits = f"{quoted} >= '0001-01-01{zone}' AND {quoted} < '10000-01-01{zone}'"
            value = f"CASE WHEN {fits} THEN {quoted} END"
        case "numeric":
            kind = "number"
            value, fits = _number(field, quoted, wanted)
        case "money":
            value, kind = f"CAST(CAST({quoted} AS numeric) AS text)", None
        case _ if type in _AS_TEXT:
            value, kind = f"CAST({quoted} AS text)", None
        case _ if type.startswith("_"):
            # One that is declared flat may hold arrays of arrays; as JSON they all have a place.
            value, kind = f"CAST(to_json({quoted}) AS text)", None
    return DatabaseColumn(name=field.name, quoted=quoted, value=value, fits=fits, kind=kind, as_text=type == "numeric")


def _number(field: StructField, quoted: str, wanted: str | None) -> tuple[str, str | None]:
    """SQL of a number and of whether it fits: one that may have any digits has the declared type, or is text."""
    from pyspark.sql.types import DecimalType

    if not _is_cut(field):
        assert isinstance(field.dataType, DecimalType)
        digits, scale = field.dataType.precision, field.dataType.scale
    elif wanted in _DIGITS:
        digits, scale = _DIGITS[wanted], 0
    elif wanted and wanted.startswith("decimal("):
        digits, scale = map(int, wanted.removeprefix("decimal(").rstrip(")").split(","))
    else:
        return f"CAST({quoted} AS text)", None
    fits = f"abs({quoted}) < 1e{digits - scale} AND round({quoted}, {scale}) = {quoted}"
    # A CASE forgets how many digits its branches have.
    return f"CAST(CASE WHEN {fits} THEN {quoted} END AS numeric({digits},{scale}))", fits


def comparable(column: DatabaseColumn) -> str | None:
    """SQL: the column holds a value that can be compared with others; None where each does."""
    return _COMPARABLE.format(column=column.quoted) if column.as_text else column.fits


def _is_cut(field: StructField) -> bool:
    """Spark gives the numbers other digits than the database does."""
    if field.dataType.typeName() != "decimal":
        return False
    type: DecimalType = field.dataType  # type: ignore[assignment]
    return bool(type.scale != field.metadata.get("scale"))


def _kind(field: StructField) -> Kind | None:
    return "number" if field.dataType.typeName() == "decimal" else _KINDS.get(spelt(field.dataType))
