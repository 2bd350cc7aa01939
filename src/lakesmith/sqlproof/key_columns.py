"""The expressions of key columns in a SELECT. Raises for those that changed rows alone cannot determine."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from lakesmith.sqlproof.output_columns import outputs, projection_named
from lakesmith.sqlproof.proof import normalized_sql, refuse_values_of_other_rows
from lakesmith.sqlproof.scopes import NotProvable, Scope, Source, column_parts, is_star, line_in, qualified_source


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumn:
    name: str
    node: exp.Expr
    span: range | None
    """None when it comes from a `*`."""


def key_positions(leaf: Scope, names: Sequence[str]) -> list[int]:
    known = outputs(leaf, {})
    low = [] if known is None else [name.lower() for name in known]
    for name in names:
        if name.lower() not in low:
            raise NotProvable(f"the position of '{name}' in the parts of the UNION is unknown: name all columns")
    return [low.index(name.lower()) for name in names]


def column_at(leaf: Scope, place: int) -> exp.Expr | None:
    if place >= len(leaf.projections) or any(is_star(node) for node in leaf.projections):
        raise NotProvable("a * hides the columns of a part of the UNION: name all columns")
    return leaf.projections[place]


def column_named(leaf: Scope, name: str) -> exp.Expr | None:
    """Return the projection of a column, or None when it comes from a `*`."""
    found, star = projection_named(leaf, name)
    if len(found) > 1:
        raise NotProvable(f"two of its columns are named '{name}'", line=line_in(found[1]))
    if not found and not star:
        raise NotProvable(f"it has no column '{name}'")
    return found[0] if found else None


def column_of_star(scope: Scope, name: str) -> exp.Column:
    stars = [node for node in scope.projections if is_star(node)]
    held = [_star_source(scope, node) for node in stars]
    if len(held) > 1 or held[0] is None:
        raise NotProvable(f"a * over several tables hides '{name}': name the column in the SELECT")
    inner = stars[0].this if isinstance(stars[0], exp.Column) else stars[0]
    if any(inner.args.get(word) for word in ("replace", "rename")):
        raise NotProvable(f"'{name}' comes from a * that changes columns: name the column in the SELECT")
    if name.lower() in (column.name.lower() for column in inner.args.get("except_") or ()):
        raise NotProvable(f"it has no column '{name}'")
    return exp.column(name, table=held[0].alias or None, quoted=True)


def _star_source(scope: Scope, star: exp.Expr) -> Source | None:
    if isinstance(star, exp.Column):
        return qualified_source(scope, star)
    return scope.sources[0] if len(scope.sources) == 1 else None


def check_key(scope: Scope, projection: exp.Expr, node: exp.Expr, name: str) -> None:
    line = line_in(projection)
    refuse_values_of_other_rows(node, name, line)
    earlier = itertools.takewhile(lambda each: each is not projection, scope.projections)
    aliases = {each.alias.lower(): each.this for each in earlier if isinstance(each, exp.Alias)}
    for column in node.find_all(exp.Column):
        first = column_parts(column)[0]
        if qualified_source(scope, column) is None and first in aliases:
            meant = aliases[first]
            if not (isinstance(meant, exp.Column) and meant.name.lower() == first):
                raise NotProvable(
                    f"'{name}' reads '{first}', which is also the name of another result column", line=line
                )


def check_windows(scope: Scope, keys: Sequence[KeyColumn]) -> None:
    for window in scope.windows:
        partitions = {normalized_sql(scope, node) for node in window.args.get("partition_by") or ()}
        for key in keys:
            constant = next(key.node.find_all(exp.Column), None) is None
            if not constant and normalized_sql(scope, key.node) not in partitions:
                raise NotProvable(
                    f"a window function reads rows of other keys: PARTITION BY lacks '{key.name}'",
                    line=line_in(window),
                )
