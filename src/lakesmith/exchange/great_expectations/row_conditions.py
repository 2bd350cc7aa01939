"""Translate the `row_condition` of an expectation to Spark SQL, or raise `NotConvertible` where that is not safe."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from lakesmith.declare import is_identifier
from lakesmith.sql import literal, quoted, sql_value

_COMPARISONS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_COL_CONDITION = re.compile(
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
_ARITHMETIC: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_NULL_TESTS = {"isnull": "IS NULL", "isna": "IS NULL", "notnull": "IS NOT NULL", "notna": "IS NOT NULL"}
_MAX_DEPTH = 50
_DIGITS = 30
"""The digits that a declaration allows before the decimal point, and after it."""


class NotConvertible(Exception):
    """The condition or expectation cannot be converted; the message says why."""


def sql_literal(value: object) -> str:
    """Return a JSON value as an SQL literal."""
    if not isinstance(value, bool | str) and not _is_short_number(value):
        raise NotConvertible(f"{str(value)[:40]} is not a plain value")
    return sql_value(value)


def _is_short_number(value: object) -> bool:
    if not isinstance(value, int | Decimal) or not (number := Decimal(value)).is_finite():
        return False
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_DIGITS and number.adjusted() < _DIGITS


def condition(written: object, parser: object) -> str:
    """Return the `row_condition` of an expectation as SQL, whichever language it is written in."""
    if isinstance(written, Mapping):
        return _json_condition(written, parser, 0)
    if not isinstance(written, str) or not written.strip():
        raise NotConvertible("its row_condition is neither a text nor a condition")
    if parser == "spark":
        return _spark_condition(written)
    if parser == "pandas":
        return _pandas_condition(written)
    if parser in ("great_expectations", "great_expectations__experimental__") or written.lstrip().startswith("col("):
        return _col_condition(written)
    raise NotConvertible(f"its condition_parser {parser!r} is unknown")


def _json_condition(written: Mapping[str, object], parser: object, depth: int) -> str:
    """Return a condition that is built from JSON objects."""
    kind = written.get("type")
    if kind in ("and", "or"):
        parts = written.get("conditions")
        if depth > _MAX_DEPTH or not isinstance(parts, Sequence) or not parts:
            raise NotConvertible(f"its row_condition has no conditions below '{kind}'")
        conditions = [_json_condition(part, parser, depth + 1) for part in parts if isinstance(part, Mapping)]
        if len(conditions) < len(parts):
            raise NotConvertible(f"its row_condition has something else below '{kind}'")
        return f" {str(kind).upper()} ".join(f"({part})" for part in conditions)
    if kind == "pass_through":
        return condition(written.get("pass_through_filter"), parser)
    column = _column(written.get("column"))
    operator, parameter = str(written.get("operator")), written.get("parameter")
    match kind:
        case "nullity":
            return f"{column} IS NULL" if written.get("is_null") else f"{column} IS NOT NULL"
        case "comparison" if operator in ("IN", "NOT_IN") and isinstance(parameter, Sequence) and parameter:
            return f"{column} {operator.replace('_', ' ')} ({', '.join(map(sql_literal, parameter))})"
        case "comparison" if operator in _COMPARISONS:
            return f"{column} {_COMPARISONS[operator]} {sql_literal(parameter)}"
        case "column_comparison" if operator in _COMPARISONS:
            return f"{column} {_COMPARISONS[operator]} {_column(written.get('other_column'))}"
        case _:
            raise NotConvertible(f"its row_condition has an unknown type: {kind} {operator}")


def _column(written: object) -> str:
    name = written.get("name") if isinstance(written, Mapping) else written
    if not isinstance(name, str) or not is_identifier(name):
        raise NotConvertible(f"{name!r} is not a column's name")
    return quoted(name)


def _col_condition(written: str) -> str:
    """`col("x") > 5`, `col("x") == date("2026-01-01")`, `col("x").notnull()`."""
    match = _COL_CONDITION.fullmatch(written)
    if match is None:
        raise NotConvertible(f"its row_condition cannot be read: {written}")
    column = _column(match["column"])
    if match["operator"] is None:
        return f"{column} IS NOT NULL"
    value = match["number"] or literal(match["text"])
    return f"{column} {_COMPARISONS[match['operator']]} {'DATE ' if match['date'] else ''}{value}"


def _spark_condition(written: str) -> str:
    """Return Spark SQL unchanged, if it is a single condition."""
    from lakesmith.sqlproof.conditions import ConditionFault, columns_of, has_aggregate

    try:
        columns_of(written)
    except ConditionFault as fault:
        raise NotConvertible(f"its row_condition is not Spark SQL: {fault}: {written}") from None
    if has_aggregate(written):
        raise NotConvertible(f"its row_condition is not a condition on one row: {written}")
    return written.strip()


def _pandas_condition(written: str) -> str:
    """Translate `DataFrame.query`: Python with names in backticks, where & and | bind like `and` and `or`."""
    names: dict[str, str] = {}

    def stand_in_for(match: re.Match[str]) -> str:
        stand_in = f"column_{len(names)}_"
        names[stand_in] = match[1]
        return stand_in

    try:
        text = _spelled_out(re.sub(r"`([^`]+)`", stand_in_for, " ".join(written.split("\n")).strip()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval").body
        return _PythonToSql(names).condition(tree, negated=False)
    except (SyntaxError, tokenize.TokenError, RecursionError, ValueError, MemoryError):
        raise NotConvertible(f"its row_condition cannot be read: {written}") from None
    except NotConvertible as reason:
        raise NotConvertible(f"its row_condition has no equivalent in SQL ({reason}): {written}") from None


def _spelled_out(text: str) -> str:
    replaced = {"&": "and", "|": "or"}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    return " ".join(replaced.get(token.string, token.string) for token in tokens if token.string.strip())


@dataclass(frozen=True, slots=True)
class _PythonToSql:
    """Translates a Python syntax tree to SQL. A comparison with a missing value is false in pandas and NULL in SQL:
    below `not`, where that differs, the SQL makes it false."""

    names: Mapping[str, str]
    """The columns in backticks, by the name that stands for each."""

    def condition(self, node: ast.expr, *, negated: bool) -> str:
        match node:
            case ast.BoolOp():
                word = " AND " if isinstance(node.op, ast.And) else " OR "
                return word.join(f"({self.condition(value, negated=negated)})" for value in node.values)
            case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
                return f"NOT ({self.condition(operand, negated=True)})"
            case ast.Compare():
                return self._comparison(node, negated=negated)
            case ast.Call():
                return self._call(node, negated=negated)
            case ast.Name():
                return self._two_valued(self._value(node), negated=negated)
            case _:
                raise NotConvertible(type(node).__name__)

    def _comparison(self, node: ast.Compare, *, negated: bool) -> str:
        triples = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
        parts = [self._pair(left, operator, right, negated=negated) for left, operator, right in triples]
        return parts[0] if len(parts) == 1 else " AND ".join(f"({part})" for part in parts)

    def _pair(self, left: ast.expr, operator: ast.cmpop, right: ast.expr, *, negated: bool) -> str:
        if isinstance(operator, ast.NotEq):
            # In pandas a missing value is unequal to everything, so the row is checked.
            return f"NOT ({self._value(left)} <=> {self._value(right)})"
        if isinstance(operator, ast.In | ast.NotIn):
            sql = f"{self._value(left)} IN ({self._values(right)})"
            if isinstance(operator, ast.NotIn):
                return f"NOT {self._two_valued(sql, negated=True)}"
            return self._two_valued(sql, negated=negated)
        if type(operator) not in _OPERATORS:
            raise NotConvertible(type(operator).__name__)
        sql = f"{self._value(left)} {_OPERATORS[type(operator)]} {self._value(right)}"
        return self._two_valued(sql, negated=negated)

    def _call(self, node: ast.Call, *, negated: bool) -> str:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=[], keywords=[]) if attr in _NULL_TESTS:
                return f"{self._value(value)} {_NULL_TESTS[attr]}"
            case ast.Call(func=ast.Attribute(value=value, attr="isin"), args=[values], keywords=[]):
                sql = f"{self._value(value)} IN ({self._values(values)})"
                return self._two_valued(sql, negated=negated)
            case _:
                raise NotConvertible("a function")

    def _values(self, node: ast.expr) -> str:
        if not isinstance(node, ast.List | ast.Tuple | ast.Set) or not node.elts:
            raise NotConvertible("a list that is not a literal")
        return ", ".join(map(self._value, node.elts))

    def _value(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return _column(self.names.get(name, name))
            case ast.Constant(value=float() as number):
                return sql_literal(Decimal(repr(number)))
            case ast.Constant(value=value):
                return sql_literal(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"-{self._value(operand)}"
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in _ARITHMETIC:
                return f"({self._value(left)} {_ARITHMETIC[type(operator)]} {self._value(right)})"
            case _:
                raise NotConvertible(type(node).__name__)

    def _two_valued(self, sql: str, *, negated: bool) -> str:
        return f"coalesce({sql}, false)" if negated else sql
