"""Differences between two sets of columns, as text lines for every contract check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pyarrow as pa

from lakesmith.intake.shapes import spark_type

T = TypeVar("T")


def differences(
    before: Mapping[str, T],
    now: Mapping[str, T],
    *,
    type_name: Callable[[T], str],
    fits: Callable[[T, T], bool],
    gone: bool = True,
) -> list[str]:
    """Return a line for each column that is new, missing (if `gone`), or has a type that does not fit (old, new).

    Letter case is ignored; fields of a new or missing column get no line of their own.
    """
    old, new = ({name.lower(): (name, type) for name, type in side.items()} for side in (before, now))
    lines = [f"+ {name} {type_name(type)}" for name, type in _only_in(new, old)]
    if gone:
        lines += [f"- {name} {type_name(type)}" for name, type in _only_in(old, new)]
    for low, (name, type) in old.items():
        if low in new and not fits(type, new[low][1]):
            lines.append(f"~ {name} {type_name(type)} → {type_name(new[low][1])}")
    return lines


def _only_in(one: Mapping[str, tuple[str, T]], other: Mapping[str, tuple[str, T]]) -> list[tuple[str, T]]:
    return [one[low] for low in one if low not in other and (parent_path(low) in other or parent_path(low) not in one)]


def parent_path(path: str) -> str | None:
    """Return the path of a field's parent; None for a column."""
    if path.endswith(("[]", "{}")):
        return path[:-2]
    return path.rpartition(".")[0] or None


def flat(columns: pa.Schema | pa.DataType) -> dict[str, pa.DataType]:
    """Return, by path, the type of each column and nested field. Nested types are without their parts."""
    return dict(_flat("", pa.struct(list(columns)), at_top=True))


def _flat(path: str, type: pa.DataType, *, at_top: bool = False) -> Iterator[tuple[str, pa.DataType]]:
    if not at_top:
        yield path, outer_type(type)
    if pa.types.is_struct(type):
        for field in type:
            yield from _flat(field.name if at_top else f"{path}.{field.name}", field.type)
    elif pa.types.is_list(type):
        yield from _flat(f"{path}[]", type.value_type)
    elif pa.types.is_map(type):
        yield from _flat(f"{path}{{}}", type.item_type)


def outer_type(type: pa.DataType) -> pa.DataType:
    """Return a nested type without its parts."""
    if pa.types.is_struct(type):
        return STRUCT
    if pa.types.is_list(type):
        return LIST
    return MAP if pa.types.is_map(type) else type


STRUCT: pa.DataType = pa.struct([])
LIST: pa.DataType = pa.list_(pa.null())
MAP: pa.DataType = pa.map_(pa.string(), pa.null())
_TYPE_NAMES = {STRUCT: "struct", LIST: "array", MAP: "map"}


def type_name(type: pa.DataType) -> str:
    """Return the Spark SQL name of a type, without its parts."""
    return _TYPE_NAMES.get(outer_type(type)) or str(spark_type(type))
