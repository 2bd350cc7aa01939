"""Analyses one SELECT once: which tables it reads, where each name stands in the text, what each scope sees.

All modules of this package except `query`, `binding`, `column_checks` and `analysis_cache` are imported only when there
is SQL to read, because sqlglot costs more to import than all of `lakesmith status`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import TokenType, exp

from lakesmith.declare import LAYERS, TableName, is_identifier
from lakesmith.sqlproof.functions import BARE, CHANGING, GENERATORS
from lakesmith.sqlproof.output_columns import is_generator, output_names
from lakesmith.sqlproof.parsing import SPARK, parse, tokenize
from lakesmith.sqlproof.scopes import (
    ColumnUse,
    Fault,
    Reference,
    Scope,
    Source,
    is_aggregate,
    is_star,
    line_in,
)

_TABLE_FUNCTIONS = GENERATORS | {"range", "sql_keywords", "collations"}
_NOT_A_CALL_AFTER = (TokenType.DOT, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_PATH_FORMATS = frozenset(
    {"delta", "csv", "json", "parquet", "orc", "text", "avro", "iceberg", "hudi", "xml", "binaryfile"}
)
_OWN_SCHEMAS = {
    "system": "Lakesmith's own tables are written after the run, so their rows would always be one run late",
    "quarantine": "quarantined rows belong to no layer",
}


class Statement:
    """One SELECT with its tokens, its references and its scopes. Made by `read`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.references: list[Reference] = []
        self.faults: list[Fault] = []
        self.scopes: list[Scope] = []
        self.pipes = any(token.token_type == TokenType.PIPE_GT for token in self.tokens)
        self.root = self._scope(parse(text, self.tokens), {}, None)
        self.references.sort(key=lambda reference: reference.start)
        self.faults.extend(self._output_name_faults())
        self.faults.sort(key=lambda fault: fault.line)

    def line_of(self, *kinds: TokenType) -> int | None:
        return next((token.line for token in self.tokens if token.token_type in kinds), None)

    def called(self, names: frozenset[str]) -> tuple[str, int] | None:
        """Return the first function of `names` that the text calls, with its line.

        This reads the tokens, because sqlglot's tree gives some functions another name.
        """
        for at, token in enumerate(self.tokens):
            word = token.text.lower()
            if token.token_type == TokenType.STRING:
                continue
            before = self.tokens[at - 1].token_type if at else None
            opens = self.tokens[at + 1 : at + 2]
            if opens and opens[0].token_type == TokenType.L_PAREN:
                if word in names and before not in _NOT_A_CALL_AFTER:
                    return word, token.line
                without_arguments = self.tokens[at + 2 : at + 3]
                if (
                    word == "unix_timestamp"
                    and names is CHANGING
                    and without_arguments
                    and without_arguments[0].token_type == TokenType.R_PAREN
                ):
                    return word, token.line
            elif word in BARE and word in names and before not in (TokenType.DOT, TokenType.ALIAS):
                return word, token.line
        return None

    def _output_name_faults(self) -> Iterator[Fault]:
        """Yield faults of result columns without a name, with an invalid one, or with the name of another."""
        select = self.root
        while select.branches:
            select = select.branches[0]
        seen: set[str] = set()
        for position, node in enumerate(select.projections, start=1):
            for name in () if is_star(node) else output_names(node):
                if name.lower() in seen:
                    yield Fault(
                        code="duplicate-column",
                        what=f"two result columns are named '{name}'",
                        line=line_in(node) or 1,
                        hint="remove one, or give it another name: … AS name",
                    )
                if not is_identifier(name):
                    yield Fault(
                        code="bad-identifier",
                        what=f"'{name}' is not a valid column name",
                        line=line_in(node) or 1,
                        hint="use letters, digits and underscores: … AS order_id",
                    )
                seen.add(name.lower())
            if output_names(node) == () and not is_generator(node):
                yield Fault(
                    code="unnamed-column",
                    what=f"result column {position}, {_shortened(node.sql(dialect=SPARK))}, has no name",
                    line=line_in(node) or self.line_of(TokenType.SELECT) or 1,
                    hint="give it one: … AS name",
                )

    def _scope(self, node: exp.Expr, visible: Mapping[str, Scope], parent: Scope | None) -> Scope:
        row_limit = None
        names = dict(visible)
        while isinstance(node, exp.Subquery):
            row_limit = row_limit or _row_limit(node)
            self._add_ctes(node, names)
            node = node.this
        self._add_ctes(node, names)
        scope = Scope(number=len(self.scopes), node=node, parent=parent, row_limit=row_limit or _row_limit(node))
        self.scopes.append(scope)
        if isinstance(node, exp.SetOperation):
            scope.branches = [self._scope(side, names, parent) for side in (node.left, node.right)]
        elif isinstance(node, exp.Select):
            self._add_sources(scope, node, names)
            self._add_uses(scope, node, names)
        return scope

    def _add_ctes(self, node: exp.Expr, names: dict[str, Scope]) -> None:
        clause = node.args.get("with_")
        if clause is None:
            return
        for cte in clause.expressions:
            name = cte.alias.lower()
            if clause.args.get("recursive"):
                placeholder = Scope(number=-1, node=cte, parent=None, recursive=True)
                scope = self._scope(cte.this, {**names, name: placeholder}, None)
                scope.recursive = _refers_to(scope, placeholder)
            else:
                scope = self._scope(cte.this, names, None)
            scope.renamed = tuple(column.name for column in cte.args["alias"].columns)
            names[name] = scope

    def _add_sources(self, scope: Scope, select: exp.Select, names: Mapping[str, Scope]) -> None:
        origin = select.args.get("from_")
        if origin is not None:
            self._add_source(scope, origin.this, names)
        self._add_joins(scope, select.args.get("joins") or (), names)
        for lateral in select.args.get("laterals") or ():
            self._add_source(scope, lateral, names)

    def _add_joins(self, scope: Scope, joins: Sequence[exp.Expr], names: Mapping[str, Scope]) -> None:
        for join in joins:
            before = list(scope.sources)
            self._add_source(scope, join.this, names)
            added = scope.sources[len(before) :]
            side = join.args.get("side") or ""
            kind = join.args.get("kind") or ""
            scope.using.extend(join.args.get("using") or ())
            self._add_uses_of(scope, "joins", _join_parts(join), names)
            for source in added:
                source.hidden = kind in ("SEMI", "ANTI")
                source.null_extended = side in ("LEFT", "FULL")
            if side in ("RIGHT", "FULL"):
                for source in before:
                    source.null_extended = True

    def _add_source(self, scope: Scope, node: exp.Expr, names: Mapping[str, Scope]) -> None:
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table):
            self._add_source(scope, node.this, names)
            return
        alias_node = node.args.get("alias")
        alias = node.alias.lower()
        columns = tuple(name.name for name in alias_node.columns) if alias_node is not None else ()
        source = Source(
            alias=alias,
            shown=alias or "a subquery",
            holder=scope,
            line=line_in(node),
            columns=columns or None,
            aliased=bool(alias),
            pivoted=bool(node.args.get("pivots")),
        )
        if source.pivoted:
            source.columns = None
        match node:
            case exp.Table() if isinstance(node.this, exp.Identifier):
                self._name_source(source, node, scope, names)
            case exp.Table():
                self._function_source(source, node)
            case exp.Subquery():
                source.scope = self._scope(node, names, None)
            case exp.Lateral() if isinstance(node.this, exp.Subquery):
                source.scope = self._scope(node.this, names, scope)
            case exp.Lateral():
                source.generator = node.this
                source.shown = "a generator"
            case exp.Values():
                source.shown = "VALUES"
            case exp.Query():
                source.scope = self._scope(node, names, None)
        scope.sources.append(source)
        self._add_joins(scope, node.args.get("joins") or (), names)

    def _name_source(self, source: Source, node: exp.Table, scope: Scope, names: Mapping[str, Scope]) -> None:
        column_parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        line = int(column_parts[0].meta.get("line") or 1)
        source.line = line
        written = ".".join(part.name for part in column_parts)
        source.shown = written
        source.alias = source.alias or column_parts[-1].name.lower()
        if len(column_parts) == 1 and written.lower() in names:
            source.scope = names[written.lower()]
            return
        fault = _table_fault(node, column_parts, line)
        if fault is not None:
            self.faults.append(fault)
            return
        table = TableName(column_parts[0].name.lower(), column_parts[1].name.lower())
        source.table = table
        source.shown = str(table)
        self.references.append(
            Reference(
                table=table,
                start=column_parts[0].meta["start"],
                end=column_parts[-1].meta["end"] + 1,
                line=line,
                alias=source.alias if source.aliased else None,
                scope=scope.number,
            )
        )

    def _function_source(self, source: Source, node: exp.Table) -> None:
        function = node.this
        if isinstance(function, exp.Func) and not isinstance(function, exp.Anonymous):
            name = function.sql_name()
        else:
            name = function.name or function.sql("spark")
        source.shown = f"{name.lower()}()"
        source.line = source.line or function.meta.get("line")
        if name.lower() in GENERATORS or isinstance(function, exp.UDTF | exp.Explode | exp.Inline):
            source.generator = function
        elif name.lower() not in _TABLE_FUNCTIONS:
            self.faults.append(
                Fault(
                    code="unreadable-source",
                    what=f"{name.lower()}(…) reads rows from outside the lake's tables",
                    line=source.line or 1,
                    hint="changes of them cannot be detected: ingest them as a bronze table and read that",
                )
            )

    def _add_uses(self, scope: Scope, select: exp.Select, names: Mapping[str, Scope]) -> None:
        for clause, value in select.args.items():
            if clause in ("with_", "from_", "joins"):
                continue
            values = value if isinstance(value, list) else [value]
            nodes = [item for item in values if isinstance(item, exp.Expr)]
            if clause == "laterals":
                nodes = [lateral.this for lateral in nodes]
            self._add_uses_of(scope, clause, nodes, names)
        if select.args.get("group") is not None:
            scope.aggregates = True

    def _add_uses_of(self, scope: Scope, clause: str, nodes: Sequence[exp.Expr], names: Mapping[str, Scope]) -> None:
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            if isinstance(node, exp.Column):
                scope.uses.append(ColumnUse(node, clause))
                continue
            if isinstance(node, exp.Star):
                continue
            if isinstance(node, exp.Query):
                scope.nested.append(self._scope(node, names, scope))
                continue
            if isinstance(node, exp.Window):
                scope.windows.append(node)
            elif is_aggregate(node) and not isinstance(node.parent, exp.Window):
                scope.aggregates = True
            stack.extend(reversed(list(node.iter_expressions())))


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Statement:
    """Return the analysed statement. Raise `UnparsableSql` when the text is not one SELECT."""
    return Statement(text)


