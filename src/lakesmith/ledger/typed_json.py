"""Decodes JSON into declared types and accepts nothing else: a file of the ledger may have been changed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import date
from functools import cache, partial
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from lakesmith.ports import FileFact

_type_hints = cache(get_type_hints)


def decode(kind: Any, stored: Any) -> Any:
    """Return the value of this type; raise ValueError, TypeError or KeyError when the JSON has another one."""
    if type(stored) is kind or (kind is float and type(stored) is int):
        return stored
    origin = get_origin(kind)
    if origin is Union or origin is UnionType:
        for each in get_args(kind):
            with suppress(TypeError, ValueError, KeyError):
                return decode(each, stored)
    elif origin is tuple and type(stored) is list:
        item, _ = get_args(kind)
        return tuple(map(decode_file if item is FileFact else partial(decode, item), stored))
    elif origin is Mapping and type(stored) is dict:
        _, item = get_args(kind)
        return {name: decode(item, each) for name, each in stored.items()}
    elif kind is date:
        return date.fromisoformat(stored)
    elif isinstance(kind, type) and is_dataclass(kind) and type(stored) is dict:
        return kind(**decode_fields(kind, stored))
    raise ValueError(f"{stored!r} is not {kind}")


def decode_fields(kind: type, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass by name; raise an error when one is unknown or of another type."""
    types = _type_hints(kind)
    return {name: decode(types[name], each) for name, each in stored.items()}


def decode_file(stored: Any) -> FileFact:
    """Return the file of a list of its fields; raise ValueError or TypeError when they are others."""
    path, size, modified = stored
    if type(path) is not str or type(size) is not int or type(modified) is not int:
        raise ValueError(f"{stored!r} is not a file")
    return FileFact(path, size, modified)
