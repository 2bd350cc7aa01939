"""Spark SQL types as trees, because every other language of schemas nests them in its own way."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"`(?:[^`]|``)*`|\w+|[<>(),:]")


@dataclass(frozen=True, slots=True)
class Plain:
    """A type of one word."""

    name: str


@dataclass(frozen=True, slots=True)
class Exact:
    """A decimal number."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array."""

    item: SparkType


@dataclass(frozen=True, slots=True)
class MapOf:
    """Keys with values."""

    key: SparkType
    value: SparkType


@dataclass(frozen=True, slots=True)
class Record:
    """A struct."""

    fields: tuple[tuple[str, SparkType], ...]


SparkType = Plain | Exact | ListOf | MapOf | Record


def tree(text: str) -> SparkType:
    """The tree of a type that is spelt as declarations hold it, such as `struct<a:int,b:array<string>>`."""
    tokens = _TOKEN.findall(text)
    tokens.reverse()
    return _type(tokens)


def _type(tokens: list[str]) -> SparkType:
    word = tokens.pop().lower()
    if word == "decimal":
        _, precision, _, scale, _ = (tokens.pop() for _ in range(5))
        return Exact(int(precision), int(scale))
    if word not in ("array", "map", "struct"):
        return Plain(word)
    tokens.pop()
    found: SparkType
    if word == "array":
        found = ListOf(_type(tokens))
    elif word == "map":
        key = _type(tokens)
        tokens.pop()
        found = MapOf(key, _type(tokens))
    else:
        found = Record(tuple(_fields(tokens)))
    tokens.pop()
    return found


def _fields(tokens: list[str]) -> list[tuple[str, SparkType]]:
    fields = []
    while tokens[-1] != ">":
        name = tokens.pop()
        tokens.pop()
        fields.append((name.strip("`"), _type(tokens)))
        if tokens[-1] == ",":
            tokens.pop()
    return fields


def spelt(type: SparkType) -> str:
    """The type as declarations hold it."""
    match type:
        case Plain():
            return type.name
        case Exact():
            return f"decimal({type.precision},{type.scale})"
        case ListOf():
            return f"array<{spelt(type.item)}>"
        case MapOf():
            return f"map<{spelt(type.key)},{spelt(type.value)}>"
        case Record():
            return f"struct<{','.join(f'{name}:{spelt(each)}' for name, each in type.fields)}>"
