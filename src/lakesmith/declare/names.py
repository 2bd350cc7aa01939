"""Names: which layers there are, and what a table or column may be called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

Layer = Literal["bronze", "silver", "gold"]
LAYERS: tuple[Layer, ...] = get_args(Layer)

_TABLE = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """`layer.name`, the one way a table is referred to."""

    layer: str
    name: str

    def __str__(self) -> str:
        return f"{self.layer}.{self.name}"

    @staticmethod
    def parse(text: str) -> TableName | None:
        """The name that `text` spells, or None when it spells none."""
        layer, dot, name = text.partition(".")
        if not dot or layer not in LAYERS or not is_table_identifier(name):
            return None
        return TableName(layer, name)


def is_table_identifier(text: str) -> bool:
    """Lower case, digits and underscores: safe as a folder, an SQL name and a URL on every store."""
    return _TABLE.fullmatch(text) is not None


def is_identifier(text: str) -> bool:
    """A column name: letters of any script, digits and underscores; no quotes, dots, spaces or symbols."""
    return text.isidentifier() and len(text) <= 255
