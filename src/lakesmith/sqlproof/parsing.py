"""Parses the SQL text of a table, and turns the parser's errors into faults with a line and a hint.

The dialect is `spark`, not `databricks`: the lake runs on open-source Spark. What only Databricks can parse
(`payload:field`, say) must fail here and not in the middle of a run.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from lakesmith.sqlproof.nesting import TooDeep, check_tokens, check_tree, too_deep
from lakesmith.sqlproof.scopes import Fault

SPARK = Dialect.get_or_raise("spark")


class UnparsableSql(Exception):
    """The text is not one SELECT."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.what)
        self.fault = fault


def tokenize(text: str) -> list[Token]:
    try:
        return list(SPARK.tokenize(text))
    except TokenError as error:
        quote = next((mark for mark in "'\"`" if text.count(mark) % 2), None)
        line = text[: text.rfind(quote) + 1].count("\n") + 1 if quote else text.count("\n") + 1
        raise UnparsableSql(
            Fault(
                code="sql-syntax",
                what="a quotation mark or comment is not closed",
                line=line,
                hint=f"look for a single {quote}" if quote else "look for /* without */",
            )
        ) from error


def parse(text: str, tokens: list[Token]) -> exp.Expr:
    try:
        check_tokens(tokens)
        trees = SPARK.parser().parse(list(tokens), text)
    except TooDeep as error:
        raise _unparsed(error) from None
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        near = str(detail.get("highlight") or "").strip()
        before = str(detail.get("start_context") or "").split("\n")[-1].strip()[-30:]
        raise UnparsableSql(
            Fault(
                code="sql-syntax",
                what=f"SQL syntax error near '{near}'" if near else "SQL syntax error",
                line=int(detail.get("line") or 1),
                hint=f"after '{before}': {str(detail.get('description') or error).lower()}"
                if before
                else "look for a missing word, comma or bracket, here or just before",
            )
        ) from error
    except RecursionError:
        raise _unparsed(too_deep()) from None
    trees = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise UnparsableSql(
            Fault(
                code="sql-syntax",
                what="there is no SELECT here",
                line=1,
                hint="write the query below the header",
            )
        )
    if len(trees) > 1:
        semicolons = [token.line for token in tokens if token.token_type == TokenType.SEMICOLON]
        raise UnparsableSql(
            Fault(
                code="not-a-select",
                what=f"there are {len(trees)} statements; a table is built by one SELECT",
                line=semicolons[0],
                hint="declare a table for each, or write one query with WITH",
            )
        )
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        raise UnparsableSql(
            Fault(
                code="not-a-select",
                what=f"a table is built by a SELECT, not by {tokens[0].text.upper()}",
                line=tokens[0].line,
                hint="write only the SELECT; load: in the header declares how its rows enter the table",
            )
        )
    try:
        check_tree(tree)
    except TooDeep as error:
        raise _unparsed(error) from None
    return tree


def _unparsed(error: TooDeep) -> UnparsableSql:
    return UnparsableSql(Fault(code="sql-too-deep", what=error.what, line=error.line, hint=error.hint))


@functools.lru_cache(maxsize=4096)
def normalized_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens without white space, comments and final semicolons, so that layout does not count."""
    tokens = tokenize(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    return tuple(text[token.start : token.end + 1] for token in tokens)


def one_line(text: str, tokens: Sequence[Token]) -> str:
    """Return the text of these tokens without comments and line breaks."""
    line = ""
    for at, token in enumerate(tokens):
        gap = at > 0 and tokens[at - 1].end + 1 < token.start
        line += (" " if gap else "") + text[token.start : token.end + 1]
    return line
