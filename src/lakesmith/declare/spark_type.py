"""Spark SQL types as values, with one parser and one printer for declarations, table logs and foreign schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

SIMPLE_TYPES = (
    "bigint",
    "int",
    "smallint",
    "tinyint",
    "string",
    "boolean",
    "double",
    "float",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
)
TYPE_ALIASES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
}
INTEGER_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
"""By integer type, the narrowest first, the greatest number of digits."""
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|\w+|[<>(),:])")
_MAX_DEPTH = 250
"""Deeper types would exhaust Python's stack."""


class _Printed:
    """`str()` prints the type as Spark shows it, such as `struct<a:int,b:array<string>>`."""

    __slots__ = ()

    def __str__(self) -> str:
        assert isinstance(self, SparkType)
        return _text(self)


@dataclass(frozen=True, slots=True)
class SimpleType(_Printed):
    """A type of one word."""

    name: str


@dataclass(frozen=True, slots=True)
class DecimalType(_Printed):
    """An exact number."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class ArrayType(_Printed):
    """A list of elements of one type."""

    element: SparkType


@dataclass(frozen=True, slots=True)
class MapType(_Printed):
    """Values by key."""

    key: SparkType
    value: SparkType


@dataclass(frozen=True, slots=True)
class StructType(_Printed):
    """Fields by name; each is nullable."""

    fields: tuple[tuple[str, SparkType], ...]


SparkType = SimpleType | DecimalType | ArrayType | MapType | StructType


class SparkTypeError(ValueError):
    """The text is not a type; the message says why."""


def parse_type(text: str, simple: Callable[[str], SparkType] = SimpleType) -> SparkType:
    """Parse a type. `simple` makes the type of a word that is not `array`, `map`, `struct` or `decimal`."""
    parser = _Parser(text, simple)
    found = parser.type(0)
    if parser.next is not None:
        raise SparkTypeError(f"'{parser.next}' follows the type '{found}'")
    return found


def read_type(text: str) -> SparkType:
    """Parse the type of a declaration or a table's log; a type that Spark's grammar does not have is one word."""
    try:
        return parse_type(text)
    except SparkTypeError:
        return SimpleType(text)


def read_schema(schema: str | Mapping[str, Any]) -> SparkType:
    """Return the type of a schema in JSON, as Spark and Delta's log write it."""
    match schema:
        case str():
            return read_type(schema)
        case {"type": "array", "elementType": element}:
            return ArrayType(read_schema(element))
        case {"type": "map", "keyType": key, "valueType": value}:
            return MapType(read_schema(key), read_schema(value))
        case _:
            return StructType(tuple((field["name"], read_schema(field["type"])) for field in schema["fields"]))


def digits(type: SparkType) -> tuple[int, int] | None:
    """Return the digits of a number, and how many of them follow the point; None when these are not fixed."""
    match type:
        case DecimalType():
            return type.precision, type.scale
        case SimpleType() if type.name in INTEGER_DIGITS:
            return INTEGER_DIGITS[type.name], 0
        case _:
            return None


def _text(type: SparkType) -> str:
    # One function with direct calls: nested `str()` calls would exhaust the stack earlier.
    match type:
        case SimpleType():
            return type.name
        case DecimalType():
            return f"decimal({type.precision},{type.scale})"
        case ArrayType():
            return f"array<{_text(type.element)}>"
        case MapType():
            return f"map<{_text(type.key)},{_text(type.value)}>"
        case StructType():
            return f"struct<{','.join([f'{_field_name(name)}:{_text(each)}' for name, each in type.fields])}>"


def _field_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


class _Parser:
    """One pass over the tokens of a type."""

    def __init__(self, text: str, simple: Callable[[str], SparkType]) -> None:
        self._simple = simple
        self._tokens: list[str] = []
        self._at = 0
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise SparkTypeError(f"'{text[position:].strip()[0]}' is not allowed in a type")
            self._tokens.append(match[1])
            position = match.end()

    @property
    def next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def type(self, depth: int) -> SparkType:
        if depth > _MAX_DEPTH:
            raise SparkTypeError(f"it is nested more than {_MAX_DEPTH} levels deep")
        word = self._word("a type").lower()
        match TYPE_ALIASES.get(word, word):
            case "decimal":
                return self._decimal()
            case "array":
                self._expect("<")
                element = self.type(depth + 1)
                self._expect(">")
                return ArrayType(element)
            case "map":
                self._expect("<")
                key = self.type(depth + 1)
                self._expect(",")
                value = self.type(depth + 1)
                self._expect(">")
                return MapType(key, value)
            case "struct":
                return self._struct(depth)
            case name:
                return self._simple(name)

    def _decimal(self) -> DecimalType:
        if self.next != "(":
            return DecimalType(10, 0)
        self._expect("(")
        precision, scale = self._number(), 0
        if self.next == ",":
            self._expect(",")
            scale = self._number()
        self._expect(")")
        if not (1 <= precision <= 38 and scale <= precision):
            raise SparkTypeError("decimal(p,s) needs 1 ≤ p ≤ 38 and s ≤ p")
        return DecimalType(precision, scale)

    def _struct(self, depth: int) -> StructType:
        self._expect("<")
        fields: list[tuple[str, SparkType]] = []
        while self.next != ">":
            if fields:
                self._expect(",")
            name = self._word("a field's name", quoted=True)
            if self.next == ":":
                self._expect(":")
            fields.append((name, self.type(depth + 1)))
        self._expect(">")
        return StructType(tuple(fields))

    def _word(self, expected: str, *, quoted: bool = False) -> str:
        word = self.next
        if word is not None and quoted and word.startswith("`") and len(word) > 2:
            self._at += 1
            return word[1:-1].replace("``", "`")
        if word is None or not (word[0].isalnum() or word[0] == "_"):
            raise SparkTypeError(f"{expected} is missing" + (f" before '{word}'" if word else " at the end"))
        self._at += 1
        return word

    def _number(self) -> int:
        word = self._word("a number")
        if not (word.isascii() and word.isdigit() and len(word) <= 3):
            raise SparkTypeError(f"'{word[:60]}' is not a number of digits")
        return int(word)

    def _expect(self, mark: str) -> None:
        if self.next != mark:
            found = f"'{self.next}'" if self.next else "the end"
            raise SparkTypeError(f"expected '{mark}', found {found}")
        self._at += 1
