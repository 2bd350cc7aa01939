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
                    what, hint = (
                        f"two result columns are named '{name}'",
                        "remove one, or give it another name: … AS name",
                    )
                    yield Fault("duplicate-column", what, line_in(node) or 1, hint)
                if not is_identifier(name):
                    hint = "use letters, digits and underscores: … AS order_id"
                    yield Fault("bad-identifier", f"'{name}' is not a valid column name", line_in(node) or 1, hint)
                seen.add(name.lower())
            if output_names(node) == () and not is_generator(node):
                sql = node.sql(dialect=SPARK)
                what = f"result column {position}, {sql if len(sql) <= 40 else sql[:39] + '…'}, has no name"
                line = line_in(node) or self.line_of(TokenType.SELECT) or 1
                yield Fault("unnamed-column", what, line, "give it one: … AS name")

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
        identifiers = [part for part in node.parts if isinstance(part, exp.Identifier)]
        written = [identifier.name for identifier in identifiers]
        source.line = line = int(identifiers[0].meta.get("line") or 1)
        source.shown = ".".join(written)
        source.alias = source.alias or written[-1].lower()
        if len(written) == 1 and written[0].lower() in names:
            source.scope = names[written[0].lower()]
            return
        fault = _table_fault(node, written, line)
        if fault is not None:
            self.faults.append(fault)
            return
        source.table = TableName(written[0].lower(), written[1].lower())
        source.shown = str(source.table)
        start, end = identifiers[0].meta["start"], identifiers[-1].meta["end"] + 1
        self.references.append(Reference(table=source.table, start=start, end=end, line=line, aliased=source.aliased))

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
            what = f"{name.lower()}(…) reads rows from outside the lake's tables"
            hint = "changes of them cannot be detected: ingest them as a bronze table and read that"
            self.faults.append(Fault("unreadable-source", what, source.line or 1, hint))

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
    """Return the analysed statement. Raise a `Fault` when the text is not one SELECT."""
    return Statement(text)


def _table_fault(node: exp.Table, names: Sequence[str], line: int) -> Fault | None:
    """Return why a FROM clause cannot read what it names, or None for a table of the lake."""
    written, last = ".".join(names), names[-1]
    first = names[0].lower()
    if len(names) == 1:
        return Fault("unknown-table", f"table '{written}' lacks its layer", line, unlayered=written.lower())
    if first in _OWN_SCHEMAS:
        what = f"a table cannot read {written}: {_OWN_SCHEMAS[first]}"
        return Fault("unreadable-source", what, line, f"query it with: lakesmith query 'SELECT * FROM {written}'")
    if first in _PATH_FORMATS or any(mark in last for mark in "/\\:"):
        what = f"a table cannot read the path {last}: its changes cannot be detected"
        return Fault("unreadable-source", what, line, "ingest the files as a bronze table and read that")
    if len(names) > 2:
        what = f"'{written}' has {len(names)} parts; a table of the lake is layer.name"
        has_layer = names[-2].lower() in LAYERS
        return Fault(
            "unknown-table", what, line, f"write {names[-2]}.{last}" if has_layer else f"layers: {', '.join(LAYERS)}"
        )
    if first not in LAYERS:
        what = f"there is no layer '{names[0]}' ({written})"
        return Fault("unknown-table", what, line, unlayered=last.lower())
    if node.args.get("version") is not None:
        what = f"{written} is read at a fixed version, but a table is built from the current versions"
        hint = "remove VERSION AS OF and TIMESTAMP AS OF; to query earlier versions use lakesmith query --at"
        return Fault("unreadable-source", what, line, hint)
    if node.args.get("sample") is not None:
        what = f"{written} is read through TABLESAMPLE, which returns other rows each time"
        return Fault(
            "unreadable-source", what, line, "select rows by their values, such as WHERE pmod(xxhash64(id), 100) < 10"
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
