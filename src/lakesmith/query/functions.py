"""Which of DuckDB's functions a query may call: it computes with rows, and reaches nothing outside of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lakesmith.errors import Place, UsageError, did_you_mean
from lakesmith.query.tree import nodes

TABLE_FUNCTIONS: Mapping[str, str] = {
    "generate_series": "counts",
    "json_each": "takes a JSON value of a row apart",
    "json_tree": "takes a JSON value of a row apart",
    "range": "counts",
    "repeat": "repeats a value",
    "repeat_row": "repeats a row",
    "unnest": "takes a list of a row apart",
}
"""The only functions that may stand where a table is expected, each with the reason why it is harmless."""

REFUSED_SCALARS: Mapping[str, str] = {
    "current_setting": "it reads the engine's settings",
    "currval": "it reads the engine's catalog",
    "format_type": "it reads the engine's catalog",
    "get_block_size": "it reads the engine's catalog",
    "getenv": "it reads the environment of the process",
    "getvariable": "it reads the engine's variables",
    "index_key": "it reads the engine's catalog",
    "json_serialize_plan": "it plans SQL that is hidden in a text",
    "nextval": "it changes the engine's catalog",
    "pg_get_constraintdef": "it reads the engine's catalog",
    "pg_get_viewdef": "it reads the engine's catalog",
    "setval": "it changes the engine's catalog",
    "to_aggregate_state": "it takes bytes for the engine's memory",
    "write_log": "it writes to the engine's log",
}
"""Functions over values that reach beyond the rows, each with what it reaches. All others compute with values."""

_INTERNAL = re.compile(r"__internal_", re.IGNORECASE)
_FILES = re.compile(r"read_|parquet_|glob$|sniff_csv$", re.IGNORECASE)
_NO_PLACE = 2**64 - 1
_NO_FILES = "a query reads the lake's tables; declare a bronze table with `source: {files: …}` to read files"


def no_file_access(what: str, at: Place | None = None) -> UsageError:
    """The error for a query that names a file or an address."""
    return UsageError("no-file-access", f"'{what}' cannot be read in a query", at=at, hint=_NO_FILES)


def refuse_functions(tree: object, sql: str, is_known: Callable[[str], bool]) -> None:
    """Raise at the first function that a query may not call. `is_known` says whether DuckDB has a table function.

    Functions over tables are allowed by name. DuckDB finds a function whatever schema stands before its name, so the
    schema does not count here either.
    """
    in_table_place: set[int] = set()
    for node in nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            function = node["function"]
            in_table_place.add(id(function))
            _refuse_table_function(_name(function), _place(sql, node), is_known)
        elif node.get("class") in ("FUNCTION", "WINDOW") and id(node) not in in_table_place:
            _refuse_scalar(_name(node), _place(sql, node))


def _refuse_table_function(name: str, at: Place | None, is_known: Callable[[str], bool]) -> None:
    if name in TABLE_FUNCTIONS:
        return
    hint = did_you_mean(name, TABLE_FUNCTIONS, label="functions that may stand here")
    if not is_known(name):
        raise UsageError("unknown-function", f"there is no function '{name}' that gives a table", at=at, hint=hint)
    if _FILES.match(name):
        raise no_file_access(name, at)
    raise UsageError("function-refused", f"a query may not call '{name}' as a table", at=at, hint=hint)


def _refuse_scalar(name: str, at: Place | None) -> None:
    reason = "it is internal to the engine" if _INTERNAL.match(name) else REFUSED_SCALARS.get(name)
    if reason is not None:
        hint = "a query sees the lake's tables and nothing else; leave the call out"
        raise UsageError("function-refused", f"a query may not call '{name}': {reason}", at=at, hint=hint)


def _name(function: Mapping[str, Any]) -> str:
    return str(function["function_name"]).lower()


def _place(sql: str, node: Mapping[str, Any]) -> Place | None:
    offset = node.get("query_location", _NO_PLACE)
    return None if offset == _NO_PLACE else Place("query", sql.encode()[:offset].count(b"\n") + 1)
