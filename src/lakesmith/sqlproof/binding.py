"""Replaces the tables in a query's own text by the views that stand for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lakesmith.declare import SqlQuery, TableName
from lakesmith.errors import DeclarationError, raise_all
from lakesmith.sqlproof.query import fault_error, place_in, statement_of

if TYPE_CHECKING:
    from lakesmith.sqlproof.scopes import ColumnUse, Scope, Source
    from lakesmith.sqlproof.statement import Statement


def bind(query: SqlQuery, names: Mapping[TableName, str]) -> str:
    """Return the query's own text with each table replaced by its view."""
    statement = statement_of(query)
    raise_all([fault_error(query, fault, ()) for fault in statement.faults])
    raise_all(list(_qualified_column_errors(query, statement)))
    text = statement.text
    edits: list[tuple[int, int, str]] = []
    for reference in statement.references:
        alias = "" if reference.aliased else f" AS `{reference.table.name}`"
        view = names[reference.table].replace("`", "``")
        edits.append((reference.start, reference.end, f"`{view}`{alias}"))
    edits.extend((start, end, "") for start, end in _layer_prefixes(statement))
    edits.extend((start, end, "") for start, end in _last_semicolon(statement))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _layer_prefixes(statement: Statement) -> Iterator[tuple[int, int]]:
    """Yield the position of the layer in each layer.table.column: the bound text has no layers."""
    for scope, use, source in _qualified_uses(statement):
        if source is not None and not _ambiguous(scope, source):
            first, second = use.node.parts[0], use.node.parts[1]
            yield first.meta["start"], second.meta["start"]


def _qualified_column_errors(query: SqlQuery, statement: Statement) -> Iterator[DeclarationError]:
    for scope, use, source in _qualified_uses(statement):
        written = ".".join(part.name for part in use.node.parts)
        if source is None:
            what, hint = f"'{written}' names a table that has an alias here", "write alias.column"
        elif _ambiguous(scope, source):
            what = f"'{written}' is ambiguous: two tables here are named {source.alias}"
            hint = "give each an alias and write alias.column"
        else:
            continue
        line = int(use.node.parts[0].meta["line"])
        yield DeclarationError("qualified-column", what, at=place_in(query, line), hint=hint)


def _qualified_uses(statement: Statement) -> Iterator[tuple[Scope, ColumnUse, Source | None]]:
    """Yield the columns that begin with layer.table, with their source if it is visible from there."""
    from lakesmith.sqlproof.scopes import column_parts

    tables = {str(reference.table) for reference in statement.references}
    for scope in statement.scopes:
        for use in scope.uses:
            written = column_parts(use.node)
            table = ".".join(written[:2])
            if len(written) < 3 or table not in tables:
                continue
            for visible in scope.outward():
                if visible.named(written[0]) is not None:
                    break
                source = visible.unaliased(table)
                if source is not None:
                    yield scope, use, source
                    break
            else:
                yield scope, use, None


def _ambiguous(scope: Scope, source: Source) -> bool:
    return sum(other.alias == source.alias for other in scope.sources) > 1


def _last_semicolon(statement: Statement) -> Iterator[tuple[int, int]]:
    for token in reversed(statement.tokens):
        if token.text != ";":
            return
        yield token.start, token.end + 1
