"""Reads the tree of DuckDB's parser: which tables a statement reads, and how often."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_FILE_NAME = re.compile(r"[/\\.*:]")


def nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Yield every node of the tree, outer nodes first."""
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from nodes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from nodes(value)


def is_file_name(path: tuple[str, ...]) -> bool:
    """Whether a table name is a file name or an address."""
    return len(path) == 1 and _FILE_NAME.search(path[0]) is not None


def scans_once(tree: object) -> bool:
    """Whether no table can be scanned twice: one table, and no part that DuckDB may compute again."""
    types = [node.get("type") for node in nodes(tree)]
    with_clause = any(node["cte_map"].get("map") for node in nodes(tree) if node.get("cte_map"))
    return types.count("BASE_TABLE") <= 1 and "PIVOT" not in types and not with_clause


def table_paths(tree: object, defined: frozenset[str] = frozenset()) -> Iterator[tuple[str, ...]]:
    """Yield the table names that no WITH in scope defines."""
    if isinstance(tree, list):
        for value in tree:
            yield from table_paths(value, defined)
    elif isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE":
            path = tuple(tree["qualified_name"]["path"])
            if len(path) != 1 or path[0].lower() not in defined:
                yield path
        # A WITH defines a name only inside its statement: outside, DuckDB would search its own catalog, which holds
        # the settings.
        for entry in (tree.get("cte_map") or {}).get("map", []):
            name = entry["key"].lower()
            recursive = entry["value"]["query_node"].get("type") == "RECURSIVE_CTE_NODE"
            yield from table_paths(entry["value"], defined | {name} if recursive else defined)
            defined |= {name}
        for key, value in tree.items():
            if key != "cte_map":
                yield from table_paths(value, defined)