def _table_fault(node: exp.Table, column_parts: Sequence[exp.Identifier], line: int) -> Fault | None:
    written = ".".join(part.name for part in column_parts)
    first = column_parts[0].name.lower()
    if len(column_parts) == 1:
        return Fault(
            code="unknown-table",
            what=f"table '{written}' lacks its layer",
            line=line,
            unlayered=written.lower(),
        )
    if first in _OWN_SCHEMAS:
        return Fault(
            code="unreadable-source",
            what=f"a table cannot read {written}: {_OWN_SCHEMAS[first]}",
            line=line,
            hint=f"query it with: lakesmith query 'SELECT * FROM {written}'",
        )
    if first in _PATH_FORMATS or any(mark in column_parts[-1].name for mark in "/\\:"):
        return Fault(
            code="unreadable-source",
            what=f"a table cannot read the path {column_parts[-1].name}: its changes cannot be detected",
            line=line,
            hint="ingest the files as a bronze table and read that",
        )
    if len(column_parts) > 2:
        return Fault(
            code="unknown-table",
            what=f"'{written}' has {len(column_parts)} parts; a table of the lake is layer.name",
            line=line,
            hint=f"write {column_parts[-2].name}.{column_parts[-1].name}"
            if column_parts[-2].name.lower() in LAYERS
            else f"layers: {', '.join(LAYERS)}",
        )
    if first not in LAYERS:
        return Fault(
            code="unknown-table",
            what=f"there is no layer '{column_parts[0].name}' ({written})",
            line=line,
            unlayered=column_parts[-1].name.lower(),
        )
    if node.args.get("version") is not None:
        return Fault(
            code="unreadable-source",
            what=f"{written} is read at a fixed version, but a table is built from the current versions",
            line=line,
            hint="remove VERSION AS OF and TIMESTAMP AS OF; to query earlier versions use lakesmith query --at",
        )
    if node.args.get("sample") is not None:
        return Fault(
            code="unreadable-source",
            what=f"{written} is read through TABLESAMPLE, which returns other rows each time",
            line=line,
            hint="select rows by their values, such as WHERE pmod(xxhash64(id), 100) < 10",
        )
    return None


def _join_parts(join: exp.Expr) -> list[exp.Expr]:
    found = [part for part in (join.args.get("on"),) if isinstance(part, exp.Expr)]
    if isinstance(join.this, exp.Lateral) and not isinstance(join.this.this, exp.Subquery):
        found.append(join.this.this)
    return found


def _row_limit(node: exp.Expr) -> str | None:
    if node.args.get("limit") is not None:
        return "LIMIT"
    return "OFFSET" if node.args.get("offset") is not None else None


def _refers_to(scope: Scope, target: Scope) -> bool:
    inner = [source.scope for source in scope.sources if source.scope is not None]
    return any(each is target or _refers_to(each, target) for each in (*inner, *scope.branches, *scope.nested))


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
