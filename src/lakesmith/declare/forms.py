"""The forms of written values. Declarations name the form of each key, and `load` reads and checks it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum, auto
from typing import Annotated

from lakesmith.declare.names import TableName
from lakesmith.declare.secrets import Secret


class Form(Enum):
    """How a single value is written."""

    NUMBER = auto()
    """A whole number, at least 1."""
    BOOLEAN = auto()
    SHARE = auto()
    """A fraction between 0 and 1, written as a number or as a percentage."""
    AMOUNT = auto()
    """A number, which may be negative or have a fraction."""
    LIMIT = auto()
    """A share of the rows (2%) or a number of rows (100)."""
    VALUE = auto()
    """Text, a number, true or false."""
    SETTING = auto()
    """A text that may hold a secret by reference; numbers and true/false are read as text."""
    ANY_TEXT = auto()
    TEXT = auto()
    """A text that is not empty."""
    COLUMN = auto()
    COLUMN_REFERENCE = auto()
    """layer.table.column"""
    TABLE = auto()
    """layer.table"""
    LOW_NAME = auto()
    """A name in lower case."""
    VARIABLE = auto()
    TAG = auto()
    TYPE = auto()
    """A Spark SQL type."""
    DURATION = auto()
    """A duration with its unit, in seconds."""
    DAY = auto()
    ZONE = auto()
    """A time zone."""
    CURRENCY = auto()
    """A currency code, or a column with the codes."""
    VERSION = auto()
    SIZE = auto()
    """A memory size with its unit, in bytes."""
    UMASK = auto()
    DELIMITER = auto()
    """One character."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The key may be written only together with another key, which may need a certain value."""

    key: str
    why: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Excludes:
    """The key may not be written together with another key."""

    key: str
    why: str


@dataclass(frozen=True, slots=True)
class NamesFrom:
    """The names below the key are among the values of another key."""

    key: str


Relation = Needs | Excludes | NamesFrom
Value = str | int | Decimal | bool
"""A value as written; a text may be a date or a time."""
Share = Annotated[float, Form.SHARE]
Amount = Annotated[int | Decimal, Form.AMOUNT]
AnyValue = Annotated[Value, Form.VALUE]
Setting = Annotated[str | Secret, Form.SETTING]
Text = Annotated[str, Form.TEXT]
ColumnName = Annotated[str, Form.COLUMN]
ColumnReference = Annotated[str, Form.COLUMN_REFERENCE]
TableReference = Annotated[TableName, Form.TABLE]
LowName = Annotated[str, Form.LOW_NAME]
VariableName = Annotated[str, Form.VARIABLE]
Tag = Annotated[str, Form.TAG]
Type = Annotated[str, Form.TYPE]
Duration = Annotated[float, Form.DURATION]
Day = Annotated[date, Form.DAY]
Zone = Annotated[str, Form.ZONE]
Currency = Annotated[str, Form.CURRENCY]
VersionText = Annotated[str, Form.VERSION]
Size = Annotated[int, Form.SIZE]
Umask = Annotated[int, Form.UMASK]
Delimiter = Annotated[str, Form.DELIMITER]
