"""Checks values against their declared types, without code of the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints


def fits(value: object, kind: Any) -> bool:
    """Return whether a value and everything in it has a type."""
    parts = get_args(kind)
    match get_origin(kind):
        case x if x in (Union, UnionType):
            return any(fits(value, part) for part in parts)
        case x if x is Literal:
            return value in parts
        case x if x is tuple:
            return isinstance(value, tuple) and all(fits(each, parts[0]) for each in value)
        case x if x is Mapping:
            return isinstance(value, Mapping) and all(
                fits(key, parts[0]) and fits(each, parts[1]) for key, each in value.items()
            )
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}
        return isinstance(value, kind) and all(fits(getattr(value, name), hint) for name, hint in hints.items())
    if kind is float:
        return isinstance(value, float | int)
    return isinstance(value, NoneType if kind is None else kind)
