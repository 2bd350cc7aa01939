"""A SELECT taken apart once: which tables it reads, where each name stands in the text, what each scope sees.

The dialect is `spark`, not `databricks`: the lake runs on open-source Spark, and what only Databricks can
parse (`payload:field`, say) has to be an error here and not in the middle of a run. `columns`, `rowwise`,
`trace` and `conditions` are its readers; all are imported only when there is SQL to read, because sqlglot
costs more to import than all of `status`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from lakesmith.declare import LAYERS, TableName, is_identifier
from lakesmith.sqlproof.functions import AGGREGATES, BARE, CHANGING, GENERATORS
from lakesmith.sqlproof.nesting import TooDeep, check_tokens, check_tree, too_deep

SPARK = Dialect.get_or_raise("spark")

_TABLE_FUNCTIONS = GENERATORS | {"range", "sql_keywords", "collations"}
_NOT_A_CALL_AFTER = (TokenType.DOT, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE)
_PATH_FORMATS = frozenset(
    {"delta", "csv", "json", "parquet", "orc", "text", "avro", "iceberg", "hudi", "xml", "binaryfile"}
)
_OWN_SCHEMAS = {
    "system": "Lakesmith's own tables are written after the run, so their rows would always be one run late",
    "quarantine": "refused rows are not part of any layer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A table of the lake, as it is written at one place of the text."""

    table: TableName
    start: int
    end: int
    line: int
    alias: str | None
    scope: int
    """Which scope it stands in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with a statement, at a line of its own text."""

    code: str
    what: str
    line: int
    hint: str | None = None
    unlayered: str | None = None
    """The table's name when it was written without a layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why something cannot be proved, at a line of the statement's own text."""

    text: str
    line: int | None = None
    clause: str | None = None

    def describe(self, first_line: int) -> str:
        line = None if self.line is None else f"line {self.line + first_line - 1}"
        detail = ", ".join(part for part in (self.clause, line) if part)
        return f"{self.text} ({detail})" if detail else self.text


@dataclass(slots=True, kw_only=True, eq=False)
class Source:
    """One thing that a FROM clause names."""

    alias: str
    shown: str
    """How a sentence calls it."""
    holder: Scope
    """The scope whose FROM clause this is."""
    line: int | None = None
    table: TableName | None = None
    scope: Scope | None = None
    """For a CTE or a subquery, what is inside."""
    columns: tuple[str, ...] | None = None
    """The columns where the statement itself names them all."""
    generator: exp.Expr | None = None
    """What a LATERAL VIEW makes its rows from."""
    aliased: bool = False
    pivoted: bool = False
    null_extended: bool = False
    """An outer join may put nulls in place of its rows."""
    hidden: bool = False
    """A semi or anti join only looks at it."""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column as it is written in one clause of a scope."""

    node: exp.Column
    clause: str


@dataclass(slots=True, kw_only=True, eq=False)
class Scope:
    """One SELECT, or one UNION of them, and the names that can be seen from it."""

    number: int
    node: exp.Expr
    parent: Scope | None
    sources: list[Source] = field(default_factory=list)
    branches: list[Scope] = field(default_factory=list)
    """The sides of a UNION, INTERSECT or EXCEPT."""
    nested: list[Scope] = field(default_factory=list)
    """Subqueries inside expressions."""
    uses: list[ColumnUse] = field(default_factory=list)
    using: list[exp.Identifier] = field(default_factory=list)
    """Columns of JOIN … USING."""
    windows: list[exp.Window] = field(default_factory=list)
    aggregates: bool = False
    cut: str | None = None
    """`LIMIT` or `OFFSET`, when there is one."""
    recursive: bool = False
    renamed: tuple[str, ...] = ()
    """The columns' names where a CTE lists them: WITH name (a, b) AS …."""

    @property
    def projections(self) -> Sequence[exp.Expr]:
        return self.node.expressions if isinstance(self.node, exp.Select) else ()

    def named(self, alias: str) -> Source | None:
        return next((source for source in self.sources if source.alias == alias), None)


