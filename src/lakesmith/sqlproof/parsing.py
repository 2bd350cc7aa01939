"""Parses the SQL text of a table, and turns the parser's errors into faults with a line and a hint.

The dialect is `spark`, not `databricks`: the lake runs on open-source Spark. What only Databricks can parse
(`payload:field`, say) must fail here and not in the middle of a run.
"""

from __future__ import annotations

import functools

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from lakesmith.sqlproof.nesting import check_tokens, check_tree, too_deep
from lakesmith.sqlproof.scopes import Fault

SPARK = Dialect.get_or_raise("spark")


def tokenize(text: str) -> list[Token]:
    try:
        return list(SPARK.tokenize(text))
    except TokenError as error:
        quote = next((mark for mark in "'\"`" if text.count(mark) % 2), None)
        line = text[: text.rfind(quote) + 1].count("\n") + 1 if quote else text.count("\n") + 1
        hint = f"look for a single {quote}" if quote else "look for /* without */"
        raise Fault("sql-syntax", "a quotation mark or comment is not closed", line, hint) from error


def parse(text: str, tokens: list[Token]) -> exp.Expr:
    """Return the tree of one SELECT, or raise a `Fault`."""
    check_tokens(tokens)
    try:
        trees = SPARK.parser().parse(list(tokens), text)
    except ParseError as error:
        raise _syntax_fault(error) from error
    except RecursionError:
        raise too_deep() from None
    trees = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise Fault("sql-syntax", "there is no SELECT here", 1, "write the query below the header")
    if len(trees) > 1:
        line = next(token.line for token in tokens if token.token_type == TokenType.SEMICOLON)
        what = f"there are {len(trees)} statements; a table is built by one SELECT"
        raise Fault("not-a-select", what, line, "declare a table for each, or write one query with WITH")
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        what = f"a table is built by a SELECT, not by {tokens[0].text.upper()}"
        hint = "write only the SELECT; load: in the header declares how its rows enter the table"
        raise Fault("not-a-select", what, tokens[0].line, hint)
    check_tree(tree)
    return tree


def unexpected_word(error: ParseError) -> str:
    """Return the word at which the parser stopped; empty where it is unknown."""
    return str(error.errors[0].get("highlight") or "").strip() if error.errors else ""


def _syntax_fault(error: ParseError) -> Fault:
    detail = error.errors[0] if error.errors else {}
    word = unexpected_word(error)
    before = str(detail.get("start_context") or "").split("\n")[-1].strip()[-30:]
    what = f"SQL syntax error near '{word}'" if word else "SQL syntax error"
    hint = "look for a missing word, comma or bracket, here or just before"
    if before:
        hint = f"after '{before}': {str(detail.get('description') or error).lower()}"
    return Fault("sql-syntax", what, int(detail.get("line") or 1), hint)


@functools.lru_cache(maxsize=4096)
def normalized_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens without white space, comments and final semicolons, so that layout does not count."""
    tokens = tokenize(text)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    return tuple(text[token.start : token.end + 1] for token in tokens)
