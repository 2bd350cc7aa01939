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

_SELECTOR = re.compile(
    r"(?P<at>@)?(?P<up>(?P<up_depth>\d*)\+)?(?:(?P<method>\w+):)?(?P<value>[^+@:\s]+)(?P<down>\+(?P<down_depth>\d*))?"
)


def select(
    graph: Graph, tables: Mapping[TableName, Table], selectors: Sequence[str], exclude: Sequence[str]
) -> frozenset[TableName]:
    """Return the tables that any selector and no exclusion matches; all tables when there is no selector."""
    selected = _union(graph, tables, selectors) if selectors else frozenset(tables)
    excluded = _union(graph, tables, exclude) if exclude else frozenset()
    if selected and not selected - excluded:
        raise UsageError("no-match", f"all {len(selected)} selected tables are excluded", hint="narrow --exclude")
    return selected - excluded


def select_matching(graph: Graph, tables: Mapping[TableName, Table], selectors: Sequence[str]) -> frozenset[TableName]:
    """Return the tables that selectors match, without their ancestors and descendants."""
    return _union(graph, tables, selectors, around=False)


def _union(
    graph: Graph, tables: Mapping[TableName, Table], selectors: Sequence[str], *, around: bool = True
) -> frozenset[TableName]:
    union: set[TableName] = set()
    for selector in selectors:
        terms = selector.split()
        if not terms:
            raise UsageError("bad-selector", "a selector is empty", hint="omit it to select all tables")
        for term in terms:
            union |= _intersection(graph, tables, term, around=around)
    return frozenset(union)


def _intersection(graph: Graph, tables: Mapping[TableName, Table], term: str, *, around: bool) -> frozenset[TableName]:
    parts = [_parse(part, term) for part in term.split(",")]
    matches = [_around(graph, tables, part) if around else _matching(tables, part) for part in parts]
    common = frozenset.intersection(*matches)
    if not common:
        hint = "a comma means and, a space means or"
        raise UsageError("no-match", f"no table matches all parts of '{term}'", hint=hint)
    return common


def _parse(part: str, term: str) -> re.Match[str]:
    selector = _SELECTOR.fullmatch(part)
    if selector is None or (selector["at"] and (selector["up"] or selector["down"])):
        within = f" in '{term}'" if part != term else ""
        raise UsageError(
            "bad-selector",
            f"'{part}'{within} is not a selector",
            hint="examples: orders  silver.*  +orders  orders+1  @orders  tag:pii  layer:silver  a,b",
        )
    return selector


def _around(graph: Graph, tables: Mapping[TableName, Table], selector: re.Match[str]) -> frozenset[TableName]:
    matched = _matching(tables, selector)
    selected = set(matched)
    for name in matched:
        if selector["up"]:
            selected |= graph.ancestors(name, _depth(selector["up_depth"]))
        if selector["down"]:
            selected |= graph.descendants(name, _depth(selector["down_depth"]))
        if selector["at"]:
            below = graph.descendants(name) | {name}
            selected |= below.union(*(graph.ancestors(each) for each in below))
    return frozenset(selected)


def _depth(digits: str) -> int | None:
    return int(digits) if digits else None


def _matching(tables: Mapping[TableName, Table], selector: re.Match[str]) -> frozenset[TableName]:
    method, value = selector["method"], selector["value"]
    if method not in _METHODS:
        raise UsageError(
            "bad-selector",
            f"'{method}:' in '{selector[0]}' is not a selection method",
            hint=did_you_mean(method, filter(None, _METHODS), label="methods"),
        )
    label, words = _METHODS[method]
    matched = frozenset(
        name for name, table in tables.items() if any(_matches(word, value, method) for word in words(table))
    )
    if not matched:
        valid = LAYERS if method == "layer" else {word for table in tables.values() for word in words(table)}
        hint = did_you_mean(value, valid, label=label)
        raise UsageError("no-match", f"'{selector[0]}' matches no table", hint=hint)
    return matched


def _matches(word: str, value: str, method: str | None) -> bool:
    return fnmatchcase(word, value) or (method == "path" and word.startswith(value.rstrip("/") + "/"))


_METHODS: Mapping[str | None, tuple[str, Callable[[Table], tuple[str, ...]]]] = {
    None: ("tables", lambda table: (str(table.name), table.name.name)),
    "tag": ("tags", lambda table: table.tags),
    "layer": ("layers", lambda table: (table.name.layer,)),
    "owner": ("owners", lambda table: (table.owner,) if table.owner else ()),
    "path": ("files", lambda table: (table.declared_at.file,)),
}
"""By selection method: what its values are, and those of a table."""