class Unreadable(Exception):
    """The text is not one SELECT."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.what)
        self.fault = fault


class Statement:
    """One SELECT with its tokens, its references and its scopes. Made by `read`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.references: list[Reference] = []
        self.faults: list[Fault] = []
        self.scopes: list[Scope] = []
        self.pipes = any(token.token_type == TokenType.PIPE_GT for token in self.tokens)
        self.root = self._scope(_parsed(text, self.tokens), {}, None)
        self.references.sort(key=lambda reference: reference.start)
        self.faults.extend(self._misnamed())
        self.faults.sort(key=lambda fault: fault.line)

    def line_of(self, *kinds: TokenType) -> int | None:
        return next((token.line for token in self.tokens if token.token_type in kinds), None)

    def called(self, names: frozenset[str]) -> tuple[str, int] | None:
        """The first function of `names` that the text calls, with its line.

        Judged on the tokens, so that no function escapes because sqlglot gives it another name in its tree.
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

    def _misnamed(self) -> Iterator[Fault]:
        """Result columns that no table could hold: without a name, or two with one name."""
        select = self.root
        while select.branches:
            select = select.branches[0]
        seen: set[str] = set()
        for position, node in enumerate(select.projections, start=1):
            for name in () if is_star(node) else output_names(node):
                if name.lower() in seen:
                    yield Fault(
                        code="duplicate-column",
                        what=f"two result columns are called '{name}'",
                        line=line_in(node) or 1,
                        hint="leave one out, or give it another name: … AS name",
                    )
                if not is_identifier(name):
                    yield Fault(
                        code="bad-identifier",
                        what=f"'{name}' is not a name that a column can have",
                        line=line_in(node) or 1,
                        hint="use letters, digits and underscores: … AS order_id",
                    )
                seen.add(name.lower())
            if output_names(node) == () and not _is_generator(node):
                yield Fault(
                    code="unnamed-column",
                    what=f"result column {position}, {_shortened(node.sql(dialect=SPARK))}, has no name",
                    line=line_in(node) or self.line_of(TokenType.SELECT) or 1,
                    hint="give it one: … AS name",
                )

    def _scope(self, node: exp.Expr, visible: Mapping[str, Scope], parent: Scope | None) -> Scope:
        cut = None
        names = dict(visible)
        while isinstance(node, exp.Subquery):
            cut = cut or _cut(node)
            self._add_ctes(node, names)
            node = node.this
        self._add_ctes(node, names)
        scope = Scope(number=len(self.scopes), node=node, parent=parent, cut=cut or _cut(node))
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
                scope.recursive = _reaches(scope, placeholder)
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
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        line = int(parts[0].meta.get("line") or 1)
        source.line = line
        written = ".".join(part.name for part in parts)
        source.shown = written
        source.alias = source.alias or parts[-1].name.lower()
        if len(parts) == 1 and written.lower() in names:
            source.scope = names[written.lower()]
            return
        fault = _refusal(node, parts, line)
        if fault is not None:
            self.faults.append(fault)
            return
        table = TableName(parts[0].name.lower(), parts[1].name.lower())
        source.table = table
        source.shown = str(table)
        self.references.append(
            Reference(
                table=table,
                start=parts[0].meta["start"],
                end=parts[-1].meta["end"] + 1,
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
                    what=f"{name.lower()}(…) reads rows that are not a table of the lake",
                    line=source.line or 1,
                    hint="nobody could tell when they change: take them in as a bronze table and read that",
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
    """The statement that `text` spells. Raises `Unreadable` when it is not one SELECT."""
    return Statement(text)


@functools.lru_cache(maxsize=4096)
def normalized_tokens(text: str) -> tuple[str, ...]:
    """The text without white space, comments and the last semicolon: what makes it the same statement."""
    tokens = _tokens(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    return tuple(text[token.start : token.end + 1] for token in tokens)


def one_line(text: str, tokens: Sequence[Token]) -> str:
    """The text of these tokens as it was written, with comments and line breaks taken out."""
    told = ""
    for at, token in enumerate(tokens):
        gap = at > 0 and tokens[at - 1].end + 1 < token.start
        told += (" " if gap else "") + text[token.start : token.end + 1]
    return told


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a call needs more than one row."""
    if isinstance(node, exp.AggFunc):
        return True
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.Binary)
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in AGGREGATES
    return isinstance(node, exp.Func) and any(name.lower() in AGGREGATES for name in node.sql_names())


def outputs(scope: Scope, known: Mapping[TableName, Sequence[str]]) -> tuple[str, ...] | None:
    """The names of a scope's columns in their order, or None where `*` hides them."""
    if scope.renamed:
        return scope.renamed
    if scope.branches:
        return outputs(scope.branches[0], known)
    if not isinstance(scope.node, exp.Select) or scope.recursive:
        return None
    names: list[str] = []
    for node in scope.projections:
        if is_star(node):
            expanded = expand(scope, node, known)
            if expanded is None:
                return None
            names.extend(column for _, column in expanded)
            continue
        named = output_names(node)
        if named == ():
            return None
        names.extend(named)
    return tuple(names)


