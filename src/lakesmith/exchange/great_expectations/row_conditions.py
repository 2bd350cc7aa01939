"""The conditions under which an expectation of another tool looks at a row, as Spark SQL; `Untold` where that is not
safe."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal

from lakesmith.declare import is_identifier
from lakesmith.sql import literal, quoted

_COMPARED = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OWN = re.compile(
    r"""\s*col\(\s*["'](?P<column>[^"']+)["']\s*\)\s*
    (?: \.notnull\(\) | (?P<operator>==|!=|<=|>=|<|>)\s*
        (?: (?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
          | (?P<date>date\(\s*)?(?P<quote>["'])(?P<text>[^"']*)(?P=quote)(?(date)\s*\)) ) )\s*""",
    re.VERBOSE,
)
_OPERATORS: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_SUMS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_EMPTY = {"isnull": "IS NULL", "isna": "IS NULL", "notnull": "IS NOT NULL", "notna": "IS NOT NULL"}
_DEEP = 50
_DIGITS = 30
"""A declaration takes numbers with so many digits before the point, and as many after it."""


class Untold(Exception):
    """The condition has no counterpart; the text says why."""


def sql_value(value: object) -> str:
    """A value as it comes from JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) < 10**_DIGITS:
            return str(value)
        case Decimal() if value.is_finite() and _is_short(value):
            return format(value, "f")
        case str():
            return literal(value)
        case _:
            raise Untold(f"{str(value)[:40]} is no plain value")


def _is_short(number: Decimal) -> bool:
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_DIGITS and number.adjusted() < _DIGITS


def condition(written: object, parser: object) -> str:
    """The `row_condition` of an expectation, in whichever of its languages it is written."""
    if isinstance(written, Mapping):
        return _built(written, parser, 0)
    if not isinstance(written, str) or not written.strip():
        raise Untold("its row_condition is neither a text nor a condition")
    if parser == "spark":
        return _spark(written)
    if parser == "pandas":
        return _pandas(written)
    if parser in ("great_expectations", "great_expectations__experimental__") or written.lstrip().startswith("col("):
        return _own(written)
    raise Untold(f"its condition_parser {parser!r} is not known")


def _built(written: Mapping[str, object], parser: object, depth: int) -> str:
    """A condition that was put together from objects."""
    kind = written.get("type")
    if kind in ("and", "or"):
        parts = written.get("conditions")
        if depth > _DEEP or not isinstance(parts, Sequence) or not parts:
            raise Untold(f"its row_condition has no conditions below '{kind}'")
        told = [_built(part, parser, depth + 1) for part in parts if isinstance(part, Mapping)]
        if len(told) < len(parts):
            raise Untold(f"its row_condition has something else below '{kind}'")
        return f" {str(kind).upper()} ".join(f"({part})" for part in told)
    if kind == "pass_through":
        return condition(written.get("pass_through_filter"), parser)
    column = _column(written.get("column"))
    operator, parameter = str(written.get("operator")), written.get("parameter")
    match kind:
        case "nullity":
            return f"{column} IS NULL" if written.get("is_null") else f"{column} IS NOT NULL"
        case "comparison" if operator in ("IN", "NOT_IN") and isinstance(parameter, Sequence) and parameter:
            return f"{column} {operator.replace('_', ' ')} ({', '.join(map(sql_value, parameter))})"
        case "comparison" if operator in _COMPARED:
            return f"{column} {_COMPARED[operator]} {sql_value(parameter)}"
        case "column_comparison" if operator in _COMPARED:
            return f"{column} {_COMPARED[operator]} {_column(written.get('other_column'))}"
        case _:
            raise Untold(f"its row_condition is of a kind that is not known: {kind} {operator}")


def _column(written: object) -> str:
    name = written.get("name") if isinstance(written, Mapping) else written
    if not isinstance(name, str) or not is_identifier(name):
        raise Untold(f"{name!r} is not a column's name")
    return quoted(name)


def _own(written: str) -> str:
    """`col("x") > 5`, `col("x") == date("2026-01-01")`, `col("x").notnull()`."""
    found = _OWN.fullmatch(written)
    if found is None:
        raise Untold(f"its row_condition cannot be read: {written}")
    column = _column(found["column"])
    if found["operator"] is None:
        return f"{column} IS NOT NULL"
    value = found["number"] or literal(found["text"])
    return f"{column} {_COMPARED[found['operator']]} {'DATE ' if found['date'] else ''}{value}"


def _spark(written: str) -> str:
    """Spark SQL already; it only has to be one condition."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from lakesmith.sqlproof.nesting import TooDeep, check_text

    try:
        check_text(written)
        tree = sqlglot.parse_one(written, dialect="spark")
    except (SqlglotError, TooDeep, RecursionError):
        raise Untold(f"its row_condition is not Spark SQL: {written}") from None
    if not isinstance(tree, exp.Condition) or tree.find(exp.Query, exp.Command, exp.AggFunc):
        raise Untold(f"its row_condition is not a condition on one row: {written}")
    return written.strip()


def _pandas(written: str) -> str:
    """`DataFrame.query`: Python with names in backticks, in which & and | bind like `and` and `or`."""
    names: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        stand_in = f"column_{len(names)}_"
        names[stand_in] = found[1]
        return stand_in

    try:
        text = _words(re.sub(r"`([^`]+)`", named, " ".join(written.split("\n")).strip()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval").body
        return _Python(names).told(tree, negated=False)
    except (SyntaxError, tokenize.TokenError, RecursionError, ValueError, MemoryError):
        raise Untold(f"its row_condition cannot be read: {written}") from None
    except Untold as untold:
        raise Untold(f"its row_condition has no counterpart in SQL ({untold}): {written}") from None


def _words(text: str) -> str:
    replaced = {"&": "and", "|": "or"}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    return " ".join(replaced.get(token.string, token.string) for token in tokens if token.string.strip())


class _Python:
    """Tells a tree of Python as SQL. A comparison with nothing is false in pandas and unknown in SQL: where that makes
    a difference, which is below `not`, it is made false."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def told(self, node: ast.expr, *, negated: bool) -> str:
        match node:
            case ast.BoolOp():
                word = " AND " if isinstance(node.op, ast.And) else " OR "
                return word.join(f"({self.told(value, negated=negated)})" for value in node.values)
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return f"NOT ({self.told(operand, negated=True)})"
            case ast.Compare():
                return self._compared(node, negated=negated)
            case ast.Call():
                return self._called(node, negated=negated)
            case ast.Name():
                return self._two_valued(self._value(node), negated=negated)
            case _:
                raise Untold(type(node).__name__)

    def _compared(self, node: ast.Compare, *, negated: bool) -> str:
        sides = [node.left, *node.comparators]
        parts = []
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            parts.append(self._pair(left, operator, right, negated=negated))
        return parts[0] if len(parts) == 1 else " AND ".join(f"({part})" for part in parts)

    def _pair(self, left: ast.expr, operator: ast.cmpop, right: ast.expr, *, negated: bool) -> str:
        if isinstance(operator, ast.NotEq):
            # What is missing is not equal to anything, and so it is looked at.
            return f"NOT ({self._value(left)} <=> {self._value(right)})"
        if isinstance(operator, ast.In | ast.NotIn):
            told = f"{self._value(left)} IN ({self._values(right)})"
            kept = self._two_valued(told, negated=negated or isinstance(operator, ast.NotIn))
            return f"NOT {kept}" if isinstance(operator, ast.NotIn) else kept
        if type(operator) not in _OPERATORS:
            raise Untold(type(operator).__name__)
        told = f"{self._value(left)} {_OPERATORS[type(operator)]} {self._value(right)}"
        return self._two_valued(told, negated=negated)

    def _called(self, node: ast.Call, *, negated: bool) -> str:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=[], keywords=[]) if attr in _EMPTY:
                return f"{self._value(value)} {_EMPTY[attr]}"
            case ast.Call(func=ast.Attribute(value=value, attr="isin"), args=[values], keywords=[]):
                told = f"{self._value(value)} IN ({self._values(values)})"
                return self._two_valued(told, negated=negated)
            case _:
                raise Untold("a function")

    def _values(self, node: ast.expr) -> str:
        if not isinstance(node, ast.List | ast.Tuple | ast.Set) or not node.elts:
            raise Untold("a list that is not written out")
        return ", ".join(map(self._value, node.elts))

    def _value(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return _column(self._names.get(name, name))
            case ast.Constant(value=float() as number):
                return sql_value(Decimal(repr(number)))
            case ast.Constant(value=value):
                return sql_value(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self._value(operand)}"
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _SUMS:
                return f"({self._value(left)} {_SUMS[type(operator)]} {self._value(right)})"
            case _:
                raise Untold(type(node).__name__)

    def _two_valued(self, told: str, *, negated: bool) -> str:
        return f"coalesce({told}, false)" if negated else told
