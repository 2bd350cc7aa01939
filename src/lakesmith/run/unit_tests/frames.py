"""Turns rows of a test into a DataFrame, and a DataFrame into texts that can be compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakesmith.declare.tests import Row, Value, Word
from lakesmith.errors import DeclarationError, LakesmithError, Place, did_you_mean, raise_all
from lakesmith.spark.types import EXACT_JSON, sql_type
from lakesmith.sql import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

Cells = dict[str, str | None]
"""A row as texts."""


def create_frame(spark: SparkSession, rows: Sequence[Row], columns: StructType) -> DataFrame:
    """Return the rows with these columns, each value cast as Spark casts a text; raise an error with the place of a
    value that cannot be cast."""
    from pyspark.errors import PySparkException

    names = {field.name.lower(): field for field in columns.fields}
    if not rows:
        return spark.createDataFrame([], columns)
    casting = _Casting()
    lines = []
    for row in rows:
        values = {name.lower(): value for name, value in row.values.items()}
        cells = (casting.sql(values.get(name), field.dataType, field.name, row.at) for name, field in names.items())
        lines.append(f"({', '.join(cells)})")
    raise_all(casting.problems)
    header = ", ".join(quoted(field.name) for field in columns.fields)
    # Without ANSI mode, a value that cannot be cast would be NULL.
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        return spark.sql(f"SELECT * FROM VALUES {', '.join(lines)} AS given({header})")
    except PySparkException:
        raise_all(casting.cast_errors(spark))
        raise


def texts(rows: DataFrame, columns: Sequence[str]) -> list[Cells]:
    """Return the rows with every value as text: equal values have equal texts."""
    readers = [_text_reader(name, rows.schema[name].dataType) for name in columns]
    return [
        {
            name: None if text is None else normalize(text)
            for name, (_, normalize), text in zip(columns, readers, row, strict=True)
        }
        for row in rows.selectExpr(*(sql for sql, _ in readers)).collect()
    ]


def _text_reader(column: str, type: DataType) -> tuple[str, Callable[[str], str]]:
    """Return the SQL of a column's text, and the function that makes texts of equal values equal."""
    from pyspark.sql.types import ArrayType, BinaryType, DoubleType, FloatType, MapType, StructType

    name = quoted(column)
    match type:
        case StructType() | ArrayType() | MapType():
            return f"to_json({name}, {EXACT_JSON})", json_text
        case BinaryType():
            return f"hex({name})", str
        case DoubleType() | FloatType():
            return f"CAST({name} AS string)", _number
        case _:
            return f"CAST({name} AS string)", str


def _number(text: str) -> str:
    """Return a number without its last bits, which depend on the order of a sum."""
    return format(float(text), ".12g")


def json_text(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True, ensure_ascii=False)


class _Casting:
    """Values as SQL; stores each cast value, to report those that cannot be cast."""

    def __init__(self) -> None:
        self.problems: list[LakesmithError] = []
        self._cast: list[tuple[str, Word, str]] = []

    def sql(self, value: Value, type: DataType, column: str, at: Place) -> str:
        from pyspark.sql.types import ArrayType, MapType, StructType

        if isinstance(value, Word) and isinstance(type, StructType | ArrayType | MapType):
            value = self._nested(value)
        type_text = str(sql_type(type))
        match value, type:
            case None, _:
                return f"CAST(NULL AS {type_text})"
            case Word(), _:
                self._cast.append((column, value, type_text))
                return f"CAST({literal(value.text)} AS {type_text})"
            case tuple(), ArrayType():
                items = (self.sql(item, type.elementType, column, at) for item in value)
                return f"CAST(array({', '.join(items)}) AS {type_text})"
            case Mapping(), MapType():
                pairs = [
                    f"{self.sql(Word(key, False, at), type.keyType, column, at)}, "
                    f"{self.sql(item, type.valueType, column, at)}"
                    for key, item in value.items()
                ]
                return f"CAST(map({', '.join(pairs)}) AS {type_text})"
            case Mapping(), StructType():
                fields_by_name = {field.name.lower(): field for field in type.fields}
                items_by_name = {name.lower(): item for name, item in value.items()}
                for name in value:
                    if name.lower() not in fields_by_name:
                        self._report(
                            at, f"{column} has no field '{name}'", did_you_mean(name, type.names, label="fields")
                        )
                fields = (
                    f"{literal(field.name)}, {self.sql(items_by_name.get(name), field.dataType, column, at)}"
                    for name, field in fields_by_name.items()
                )
                return f"CAST(named_struct({', '.join(fields)}) AS {type_text})"
            case _:
                given = "a list" if isinstance(value, tuple) else "keys with values"
                self._report(at, f"{column} is a {type_text}, but the test has {given}", "write one value")
                return f"CAST(NULL AS {type_text})"

    def cast_errors(self, spark: SparkSession) -> list[LakesmithError]:
        """Return errors for the values that cannot be cast."""
        tried = ", ".join(f"try_cast({literal(word.text)} AS {type}) IS NULL" for _, word, type in self._cast)
        (failed,) = spark.sql(f"SELECT array({tried})").collect()[0] if tried else ([],)
        return [
            _bad_value(word.at, f"{column}: '{word.text}' is not a {type}", "correct the value, or the column's type")
            for (column, word, type), fails in zip(self._cast, failed, strict=True)
            if fails
        ]

    def _nested(self, word: Word) -> Value:
        """Return the value of a JSON text, as a CSV file has it."""
        try:
            return _from_json(json.loads(word.text), word.at)
        except ValueError:
            self._report(word.at, f"'{word.text[:60]}' is not JSON", "write lists and structs as JSON")
            return None

    def _report(self, at: Place, what: str, hint: str) -> None:
        self.problems.append(_bad_value(at, what, hint))


def _bad_value(at: Place, what: str, hint: str) -> DeclarationError:
    return DeclarationError("bad-value", what, at=at, hint=hint)


def _from_json(value: object, at: Place) -> Value:
    match value:
        case None:
            return None
        case list():
            return tuple(_from_json(item, at) for item in value)
        case dict():
            return {str(name): _from_json(item, at) for name, item in value.items()}
        case str():
            return Word(value, False, at)
        case _:
            return Word(json.dumps(value), True, at)