def expand(scope: Scope, star: exp.Expr, known: Mapping[TableName, Sequence[str]]) -> list[tuple[Source, str]] | None:
    """The columns that a `*` stands for, each with its source, or None where they are not known."""
    inner = star.this if isinstance(star, exp.Column) else star
    left_out = {column.name.lower() for column in inner.args.get("except_") or ()}
    if inner.args.get("replace") or inner.args.get("rename"):
        return None
    if isinstance(star, exp.Column):
        source = qualified_source(scope, star)
        sources = [source] if source is not None else []
    else:
        sources = [source for source in scope.sources if not source.hidden]
    if not sources:
        return None
    shared = {column.name.lower() for column in scope.using} if not isinstance(star, exp.Column) else set()
    seen: set[str] = set()
    found: list[tuple[Source, str]] = []
    for source in sources:
        columns = source_columns(source, known)
        if columns is None:
            return None
        for column in columns:
            low = column.lower()
            if low in left_out or (low in shared and low in seen):
                continue
            seen.add(low)
            found.append((source, column))
    return found


def source_columns(source: Source, known: Mapping[TableName, Sequence[str]]) -> tuple[str, ...] | None:
    """The columns of one thing in a FROM clause, or None where they are not known."""
    if source.pivoted:
        return None
    if source.columns is not None:
        return source.columns
    if source.table is not None:
        columns = known.get(source.table)
        return None if columns is None else tuple(columns)
    return None if source.scope is None else outputs(source.scope, known)


def parts(column: exp.Column) -> list[str]:
    """The identifiers of a column as it is written, in lower case."""
    return [part.name.lower() if isinstance(part, exp.Identifier) else "*" for part in column.parts]


def qualified_source(scope: Scope, column: exp.Column) -> Source | None:
    """The source that a column names by its alias or by `layer.table`, in this scope only."""
    written = parts(column)
    if len(written) > 1:
        if len(written) > 2:
            for source in scope.sources:
                qualified = source.table is not None and not source.aliased
                if qualified and str(source.table) == f"{written[0]}.{written[1]}":
                    return source
        return scope.named(written[0])
    return None


def column_name(scope: Scope, column: exp.Column) -> str:
    """The column's own name: without the source before it and without the struct fields after it."""
    written = parts(column)
    source = qualified_source(scope, column)
    if source is None:
        return written[0]
    if len(written) > 2 and source.table is not None and str(source.table) == f"{written[0]}.{written[1]}":
        return written[2]
    return written[1]


def is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def projection_named(scope: Scope, column: str) -> tuple[list[exp.Expr], bool]:
    """The projections with that output name, and whether there is a `*` besides."""
    low = column.lower()
    found = [node for node in scope.projections if low in (name.lower() for name in output_names(node))]
    return found, any(is_star(node) for node in scope.projections)


def output_names(node: exp.Expr) -> tuple[str, ...]:
    """The names that a projection gives to columns; none when it has no name of its own."""
    while isinstance(node, exp.Paren):
        node = node.this
    match node:
        case exp.Star():
            return ("*",)
        case exp.Aliases():
            return tuple(name.name for name in node.expressions)
        case exp.Alias():
            return (node.alias,)
        case exp.Column():
            return (node.name or "*",)
        case exp.Dot():
            return (node.name,) if node.name else ()
        case _:
            return ()


