"""Selects tables with the selection grammar of dbt.

orders  silver.orders  silver.*  ord*     by name
tag:pii  layer:silver  owner:sales  path:silver/shop     by a property
+orders  orders+  2+orders+1              with ancestors, with descendants
@orders                                   with descendants, and all ancestors of these
a b   a,b                                 either, both
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase

from lakesmith.declare import LAYERS, Table, TableName
from lakesmith.errors import UsageError, did_you_mean
from lakesmith.plan.graph import Graph

_ATOM = re.compile(
    r"(?P<at>@)?(?P<up>(?P<up_depth>\d*)\+)?(?:(?P<method>\w+):)?(?P<value>[^+@:\s]+)(?P<down>\+(?P<down_depth>\d*))?"
)


def select(
    graph: Graph, tables: Mapping[TableName, Table], selectors: Sequence[str], exclude: Sequence[str]
) -> frozenset[TableName]:
    """Return the tables that any selector and no exclusion matches; all tables when there is no selector."""
    chosen = _union(graph, tables, selectors) if selectors else frozenset(tables)
    excluded = _union(graph, tables, exclude) if exclude else frozenset()
    if chosen and not chosen - excluded:
        raise UsageError(
            "no-match",
            f"all {len(chosen)} selected tables are excluded",
            hint="narrow --exclude",
        )
    return chosen - excluded


def select_matching(graph: Graph, tables: Mapping[TableName, Table], selectors: Sequence[str]) -> frozenset[TableName]:
    """Return the tables that selectors match, without their ancestors and descendants."""
    return _union(graph, tables, selectors, around=False)


def _union(
    graph: Graph, tables: Mapping[TableName, Table], selectors: Sequence[str], *, around: bool = True
) -> frozenset[TableName]:
    found: set[TableName] = set()
    for selector in selectors:
        terms = selector.split()
        if not terms:
            raise UsageError("bad-selector", "a selector is empty", hint="omit it to select all tables")
        for term in terms:
            found |= _intersection(graph, tables, term, around=around)
    return frozenset(found)


def _intersection(graph: Graph, tables: Mapping[TableName, Table], term: str, *, around: bool) -> frozenset[TableName]:
    shapes = [_shape(atom, term) for atom in term.split(",")]
    matches = [
        _around(graph, tables, shape) if around else _matching(tables, shape["method"], shape["value"], shape[0])
        for shape in shapes
    ]
    both = frozenset.intersection(*matches)
    if not both:
        raise UsageError(
            "no-match",
            f"'{term}' matches no table: no table meets all parts",
            hint="a comma means and, a space means or",
        )
    return both


def _shape(atom: str, term: str) -> re.Match[str]:
    shape = _ATOM.fullmatch(atom)
    if shape is None or (shape["at"] and (shape["up"] or shape["down"])):
        within = f" in '{term}'" if atom != term else ""
        raise UsageError(
            "bad-selector",
            f"'{atom}'{within} is not a selector",
            hint="examples: orders  silver.*  +orders  orders+1  @orders  tag:pii  layer:silver  a,b",
        )
    return shape


def _around(graph: Graph, tables: Mapping[TableName, Table], shape: re.Match[str]) -> frozenset[TableName]:
    matched = _matching(tables, shape["method"], shape["value"], shape[0])
    found = set(matched)
    for name in matched:
        if shape["up"]:
            found |= graph.ancestors(name, _depth(shape["up_depth"]))
        if shape["down"]:
            found |= graph.descendants(name, _depth(shape["down_depth"]))
        if shape["at"]:
            below = graph.descendants(name) | {name}
            found |= below.union(*(graph.ancestors(each) for each in below))
    return frozenset(found)


def _depth(digits: str) -> int | None:
    return int(digits) if digits else None


def _matching(tables: Mapping[TableName, Table], method: str | None, value: str, atom: str) -> frozenset[TableName]:
    if method is not None and method not in _METHODS:
        raise UsageError(
            "bad-selector",
            f"'{method}:' in '{atom}' is not a selection method",
            hint=did_you_mean(method, _METHODS, label="methods"),
        )
    words = _METHODS[method] if method is not None else _names
    found = frozenset(
        name for name, table in tables.items() if any(_matches(word, value, method) for word in words(table))
    )
    if not found:
        known = {word for table in tables.values() for word in words(table)}
        if method == "layer":
            known = set(LAYERS)
        raise UsageError(
            "no-match",
            f"'{atom}' matches no table",
            hint=did_you_mean(value, known, label=_LABELS[method]),
        )
    return found


def _matches(word: str, value: str, method: str | None) -> bool:
    if fnmatchcase(word, value):
        return True
    return method == "path" and word.startswith(value.rstrip("/") + "/")


def _names(table: Table) -> tuple[str, ...]:
    return str(table.name), table.name.name


_METHODS: Mapping[str, Callable[[Table], tuple[str, ...]]] = {
    "tag": lambda table: table.tags,
    "layer": lambda table: (table.name.layer,),
    "owner": lambda table: (table.owner,) if table.owner else (),
    "path": lambda table: (table.declared_at.file,),
}
_LABELS = {None: "tables", "tag": "tags", "layer": "layers", "owner": "owners", "path": "files"}
