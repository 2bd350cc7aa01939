"""What is in one set of columns and not in another, told in one way wherever a contract is held to it."""

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
    spelt: Callable[[T], str],
    fits: Callable[[T, T], bool],
    gone: bool = True,
) -> list[str]:
    """A line for each column that is new, is gone (where that counts), or has a type that does not fit (old, new).

    Upper and lower case make no difference; what is in a column that is new or gone is not told of besides.
    """
    old, new = ({name.lower(): (name, type) for name, type in side.items()} for side in (before, now))
    lines = [f"+ {name} {spelt(type)}" for name, type in _only_in(new, old)]
    if gone:
        lines += [f"- {name} {spelt(type)}" for name, type in _only_in(old, new)]
    for low, (name, type) in old.items():
        if low in new and not fits(type, new[low][1]):
            lines.append(f"~ {name} {spelt(type)} → {spelt(new[low][1])}")
    return lines


def _only_in(one: Mapping[str, tuple[str, T]], other: Mapping[str, tuple[str, T]]) -> list[tuple[str, T]]:
    return [one[low] for low in one if low not in other and (above(low) in other or above(low) not in one)]


def above(path: str) -> str | None:
    """The path of what a field is in; None for a column."""
    if path.endswith(("[]", "{}")):
        return path[:-2]
    return path.rpartition(".")[0] or None


def flat(columns: pa.Schema | pa.DataType) -> dict[str, pa.DataType]:
    """By path, the type of each column and of what is in it. What has parts is told of without them."""
    return dict(_flat("", pa.struct(list(columns)), at_top=True))


def _flat(path: str, type: pa.DataType, *, at_top: bool = False) -> Iterator[tuple[str, pa.DataType]]:
    if not at_top:
        yield path, shallow(type)
    if pa.types.is_struct(type):
        for field in type:
            yield from _flat(field.name if at_top else f"{path}.{field.name}", field.type)
    elif pa.types.is_list(type):
        yield from _flat(f"{path}[]", type.value_type)
    elif pa.types.is_map(type):
        yield from _flat(f"{path}{{}}", type.item_type)


def shallow(type: pa.DataType) -> pa.DataType:
    """The type without what is in it."""
    if pa.types.is_struct(type):
        return STRUCT
    if pa.types.is_list(type):
        return LIST
    return MAP if pa.types.is_map(type) else type


STRUCT: pa.DataType = pa.struct([])
LIST: pa.DataType = pa.list_(pa.null())
MAP: pa.DataType = pa.map_(pa.string(), pa.null())
_SPELT = {STRUCT: "struct", LIST: "array", MAP: "map"}


def spelt(type: pa.DataType) -> str:
    """A type as Spark SQL has it, without what is in it."""
    return _SPELT.get(shallow(type)) or spark_type(type)