def _is_generator(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in GENERATORS
    return isinstance(node, exp.Func) and any(name.lower() in GENERATORS for name in node.sql_names())


def _refusal(node: exp.Table, parts: Sequence[exp.Identifier], line: int) -> Fault | None:
    written = ".".join(part.name for part in parts)
    first = parts[0].name.lower()
    if len(parts) == 1:
        return Fault(
            code="unknown-table",
            what=f"table '{written}' is written without its layer",
            line=line,
            unlayered=written.lower(),
        )
    if first in _OWN_SCHEMAS:
        return Fault(
            code="unreadable-source",
            what=f"a table cannot be made from {written}: {_OWN_SCHEMAS[first]}",
            line=line,
            hint=f"look at it with: lakesmith query 'SELECT * FROM {written}'",
        )
    if first in _PATH_FORMATS or any(mark in parts[-1].name for mark in "/\\:"):
        return Fault(
            code="unreadable-source",
            what=f"a table cannot be made from the path {parts[-1].name}: changes of it would go unseen",
            line=line,
            hint="take the files in as a bronze table and read that",
        )
    if len(parts) > 2:
        return Fault(
            code="unknown-table",
            what=f"'{written}' has {len(parts)} parts; a table of the lake is layer.name",
            line=line,
            hint=f"write {parts[-2].name}.{parts[-1].name}"
            if parts[-2].name.lower() in LAYERS
            else f"layers: {', '.join(LAYERS)}",
        )
    if first not in LAYERS:
        return Fault(
            code="unknown-table",
            what=f"there is no layer '{parts[0].name}' ({written})",
            line=line,
            unlayered=parts[-1].name.lower(),
        )
    if node.args.get("version") is not None:
        return Fault(
            code="unreadable-source",
            what=f"{written} is read at a fixed version; a table is made from its inputs as they are",
            line=line,
            hint="leave VERSION AS OF and TIMESTAMP AS OF out; to look at the past use lakesmith query --at",
        )
    if node.args.get("sample") is not None:
        return Fault(
            code="unreadable-source",
            what=f"{written} is read through TABLESAMPLE, which takes other rows each time",
            line=line,
            hint="choose rows by their values, such as WHERE pmod(xxhash64(id), 100) < 10",
        )
    return None


def _tokens(text: str) -> list[Token]:
    try:
        return list(SPARK.tokenize(text))
    except TokenError as error:
        quote = next((mark for mark in "'\"`" if text.count(mark) % 2), None)
        line = text[: text.rfind(quote) + 1].count("\n") + 1 if quote else text.count("\n") + 1
        raise Unreadable(
            Fault(
                code="sql-syntax",
                what="a quotation mark or comment is opened and never closed",
                line=line,
                hint=f"look for a single {quote}" if quote else "look for /* without */",
            )
        ) from error


def _parsed(text: str, tokens: list[Token]) -> exp.Expr:
    try:
        check_tokens(tokens)
        trees = SPARK.parser().parse(list(tokens), text)
    except TooDeep as error:
        raise _unparsed(error) from None
    except ParseError as error:
        told = error.errors[0] if error.errors else {}
        near = str(told.get("highlight") or "").strip()
        before = str(told.get("start_context") or "").split("\n")[-1].strip()[-30:]
        raise Unreadable(
            Fault(
                code="sql-syntax",
                what=f"this SQL cannot be read near '{near}'" if near else "this SQL cannot be read",
                line=int(told.get("line") or 1),
                hint=f"after '{before}': {str(told.get('description') or error).lower()}"
                if before
                else "look for a missing word, comma or bracket, here or just before",
            )
        ) from error
    except RecursionError:
        raise _unparsed(too_deep()) from None
    trees = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise Unreadable(
            Fault(
                code="sql-syntax",
                what="there is no SELECT here",
                line=1,
                hint="write the query below the header",
            )
        )
    if len(trees) > 1:
        ends = [token.line for token in tokens if token.token_type == TokenType.SEMICOLON]
        raise Unreadable(
            Fault(
                code="not-a-select",
                what=f"there are {len(trees)} statements; a table is made by one SELECT",
                line=ends[0],
                hint="make a table of each, or one query with WITH",
            )
        )
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        raise Unreadable(
            Fault(
                code="not-a-select",
                what=f"a table is made by a SELECT, not by {tokens[0].text.upper()}",
                line=tokens[0].line,
                hint="write only the SELECT; how its rows enter the table is said by load: in the header",
            )
        )
    try:
        check_tree(tree)
    except TooDeep as error:
        raise _unparsed(error) from None
    return tree


def _unparsed(error: TooDeep) -> Unreadable:
    return Unreadable(Fault(code="sql-too-deep", what=error.what, line=error.line, hint=error.hint))


def _join_parts(join: exp.Expr) -> list[exp.Expr]:
    found = [part for part in (join.args.get("on"),) if isinstance(part, exp.Expr)]
    if isinstance(join.this, exp.Lateral) and not isinstance(join.this.this, exp.Subquery):
        found.append(join.this.this)
    return found


def _cut(node: exp.Expr) -> str | None:
    if node.args.get("limit") is not None:
        return "LIMIT"
    return "OFFSET" if node.args.get("offset") is not None else None


def _reaches(scope: Scope, target: Scope) -> bool:
    inner = [source.scope for source in scope.sources if source.scope is not None]
    return any(each is target or _reaches(each, target) for each in (*inner, *scope.branches, *scope.nested))


def line_in(node: exp.Expr) -> int | None:
    for found in node.find_all(exp.Identifier, exp.Star):
        line = found.meta.get("line")
        if line is not None:
            return int(line)
    line = node.meta.get("line")
    return None if line is None else int(line)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
