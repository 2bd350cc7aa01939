"""Reads a suite of Great Expectations, of 0.x and of 1.x, into columns and checks; what has no counterpart is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from lakesmith.declare import TableName, is_identifier
from lakesmith.errors import UsageError
from lakesmith.exchange.great_expectations.patterns import java_regex, spark_format
from lakesmith.exchange.great_expectations.row_conditions import Untold, condition, sql_value
from lakesmith.exchange.great_expectations.types import spark_type_of
from lakesmith.load.yaml_writer import flow, remark, word
from lakesmith.sql import literal, quoted

_WITHOUT = {
    "expect_column_values_to_be_increasing": "the rows of a batch have no order",
    "expect_column_values_to_be_decreasing": "the rows of a batch have no order",
    "expect_column_values_to_match_json_schema": "write a check with `python`",
    "expect_column_value_z_scores_to_be_less_than": "a check `anomaly` or `drift` watches what is unusual",
    "expect_column_kl_divergence_to_be_less_than": "a check `drift` compares with the batches before",
    "expect_column_bootstrapped_ks_test_p_value_to_be_greater_than": "a check `drift` with `method: ks` comes near",
    "expect_column_parameterized_distribution_ks_test_p_value_to_be_greater_than": (
        "a check `drift` with `method: ks` comes near"
    ),
    "expect_column_chisquare_test_p_value_to_be_greater_than": "a check `drift` compares with the batches before",
    "expect_column_pair_cramers_phi_value_to_be_less_than": "no check compares how two columns depend on each other",
    "expect_table_column_count_to_equal": "a check `schema` with `exact: true` names the columns",
    "expect_table_column_count_to_be_between": "a check `schema` with `exact: true` names the columns",
    "expect_query_results_to_match_comparison": "a check `reconcile` compares a total with an input's",
}
"""Expectations that have no counterpart, each with the reason, or with what to write instead."""
_MOST = 10**15
_LONG = 240
_FEED = ("_change_type", "_commit_version", "_commit_timestamp")
"""Names that the change feed keeps to itself."""
_NEARLY_ALL = Decimal("99.999999")
_SEVERITIES = {"critical": "fail", "warning": "warn", "info": "warn"}


@dataclass(frozen=True, slots=True)
class Imported:
    """What was read."""

    text: str
    """YAML: `columns` and `checks` of a table."""
    warnings: tuple[str, ...]
    """What has no counterpart, or means something a little different."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """A check before it has a name that no other has."""

    name: str
    rule: Mapping[str, object]
    on_rows: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One expectation: its arguments, and what was noticed while they were read."""

    type: str
    kwargs: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)

    def column(self, key: str = "column") -> str:
        name = self.kwargs.get(key)
        if not isinstance(name, str) or not is_identifier(name) or name.lower() in _FEED:
            raise Untold(f"{name!r} is not a column's name here: letters, digits and underscores")
        return name

    def columns(self, key: str = "column_list") -> list[str]:
        names = self.kwargs.get(key)
        if not isinstance(names, Sequence) or isinstance(names, str) or not names:
            raise Untold(f"it has no {key}")
        return [_Asked(type=self.type, kwargs={"column": name}).column() for name in names]

    def sql(self, key: str = "column") -> str:
        return quoted(self.column(key))

    def values(self, key: str = "value_set") -> list[object]:
        """The values of a set. Nothing is none: rows without a value are not looked at."""
        given = self.kwargs.get(key)
        values = [value for value in given if value is not None] if isinstance(given, Sequence) else []
        if not values or isinstance(given, str):
            raise Untold(f"its {key} is empty")
        for value in values:
            sql_value(value)
        return values

    def texts(self, key: str) -> list[str]:
        given = self.kwargs.get(key)
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise Untold(f"it has no {key}")
        return list(texts)

    def text(self, key: str) -> str:
        """The one text that is told."""
        first, *others = self.texts(key)
        if others:
            raise Untold(f"it has more than one {key}")
        return first

    def bounds(self, low: str = "min_value", high: str = "max_value") -> list[tuple[str, object]]:
        """The bounds as comparisons."""
        found = []
        for key, strict, signs in ((low, "strict_min", (">=", ">")), (high, "strict_max", ("<=", "<"))):
            value = self.kwargs.get(key)
            if value is not None:
                sql_value(value)
                found.append((signs[1] if self.kwargs.get(strict) else signs[0], value))
        if not found:
            raise Untold("it has no bounds")
        if len(found) == 2 and _turned_round(found[0][1], found[1][1]):
            raise Untold(f"it can never be met: {found[0][1]} is more than {found[1][1]}")
        return found


