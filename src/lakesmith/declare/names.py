"""Layers, and the rules for names of tables and columns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = get_args(Layer)

_TABLE = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """`layer.name`, the full name of a table."""

    layer: str
    name: str

    def __str__(self) -> str:
        return f"{self.layer}.{self.name}"

    @staticmethod
    def parse(text: str) -> TableName | None:
        """Return the name in `text`, or None when it is not a table name."""
        layer, dot, name = text.partition(".")
        if not dot or layer not in LAYERS or not is_table_identifier(name):
            return None
        return TableName(layer, name)


def is_table_identifier(text: str) -> bool:
    """Whether the text has only lower-case letters, digits and underscores: safe as folder, SQL name and URL."""
    return _TABLE.fullmatch(text) is not None


def is_identifier(text: str) -> bool:
    """Whether the text is a column name: letters of any script, digits and underscores."""
    return text.isidentifier() and len(text) <= 255


def unique_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number where it is taken. Names are compared without case."""
    low = {each.lower() for each in taken}
    numbered = (f"{name}_{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], numbered) if each.lower() not in low)
