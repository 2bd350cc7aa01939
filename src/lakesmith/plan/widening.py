"""Which types a stored column can be widened to in place without changing a value."""

from __future__ import annotations

from collections.abc import Sequence

from lakesmith.declare.spark_type import (
    INTEGER_DIGITS,
    ArrayType,
    DecimalType,
    MapType,
    SimpleType,
    SparkType,
    StructType,
)


def widens(stored: SparkType, target: SparkType) -> bool:
    """Whether a column of the type `stored` can be widened to `target`, also inside nested types.

    Integers widen to integers or decimals, never to doubles, which cannot hold every `bigint`. Delta can widen more,
    but that changes the meaning of a value, such as a date that becomes a timestamp.
    """
    return stored != target and _fits(stored, target)


def _fits(stored: SparkType, target: SparkType) -> bool:
    match stored, target:
        case _ if stored == target:
            return True
        case ArrayType(), ArrayType():
            return _fits(stored.element, target.element)
        case MapType(), MapType():
            return _fits(stored.key, target.key) and _fits(stored.value, target.value)
        case StructType(), StructType():
            before, after = dict(stored.fields), dict(target.fields)
            return list(before) == list(after) and all(_fits(before[name], after[name]) for name in before)
        case SimpleType("float"), SimpleType("double"):
            return True
        case SimpleType(one), SimpleType(other) if one in INTEGER_DIGITS and other in INTEGER_DIGITS:
            return INTEGER_DIGITS[one] < INTEGER_DIGITS[other]
        case ((SimpleType() | DecimalType()), DecimalType(precision, scale)):
            whole = whole_digits(stored)
            fraction = stored.scale if isinstance(stored, DecimalType) else 0
            return whole is not None and whole <= precision - scale and fraction <= scale
        case _:
            return False


def whole_digits(type: SparkType) -> int | None:
    """Return how many digits before the point a decimal needs to replace a type, by the rules of Delta."""
    match type:
        case DecimalType():
            return type.precision - type.scale
        case SimpleType("bigint"):
            return 20
        case SimpleType() if type.name in INTEGER_DIGITS:
            return 10
        case _:
            return None


def type_change_text(source: object, columns: Sequence[str]) -> str:
    """Explain why a table's changes cannot be read across a type change."""
    return f"column types in {source} changed ({', '.join(columns)}), so types of this table may change too"