Converted = Iterable[_Check]
Convert = Callable[[_Asked], Converted]


def is_suite(document: object) -> bool:
    """Whether a JSON document is a suite."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("expectations"), Sequence)
        and ("name" in document or "expectation_suite_name" in document)
    )


def read_suite(text: str, table_name: TableName) -> Imported:
    """The suite as columns and checks of a table. An expectation is converted or told of, never dropped."""
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=lambda word: word)
    except (ValueError, RecursionError) as error:
        raise UsageError("bad-suite", f"the suite is not JSON: {error}", hint="give the JSON file of a suite") from None
    if not is_suite(document):
        raise UsageError(
            "bad-suite",
            "the JSON is no suite of Great Expectations",
            hint='a suite has "name" (or "expectation_suite_name") and "expectations"',
        )
    suite = _Suite(table=table_name)
    for number, expectation in enumerate(document["expectations"], start=1):
        suite.take(expectation, number)
    name = document.get("name") or document.get("expectation_suite_name")
    return Imported(
        suite.text(f"From the suite {name} of Great Expectations, for {table_name}."), tuple(suite.warnings)
    )


@dataclass(slots=True, kw_only=True)
class _Suite:
    """What has been read so far."""

    table: TableName
    columns: dict[str, dict[str, object]] = field(default_factory=dict)
    checks: dict[str, dict[str, object]] = field(default_factory=dict)
    from_types: dict[str, str] = field(default_factory=dict)
    """By check, the expectation that it came from."""
    warnings: list[str] = field(default_factory=list)

    def take(self, expectation: object, number: int) -> None:
        if not isinstance(expectation, Mapping):
            self.warnings.append(f"expectation {number} was left out: it is not an object")
            return
        kind = str(expectation.get("type") or expectation.get("expectation_type"))
        kwargs = expectation.get("kwargs")
        asked = _Asked(type=kind, kwargs=kwargs if isinstance(kwargs, Mapping) else {})
        where = f"expectation {number}, {kind}" + _of_columns(asked.kwargs)
        try:
            self._convert(asked, expectation)
            self.warnings += [f"{where}: {note}" for note in asked.notes]
        except Untold as untold:
            self.warnings.append(f"{where} was left out: {untold}")

    def _convert(self, asked: _Asked, expectation: Mapping[str, Any]) -> None:
        for key, value in asked.kwargs.items():
            if isinstance(value, Mapping) and any(str(inner).startswith("$PARAMETER") for inner in value):
                raise Untold(f"{key} is a parameter whose value is only known in a run")
        if asked.type in _WITHOUT:
            raise Untold(_WITHOUT[asked.type])
        if asked.type in ("expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"):
            self._type(asked)
            return
        convert = _CONVERT.get(asked.type)
        if convert is None:
            raise Untold("it is not one of Great Expectations' own")
        where = _where(asked)
        severity = _severity(asked, expectation)
        if self._promised(asked, where, severity, _mostly(asked)):
            return
        for check in convert(asked):
            rule = dict(check.rule)
            if where is not None:
                if "schema" in rule or "reconcile" in rule:
                    raise Untold("it looks at all rows, and has a row_condition")
                # Alone, `where` would be the rule itself.
                rule["where"] = where
            rule |= _reaction(asked, severity, on_rows=check.on_rows)
            if told := _description(expectation):
                rule["description"] = told
            self._add(check.name, rule, asked.type)

    def _promised(self, asked: _Asked, where: str | None, severity: str | None, mostly: Decimal | None) -> bool:
        """What a column can promise by itself is written there."""
        keys = {"expect_column_values_to_not_be_null": "required", "expect_column_values_to_be_unique": "unique"}
        if asked.type not in keys or where or severity or mostly is not None:
            return False
        self._column(asked.column())[keys[asked.type]] = True
        return True

    def _column(self, name: str) -> dict[str, object]:
        """What a column promises. Letter case makes no other column."""
        spelt = next((known for known in self.columns if known.lower() == name.lower()), name)
        return self.columns.setdefault(spelt, {})

    def _type(self, asked: _Asked) -> None:
        if asked.kwargs.get("row_condition"):
            raise Untold("a column has one type, whatever the row_condition")
        given = asked.texts("type_" if asked.type.endswith("of_type") else "type_list")
        told = spark_type_of(given)
        if told is None:
            raise Untold(f"there is no one Spark SQL type for {', '.join(given)}")
        if self._column(asked.column()).setdefault("type", told) != told:
            raise Untold(f"the column has another type already, and cannot be {told} too")

    def _add(self, name: str, rule: dict[str, object], kind: str) -> None:
        """Each check once, under a name of its own; that columns exist is one check."""
        if rule in self.checks.values():
            return
        if kind == "expect_column_to_exist":
            for other, before in self.checks.items():
                if self.from_types[other] == kind and {**before, "schema": ""} == {**rule, "schema": ""}:
                    columns = [*before["schema"]["columns"], *rule["schema"]["columns"]]  # type: ignore[index]
                    before["schema"] = {"columns": list(dict.fromkeys(columns))}
                    return
        name = name[:_LONG]
        free, number, taken = name, 2, {check.lower() for check in self.checks}
        while free.lower() in taken:
            free, number = f"{name}_{number}", number + 1
        self.checks[free] = rule
        self.from_types[free] = kind

    def text(self, title: str) -> str:
        lines = [remark(title)]
        if self.columns:
            lines += ["columns:", *(f"  {word(name)}: {flow(rule)}" for name, rule in self.columns.items())]
        if self.checks:
            lines.append("checks:")
        for name, rule in self.checks.items():
            lines += [f"  {remark(self.from_types[name])}", f"  {word(name)}: {flow(rule)}"]
        return "".join(f"{line}\n" for line in lines)


def _of_columns(kwargs: Mapping[str, Any]) -> str:
    named = [kwargs[key] for key in ("column", "column_A", "column_B") if isinstance(kwargs.get(key), str)]
    return f" of {', '.join(named)}" if named else ""


def _where(asked: _Asked) -> str | None:
    written = asked.kwargs.get("row_condition")
    return condition(written, asked.kwargs.get("condition_parser")) if written else None


def _severity(asked: _Asked, expectation: Mapping[str, Any]) -> str | None:
    meta = expectation.get("meta")
    given = expectation.get("severity") or (meta.get("severity") if isinstance(meta, Mapping) else None)
    if given is None:
        return None
    if str(given).lower() not in _SEVERITIES:
        asked.notes.append(f"the severity {given!r} is not known and was left out")
    return _SEVERITIES.get(str(given).lower())


def _mostly(asked: _Asked) -> Decimal | None:
    """The part of the rows that has to be fine, where that is not all of them."""
    given = asked.kwargs.get("mostly")
    if given is None or given == 1:
        return None
    if isinstance(given, bool) or not isinstance(given, int | Decimal) or not 0 < given < 1:
        raise Untold(f"mostly is {given}, with which it asks nothing")
    return Decimal(given)


def _reaction(asked: _Asked, severity: str | None, *, on_rows: bool) -> dict[str, object]:
    """What is done when it is broken. Rows that `mostly` tolerates are reported, and stay."""
    mostly = _mostly(asked)
    if mostly is None or not on_rows:
        return {"on_fail": severity} if severity else {}
    if severity == "warn":
        asked.notes.append(f"mostly {mostly} was left out: a warning is given from the first row on")
        return {"on_fail": "warn"}
    return {"on_fail": "warn", "fail_above": _per_cent(1 - mostly)}


def _per_cent(share: Decimal) -> str:
    told = (share * 100).quantize(Decimal("0.000001"), ROUND_CEILING)
    return f"{min(told, _NEARLY_ALL).normalize():f}%"


def _description(expectation: Mapping[str, Any]) -> str | None:
    meta = expectation.get("meta")
    notes = expectation.get("notes") or (meta.get("notes") if isinstance(meta, Mapping) else None)
    if isinstance(notes, Mapping):
        notes = notes.get("content")
    found = expectation.get("description") or notes
    told = " ".join(map(str, found)) if isinstance(found, list) else found
    return told.strip() if isinstance(told, str) and told.strip() else None


def _turned_round(low: object, high: object) -> bool:
    numbers = (int, Decimal)
    if isinstance(low, numbers) and isinstance(high, numbers):
        return low > high
    return isinstance(low, str) and isinstance(high, str) and low > high


def _compared(what: str, bounds: Iterable[tuple[str, object]]) -> str:
    return " AND ".join(f"{what} {sign} {sql_value(value)}" for sign, value in bounds)


def _inclusive(bounds: Sequence[tuple[str, object]]) -> dict[str, object] | None:
    """`min` and `max`, where both bounds belong to the range."""
    keys = {">=": "min", "<=": "max"}
    return {keys[sign]: value for sign, value in bounds} if all(sign in keys for sign, _ in bounds) else None


def _whole(bounds: Iterable[tuple[str, object]]) -> dict[str, int]:
    """The bounds of a count as whole numbers that belong to it. That it is not negative goes without saying."""
    told: dict[str, int] = {}
    for sign, value in bounds:
        number = Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
        if number is None or abs(number) >= _MOST:
            raise Untold(f"{value} is no number of rows, values or letters")
        low = sign.startswith(">")
        whole = int(number.to_integral_value(ROUND_CEILING if low else ROUND_FLOOR))
        if not sign.endswith("=") and whole == number:
            whole += 1 if low else -1
        if low and whole > 0:
            told["min"] = whole
        elif not low:
            told["max"] = whole
    if not told:
        raise Untold("its bounds are met by any number")
    if told.get("min", 0) > told.get("max", _MOST):
        raise Untold("it can never be met")
    return told


def _counted(name: str, key: str, body: Mapping[str, object], bounds: Mapping[str, int], sql: str) -> _Check:
    """A rule with bounds of a count. In a declaration they begin with 1: that there is none is written as SQL."""
    on_rows = key == "length"
    if bounds.get("max", 1) < 1:
        return _Check(name=name, rule={"sql" if on_rows else "expect": f"{sql} <= {bounds['max']}"}, on_rows=on_rows)
    return _Check(name=name, rule={key: {**body, **bounds}}, on_rows=on_rows)


def _required(asked: _Asked) -> Converted:
    column, mostly = asked.column(), _mostly(asked)
    if mostly is None:
        yield _Check(name=f"{column}_required", rule={"required": [column]})
    else:
        body = {"column": column, "max": _per_cent(1 - mostly)}
        yield _Check(name=f"{column}_null_rate", rule={"null_rate": body}, on_rows=False)


def _empty(asked: _Asked) -> Converted:
    yield _Check(name=f"{asked.column()}_empty", rule={"sql": f"{asked.sql()} IS NULL"})


def _unique(asked: _Asked) -> Converted:
    yield _Check(name=f"{asked.column()}_unique", rule={"unique": asked.column()})


def _compound(asked: _Asked) -> Converted:
    columns = asked.columns()
    if asked.kwargs.get("ignore_row_if", "any_value_is_missing") != "any_value_is_missing":
        asked.notes.append("rows in which one of the columns has no value are not compared")
    yield _Check(name=f"{'_'.join(columns)[:200]}_unique", rule={"unique": columns})


def _in(asked: _Asked) -> Converted:
    body = {"column": asked.column(), "values": asked.values()}
    yield _Check(name=f"{asked.column()}_in", rule={"in": body})


def _not_in(asked: _Asked) -> Converted:
    values = ", ".join(map(sql_value, asked.values()))
    yield _Check(name=f"{asked.column()}_not_in", rule={"sql": f"{asked.sql()} NOT IN ({values})"})


def _contains(asked: _Asked) -> Converted:
    each = [f"count_if({asked.sql()} = {sql_value(value)}) > 0" for value in asked.values()]
    yield _Check(name=f"{asked.column()}_contains", rule={"expect": " AND ".join(each)}, on_rows=False)


def _equals_set(asked: _Asked) -> Converted:
    yield from _in(asked)
    yield from _contains(asked)


def _most_common(asked: _Asked) -> Converted:
    values = ", ".join(map(sql_value, asked.values()))
    asked.notes.append("of several values that are equally frequent, only one is looked at")
    rule = {"expect": f"mode({asked.sql()}) IN ({values})"}
    yield _Check(name=f"{asked.column()}_most_common", rule=rule, on_rows=False)


def _between(asked: _Asked) -> Converted:
    bounds, column = asked.bounds(), asked.column()
    inclusive = _inclusive(bounds)
    if inclusive:
        yield _Check(name=f"{column}_range", rule={"range": {"column": column, **inclusive}})
    else:
        yield _Check(name=f"{column}_range", rule={"sql": _compared(asked.sql(), bounds)})


def _lengths(asked: _Asked) -> Converted:
    body, sql = {"column": asked.column()}, f"char_length({asked.sql()})"
    yield _counted(f"{asked.column()}_length", "length", body, _whole(asked.bounds()), sql)


def _length(asked: _Asked) -> Converted:
    same = _Asked(
        type=asked.type,
        kwargs={**asked.kwargs, "min_value": asked.kwargs.get("value"), "max_value": asked.kwargs.get("value")},
    )
    yield from _lengths(same)


def _regex(asked: _Asked) -> Converted:
    body = {"column": asked.column(), "matches": _java(asked.text("regex"))}
    yield _Check(name=f"{asked.column()}_pattern", rule={"pattern": body})


def _java(pattern: str) -> str:
    java = java_regex(pattern)
    if java is None:
        raise Untold(f"Java cannot read the regular expression {pattern}")
    return java


def _any_or_all(asked: _Asked, key: str, operator: str, *, negated: bool, name: str) -> Converted:
    """Several patterns: any of them has to be there, all of them, or none."""
    patterns = [_java(pattern) if operator == "RLIKE" else pattern for pattern in asked.texts(key)]
    joined = " AND " if asked.kwargs.get("match_on") == "all" and not negated else " OR "
    told = joined.join(f"{asked.sql()} {operator} {literal(pattern)}" for pattern in patterns)
    yield _Check(name=f"{asked.column()}_{name}", rule={"sql": f"NOT ({told})" if negated else told})


def _patterns(key: str, operator: str, *, negated: bool = False) -> Convert:
    name = ("not_" if negated else "") + ("like" if operator == "LIKE" else "pattern")
    return lambda asked: _any_or_all(asked, key, operator, negated=negated, name=name)


def _aggregate(function: str, name: str) -> Convert:
    """An aggregate that has no key of its own."""

    def convert(asked: _Asked) -> Converted:
        told = _compared(function.format(asked.sql()), asked.bounds())
        yield _Check(name=f"{asked.column()}_{name}", rule={"expect": told}, on_rows=False)

    return convert


def _bounded(key: str, function: str) -> Convert:
    """`sum` and `mean`, which have keys of their own."""

    def convert(asked: _Asked) -> Converted:
        bounds = asked.bounds()
        yield _within(asked, f"{asked.column()}_{key}", key, {}, function, bounds)

    return convert


def _within(
    asked: _Asked, name: str, key: str, more: Mapping[str, object], function: str, bounds: list[tuple[str, object]]
) -> _Check:
    inclusive = _inclusive(bounds)
    numbers = not any(isinstance(value, str | bool) for _, value in bounds)
    rule: dict[str, object] = {key: {"column": asked.column(), **more, **(inclusive or {})}}
    if not inclusive or not numbers:
        rule = {"expect": _compared(function.format(asked.sql()), bounds)}
    return _Check(name=name, rule=rule, on_rows=False)


def _median(asked: _Asked) -> Converted:
    more = {"at": Decimal("0.5")}
    yield _within(asked, f"{asked.column()}_median", "quantile", more, "percentile({}, 0.5)", asked.bounds())


def _quantiles(asked: _Asked) -> Converted:
    given = asked.kwargs.get("quantile_ranges")
    given = given if isinstance(given, Mapping) else {}
    quantiles, ranges = given.get("quantiles"), given.get("value_ranges")
    if not isinstance(quantiles, Sequence) or not isinstance(ranges, Sequence) or len(quantiles) != len(ranges):
        raise Untold("its quantile_ranges have no quantiles and value_ranges")
    if asked.kwargs.get("allow_relative_error"):
        asked.notes.append("allow_relative_error was left out")
    for at, bound in zip(quantiles, ranges, strict=True):
        if not isinstance(bound, Sequence) or len(bound) != 2:
            raise Untold(f"{bound} is not a range of values")
        low, high = bound
        if low is None and high is None:
            continue
        bounds = _Asked(type=asked.type, kwargs={"min_value": low, "max_value": high}).bounds()
        name = f"{asked.column()}_quantile"
        if at in (0, 1):
            told = _compared(f"{'max' if at else 'min'}({asked.sql()})", bounds)
            yield _Check(name=name, rule={"expect": told}, on_rows=False)
        elif isinstance(at, Decimal) and Decimal("0.000001") <= at < 1 and at == round(at, 6):
            yield _within(asked, name, "quantile", {"at": at}, f"percentile({{}}, {at})", bounds)
        else:
            raise Untold(f"{at} is not a quantile")


def _distinct(asked: _Asked) -> Converted:
    column, bounds = asked.column(), _whole(asked.bounds())
    check = _counted(f"{column}_distinct", "distinct", {"column": column}, bounds, f"count(DISTINCT {asked.sql()})")
    exact = {key: {**body, "exact": True} if isinstance(body, Mapping) else body for key, body in check.rule.items()}
    yield _Check(name=check.name, rule=exact, on_rows=False)


def _part(counted: str, whole: str, name: str) -> Convert:
    """A part of the rows, written without a division: there may be none."""

    def convert(asked: _Asked) -> Converted:
        column = asked.sql()
        told = [
            f"{counted.format(column)} {sign} {sql_value(value)} * {whole.format(column)}"
            for sign, value in asked.bounds()
        ]
        yield _Check(name=f"{asked.column()}_{name}", rule={"expect": " AND ".join(told)}, on_rows=False)

    return convert


def _row_count(asked: _Asked) -> Converted:
    yield _counted("row_count", "row_count", {}, _whole(asked.bounds()), "count(*)")


def _rows_equal(asked: _Asked) -> Converted:
    value = asked.kwargs.get("value")
    same = {"min_value": value, "max_value": value}
    yield from _row_count(_Asked(type=asked.type, kwargs=same))


def _other_table(asked: _Asked) -> Converted:
    other = TableName.parse(str(asked.kwargs.get("other_table_name")))
    if other is None:
        raise Untold("the other table is not named as layer.table; a check `reconcile` compares with an input")
    asked.notes.append("the rows of each batch are compared with the input rows that it was made from")
    yield _Check(name="row_count_of_input", rule={"reconcile": {"table": str(other), "own": "count(*)"}}, on_rows=False)


def _exists(asked: _Asked) -> Converted:
    if asked.kwargs.get("column_index") is not None:
        asked.notes.append("column_index was left out: the place of a column is not looked at")
    yield _Check(name="columns_exist", rule={"schema": {"columns": [asked.column()]}}, on_rows=False)


def _column_list(asked: _Asked) -> Converted:
    body = {"columns": asked.columns(), "exact": True}
    yield _Check(name="columns_in_order", rule={"schema": body}, on_rows=False)


def _column_set(asked: _Asked) -> Converted:
    columns = asked.columns("column_set")
    if asked.kwargs.get("exact_match", True) is not False:
        asked.notes.append("further columns are not refused by this check; `contract: strict` refuses them")
    yield _Check(name="columns_exist", rule={"schema": {"columns": columns}}, on_rows=False)


def _pair(operator: Callable[[_Asked], str], name: str) -> Convert:
    def convert(asked: _Asked) -> Converted:
        a, b = asked.sql("column_A"), asked.sql("column_B")
        told = f"{a} {operator(asked)} {b}"
        match asked.kwargs.get("ignore_row_if") or "both_values_are_missing":
            case "both_values_are_missing":
                told = f"({a} IS NULL) = ({b} IS NULL) AND {told}"
            case "never":
                told = f"coalesce({told}, false)"
        yield _Check(name=f"{asked.column('column_A')}_{name}_{asked.column('column_B')}", rule={"sql": told})

    return convert


def _pair_in_set(asked: _Asked) -> Converted:
    a, b = asked.sql("column_A"), asked.sql("column_B")
    pairs = asked.kwargs.get("value_pairs_set")
    if not isinstance(pairs, Sequence) or not pairs or any(not isinstance(p, list) or len(p) != 2 for p in pairs):
        raise Untold("its value_pairs_set has no pairs")
    each = [f"({a} <=> {_or_null(first)} AND {b} <=> {_or_null(second)})" for first, second in pairs]
    ignored = {
        "both_values_are_missing": [f"({a} IS NULL AND {b} IS NULL)"],
        "either_value_is_missing": [f"{a} IS NULL", f"{b} IS NULL"],
    }
    first = ignored.get(asked.kwargs.get("ignore_row_if") or "both_values_are_missing", [])
    name = f"{asked.column('column_A')}_{asked.column('column_B')}_in"
    yield _Check(name=name, rule={"sql": " OR ".join([*first, *each])})


def _or_null(value: object) -> str:
    return "NULL" if value is None else sql_value(value)


def _sum_of_columns(asked: _Asked) -> Converted:
    columns = asked.columns()
    names = [quoted(column) for column in columns]
    total = asked.kwargs.get("sum_total")
    if isinstance(total, str | bool) or not isinstance(total, int | Decimal):
        raise Untold("it has no sum_total")
    told = f"{' + '.join(names)} = {sql_value(total)}"
    match asked.kwargs.get("ignore_row_if") or "all_values_are_missing":
        case "all_values_are_missing":
            told = f"coalesce({told}, {' AND '.join(f'{name} IS NULL' for name in names)})"
        case "never":
            told = f"coalesce({told}, false)"
    yield _Check(name=f"{'_'.join(columns)[:200]}_sum", rule={"sql": told})


def _different(asked: _Asked) -> Converted:
    columns = asked.columns()
    names = [quoted(column) for column in columns]
    each = [f"{a} <> {b}" for number, a in enumerate(names) for b in names[number + 1 :]]
    if not each:
        raise Untold("one column alone is always different")
    yield _Check(name=f"{'_'.join(columns)[:200]}_differ", rule={"sql": " AND ".join(each)})


def _parseable(asked: _Asked) -> Converted:
    asked.notes.append("Spark reads fewer spellings of times than dateutil")
    told = f"{asked.sql()} IS NULL OR try_cast({asked.sql()} AS timestamp) IS NOT NULL"
    yield _Check(name=f"{asked.column()}_time", rule={"sql": told})


def _formatted(asked: _Asked) -> Converted:
    written = asked.text("strftime_format")
    pattern = spark_format(written)
    if pattern is None:
        raise Untold(f"Spark cannot parse the format {written}")
    told = f"{asked.sql()} IS NULL OR try_to_timestamp({asked.sql()}, {literal(pattern)}) IS NOT NULL"
    yield _Check(name=f"{asked.column()}_format", rule={"sql": told})


def _json(asked: _Asked) -> Converted:
    column = asked.sql()
    told = f"{column} IS NULL OR trim({column}) = 'null' OR get_json_object({column}, '$') IS NOT NULL"
    yield _Check(name=f"{asked.column()}_json", rule={"sql": told})


def _unexpected_rows(asked: _Asked) -> Converted:
    """`SELECT * FROM {batch} WHERE …`: rows for which the condition is true are not wanted."""
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from lakesmith.sqlproof.nesting import TooDeep, check_text

    query = asked.text("unexpected_rows_query")
    try:
        check_text(query)
        tree = sqlglot.parse_one(query.replace("{batch}", "batch__"), dialect="spark")
    except (SqlglotError, TooDeep, RecursionError):
        raise Untold(f"its query cannot be read: {query}") from None
    said = {key for key, value in tree.args.items() if value}
    table = tree.find(exp.Table)
    plain = isinstance(tree, exp.Select) and said <= {"kind", "expressions", "from", "from_", "where"}
    where = tree.args.get("where")
    if (
        not plain
        or where is None
        or table is None
        or table.name != "batch__"
        or len(list(tree.find_all(exp.Query))) > 1
    ):
        raise Untold("its query is more than SELECT … FROM {batch} WHERE …")
    yield _Check(name="unexpected_rows", rule={"sql": f"NOT ({where.this.sql(dialect='spark')})"})


_CONVERT: Mapping[str, Convert] = {
    "expect_column_values_to_not_be_null": _required,
    "expect_column_values_to_be_null": _empty,
    "expect_column_values_to_be_unique": _unique,
    "expect_compound_columns_to_be_unique": _compound,
    "expect_column_values_to_be_in_set": _in,
    "expect_column_values_to_not_be_in_set": _not_in,
    "expect_column_distinct_values_to_be_in_set": _in,
    "expect_column_distinct_values_to_contain_set": _contains,
    "expect_column_distinct_values_to_equal_set": _equals_set,
    "expect_column_most_common_value_to_be_in_set": _most_common,
    "expect_column_values_to_be_between": _between,
    "expect_column_value_lengths_to_be_between": _lengths,
    "expect_column_value_lengths_to_equal": _length,
    "expect_column_values_to_match_regex": _regex,
    "expect_column_values_to_match_regex_list": _patterns("regex_list", "RLIKE"),
    "expect_column_values_to_not_match_regex": _patterns("regex", "RLIKE", negated=True),
    "expect_column_values_to_not_match_regex_list": _patterns("regex_list", "RLIKE", negated=True),
    "expect_column_values_to_match_like_pattern": _patterns("like_pattern", "LIKE"),
    "expect_column_values_to_match_like_pattern_list": _patterns("like_pattern_list", "LIKE"),
    "expect_column_values_to_not_match_like_pattern": _patterns("like_pattern", "LIKE", negated=True),
    "expect_column_values_to_not_match_like_pattern_list": _patterns("like_pattern_list", "LIKE", negated=True),
    "expect_column_values_to_be_dateutil_parseable": _parseable,
    "expect_column_values_to_match_strftime_format": _formatted,
    "expect_column_values_to_be_json_parseable": _json,
    "expect_column_min_to_be_between": _aggregate("min({})", "min"),
    "expect_column_max_to_be_between": _aggregate("max({})", "max"),
    "expect_column_stdev_to_be_between": _aggregate("stddev_samp({})", "stdev"),
    "expect_column_mean_to_be_between": _bounded("mean", "avg({})"),
    "expect_column_sum_to_be_between": _bounded("sum", "sum({})"),
    "expect_column_median_to_be_between": _median,
    "expect_column_quantile_values_to_be_between": _quantiles,
    "expect_column_unique_value_count_to_be_between": _distinct,
    "expect_column_proportion_of_unique_values_to_be_between": _part("count(DISTINCT {})", "count({})", "unique_part"),
    "expect_column_proportion_of_non_null_values_to_be_between": _part("count({})", "count(*)", "filled_part"),
    "expect_column_to_exist": _exists,
    "expect_table_columns_to_match_ordered_list": _column_list,
    "expect_table_columns_to_match_set": _column_set,
    "expect_table_row_count_to_be_between": _row_count,
    "expect_table_row_count_to_equal": _rows_equal,
    "expect_table_row_count_to_equal_other_table": _other_table,
    "expect_column_pair_values_a_to_be_greater_than_b": _pair(
        lambda asked: ">=" if asked.kwargs.get("or_equal") else ">", "over"
    ),
    "expect_column_pair_values_to_be_equal": _pair(lambda _: "=", "equals"),
    "expect_column_pair_values_to_be_in_set": _pair_in_set,
    "expect_multicolumn_sum_to_equal": _sum_of_columns,
    "expect_select_column_values_to_be_unique_within_record": _different,
    "expect_multicolumn_values_to_be_unique": _different,
    "unexpected_rows_expectation": _unexpected_rows,
}
