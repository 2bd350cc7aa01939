"""Rejects SQL that would crash the parser or keep it busy forever.

The parser recurses for each bracket, in compiled code that does not detect a stack overflow. And it tries every
pairing of a JOIN without ON or USING with a later condition: each such JOIN doubles the time.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import Dialect, Token, TokenType, exp

from lakesmith.sqlproof.scopes import Fault

DEEPEST = 100
"""How many levels deep SQL may be nested. Each level costs this code and Spark a few nested calls."""
BARE_JOINS = 10
"""How many JOINs in one FROM, and in the queries around it, may lack a condition."""
_OPENS = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSES = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_TYPES = (TokenType.ARRAY, TokenType.STRUCT, TokenType.MAP)


class TooDeep(Fault):
    """SQL that is nested too deeply to be parsed."""

    def __init__(self, what: str, hint: str, line: int = 1) -> None:
        super().__init__("sql-too-deep", what, line, hint)


def check_text(text: str) -> None:
    """Raise `TooDeep` for SQL that the parser must not get, and sqlglot's errors for invalid tokens."""
    check_tokens(Dialect.get_or_raise("spark").tokenize(text))


def check_tokens(tokens: Iterable[Token]) -> None:
    """Raise `TooDeep` for SQL that the parser must not get."""
    bare = [0]
    angles = 0
    before: TokenType | None = None
    for token in tokens:
        match token.token_type:
            case kind if kind in _OPENS:
                bare.append(0)
            case kind if kind in _CLOSES:
                bare = bare[:-1] or [0]
                angles = 0 if kind == TokenType.R_PAREN else angles
            case TokenType.LT if before in _TYPES:
                angles += 1
            case TokenType.GT if angles:
                angles -= 1
            case TokenType.SELECT:
                bare[-1] = 0
            case TokenType.JOIN if before != TokenType.CROSS:
                bare[-1] += 1
                if sum(bare) > BARE_JOINS:
                    raise TooDeep(
                        f"more than {BARE_JOINS} joins have neither ON nor USING",
                        "write ON or USING, or CROSS JOIN where every pair of rows is wanted",
                        token.line,
                    )
            case TokenType.ON | TokenType.USING:
                bare[-1] = max(bare[-1] - 1, 0)
        before = token.token_type
        if len(bare) - 1 + angles > DEEPEST:
            raise too_deep(token.line)


def check_tree(tree: exp.Expr) -> None:
    """Raise `TooDeep` where a tree is too deep to be walked: not all nesting has brackets."""
    waiting: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while waiting:
        node, level = waiting.pop()
        if level > _LEVELS:
            raise too_deep()
        for child in node.iter_expressions():
            # A chain of operators, such as a + b + c, is as deep as its deepest operand: it is walked in a loop.
            chained = isinstance(node, exp.Binary) and not _is_called(node) and type(child) is type(node)
            weight = 2 if _is_called(child) else 1
            waiting.append((child, level if chained else level + weight))


_LEVELS = 4 * DEEPEST
"""Levels of a tree: one level of the text is several levels of the tree."""


def _is_called(node: exp.Expr) -> bool:
    """Whether each link of a chain costs several calls: UNIONs, dots, and operators that stand for a function, such as
    the arrow."""
    named = isinstance(node, exp.Binary) and isinstance(node, exp.Func) and not isinstance(node, exp.Connector)
    return named or isinstance(node, exp.SetOperation | exp.Dot)


def too_deep(line: int = 1) -> TooDeep:
    return TooDeep(
        f"this SQL is nested more than {DEEPEST} levels deep",
        "move a part of it to a query in WITH or to a table of its own",
        line,
    )
