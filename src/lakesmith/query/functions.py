"""Which of DuckDB's functions a query may call: those that compute with rows and reach nothing outside."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lakesmith.errors import Place, UsageError, did_you_mean
from lakesmith.query.tree import nodes

TABLE_FUNCTIONS: Mapping[str, str] = {
    "generate_series": "it counts",
    "json_each": "it splits a JSON value of a row",
    "json_tree": "it splits a JSON value of a row",
    "range": "it counts",
    "repeat": "it repeats a value",
    "repeat_row": "it repeats a row",
    "unnest": "it splits a list of a row",
}
"""The only functions allowed in place of a table, each with the reason why it is harmless."""

FORBIDDEN_FUNCTIONS: Mapping[str, str] = {
    "current_setting": "it reads the engine's settings",
    "currval": "it reads the engine's catalog",
    "format_type": "it reads the engine's catalog",
    "get_block_size": "it reads the engine's catalog",
    "getenv": "it reads the environment of the process",
    "getvariable": "it reads the engine's variables",
    "index_key": "it reads the engine's catalog",
    "json_serialize_plan": "it plans SQL inside a string",
    "nextval": "it changes the engine's catalog",
    "pg_get_constraintdef": "it reads the engine's catalog",
    "pg_get_viewdef": "it reads the engine's catalog",
    "setval": "it changes the engine's catalog",
    "to_aggregate_state": "it loads raw bytes into the engine's memory",
    "write_log": "it writes to the engine's log",
}
"""Scalar functions that reach beyond the rows, each with what it reaches. All others only compute."""

_INTERNAL = re.compile(r"__internal_", re.IGNORECASE)
_FILES = re.compile(r"read_|parquet_|glob$|sniff_csv$", re.IGNORECASE)
_NO_PLACE = 2**64 - 1
_NO_FILES = "a query reads the lake's tables; declare a bronze table with `source: {files: …}` to read files"


def no_file_access(what: str, at: Place | None = None) -> UsageError:
    """Return the error for a query that names a file or an address."""
    return UsageError("no-file-access", f"'{what}' cannot be read in a query", at=at, hint=_NO_FILES)


def check_functions(tree: object, sql: str, is_known: Callable[[str], bool]) -> None:
    """Raise at the first function that a query may not call. `is_known` says whether DuckDB has a table function.

    Table functions are allowed by name. DuckDB ignores the schema before a function's name, so it does not count here
    either.
    """
    table_functions: set[int] = set()
    for node in nodes(tree):
        if node.get("type") == "TABLE_FUNCTION":
            function = node["function"]
            table_functions.add(id(function))
            _check_table_function(_name(function), _place(sql, node), is_known)
        elif node.get("class") in ("FUNCTION", "WINDOW") and id(node) not in table_functions:
            _check_scalar(_name(node), _place(sql, node))


def _check_table_function(name: str, at: Place | None, is_known: Callable[[str], bool]) -> None:
    if name in TABLE_FUNCTIONS:
        return
    hint = did_you_mean(name, TABLE_FUNCTIONS, label="functions that are allowed here")
    if not is_known(name):
        raise UsageError("unknown-function", f"there is no table function '{name}'", at=at, hint=hint)
    if _FILES.match(name):
        raise no_file_access(name, at)
    raise UsageError("function-not-allowed", f"a query may not call the table function '{name}'", at=at, hint=hint)


def _check_scalar(name: str, at: Place | None) -> None:
    reason = "it is internal to the engine" if _INTERNAL.match(name) else FORBIDDEN_FUNCTIONS.get(name)
    if reason is not None:
        hint = "a query sees only the lake's tables; remove the call"
        raise UsageError("function-not-allowed", f"a query may not call '{name}': {reason}", at=at, hint=hint)


def _name(function: Mapping[str, Any]) -> str:
    return str(function["function_name"]).lower()


def _place(sql: str, node: Mapping[str, Any]) -> Place | None:
    offset = node.get("query_location", _NO_PLACE)
    return None if offset == _NO_PLACE else Place("query", sql.encode()[:offset].count(b"\n") + 1)
