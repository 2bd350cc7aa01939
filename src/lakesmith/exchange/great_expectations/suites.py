"""Read a suite of Great Expectations, of 0.x and of 1.x, as columns and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from lakesmith.declare.checks import RowRule
from lakesmith.declare.names import unique_name
from lakesmith.exchange.great_expectations.converters import CONVERTERS, NOT_CONVERTED
from lakesmith.exchange.great_expectations.expectation import Expectation, percent_text, required_share
from lakesmith.exchange.great_expectations.row_conditions import NotConvertible, condition
from lakesmith.exchange.great_expectations.types import spark_type_of
from lakesmith.exchange.request import ImportRequest, ImportResult, table_name
from lakesmith.load.check_models import RULE_KEYS
from lakesmith.load.yaml_writer import yaml_block, yaml_comment

_LONG = 240
_SEVERITIES = {"critical": "fail", "warning": "warn", "info": "warn"}
_PROMISES = {"expect_column_values_to_not_be_null": "required", "expect_column_values_to_be_unique": "unique"}
"""Expectations that are promises of a column where the check has no options."""
_ROW_RULES = [key for rule, key in RULE_KEYS.items() if rule in get_args(RowRule)]


def is_suite(document: object) -> bool:
    """Whether a JSON document is a suite."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("expectations"), Sequence)
        and ("name" in document or "expectation_suite_name" in document)
    )


def read_suite(document: Mapping[str, Any], request: ImportRequest) -> ImportResult:
    """Return a suite as columns and checks of a table. Each expectation is converted or reported in a warning."""
    suite = _Suite()
    title = document.get("name") or document.get("expectation_suite_name")
    table = table_name(request, title, warnings=suite.warnings)
    for number, each in enumerate(document["expectations"], start=1):
        suite.add(each, number)
    return ImportResult(
        text=suite.text(f"From the suite {title} of Great Expectations, for {table}."),
        warnings=tuple(suite.warnings),
        file=f"{table.layer}/{table.name}.yml",
        complete=False,
    )


@dataclass(slots=True, kw_only=True)
class _Suite:
    """Collects the columns and checks of a suite."""

    columns: dict[str, dict[str, object]] = field(default_factory=dict)
    checks: dict[str, dict[str, object]] = field(default_factory=dict)
    from_types: dict[str, str] = field(default_factory=dict)
    """The type of the expectation that each check came from."""
    warnings: list[str] = field(default_factory=list)

    def add(self, document: object, number: int) -> None:
        if not isinstance(document, Mapping):
            self.warnings.append(f"expectation {number} was not converted: it is not an object")
            return
        type = str(document.get("type") or document.get("expectation_type"))
        kwargs = document.get("kwargs")
        expectation = Expectation(type=type, kwargs=kwargs if isinstance(kwargs, Mapping) else {})
        columns = [expectation.kwargs.get(key) for key in ("column", "column_A", "column_B")]
        names = ", ".join(name for name in columns if isinstance(name, str))
        subject = f"expectation {number}, {type}" + (f" of {names}" if names else "")
        try:
            self._convert(expectation, document)
            self.warnings += [f"{subject}: {note}" for note in expectation.notes]
        except NotConvertible as reason:
            self.warnings.append(f"{subject} was not converted: {reason}")

    def _convert(self, expectation: Expectation, document: Mapping[str, Any]) -> None:
        for key, value in expectation.kwargs.items():
            if isinstance(value, Mapping) and any(str(inner).startswith("$PARAMETER") for inner in value):
                raise NotConvertible(f"{key} is a parameter, which has a value only in a run")
        if expectation.type in NOT_CONVERTED:
            raise NotConvertible(NOT_CONVERTED[expectation.type])
        if expectation.type in ("expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"):
            self._type(expectation)
            return
        convert = CONVERTERS.get(expectation.type)
        if convert is None:
            raise NotConvertible("it is not an expectation of Great Expectations itself")
        written = expectation.kwargs.get("row_condition")
        where = condition(written, expectation.kwargs.get("condition_parser")) if written else None
        severity = _severity(expectation, document)
        promise = _PROMISES.get(expectation.type)
        if promise and not where and not severity and required_share(expectation) is None:
            self._column(expectation.column())[promise] = True
            return
        for name, keys in convert(expectation):
            rule = dict(keys)
            on_rows = next(iter(rule)) in _ROW_RULES
            if where is not None:
                if "schema" in rule or "reconcile" in rule:
                    raise NotConvertible("it applies to all rows, but has a row_condition")
                # `where` comes after the rule: alone it would be the rule.
                rule["where"] = where
            rule |= _reaction(expectation, severity, on_rows=on_rows)
            if description := _description(document):
                rule["description"] = description
            self._add(name, rule, expectation.type)

    def _column(self, name: str) -> dict[str, object]:
        """Return the keys of a column. Names are compared without case."""
        existing = next((each for each in self.columns if each.lower() == name.lower()), name)
        return self.columns.setdefault(existing, {})

    def _type(self, expectation: Expectation) -> None:
        if expectation.kwargs.get("row_condition"):
            raise NotConvertible("a column has one type; row_condition does not apply")
        names = expectation.texts("type_" if expectation.type.endswith("of_type") else "type_list")
        type = spark_type_of(names)
        if type is None:
            raise NotConvertible(f"there is no one Spark SQL type for {', '.join(names)}")
        if self._column(expectation.column()).setdefault("type", type) != type:
            raise NotConvertible(f"the column has another type already, so it cannot be {type} too")

    def _add(self, name: str, rule: dict[str, object], type: str) -> None:
        """Add a check once, under a unique name. All expected columns become one check."""
        if rule in self.checks.values():
            return
        if type == "expect_column_to_exist":
            for other, before in self.checks.items():
                if self.from_types[other] == type and {**before, "schema": ""} == {**rule, "schema": ""}:
                    columns = [*before["schema"]["columns"], *rule["schema"]["columns"]]  # type: ignore[index]
                    before["schema"] = {"columns": list(dict.fromkeys(columns))}
                    return
        name = unique_name(name[:_LONG], self.checks)
        self.checks[name] = rule
        self.from_types[name] = type

    def text(self, title: str) -> str:
        lines = [yaml_comment(title)]
        if self.columns:
            lines += yaml_block("columns", self.columns)
        if self.checks:
            lines += yaml_block("checks", self.checks, self.from_types)
        return "".join(f"{line}\n" for line in lines)


def _severity(expectation: Expectation, document: Mapping[str, Any]) -> str | None:
    meta = document.get("meta")
    severity = document.get("severity") or (meta.get("severity") if isinstance(meta, Mapping) else None)
    if severity is not None and str(severity).lower() not in _SEVERITIES:
        expectation.notes.append(f"the severity {severity!r} is unknown and was ignored")
    return _SEVERITIES.get(str(severity).lower())


def _reaction(expectation: Expectation, severity: str | None, *, on_rows: bool) -> dict[str, object]:
    """Return `on_fail` and `fail_above`. Rows that `mostly` tolerates are reported and stay in the table."""
    share = required_share(expectation)
    if share is None or not on_rows:
        return {"on_fail": severity} if severity else {}
    if severity == "warn":
        expectation.notes.append(f"mostly {share} was ignored: the check warns from the first row on")
        return {"on_fail": "warn"}
    return {"on_fail": "warn", "fail_above": percent_text(1 - share)}


def _description(document: Mapping[str, Any]) -> str | None:
    meta = document.get("meta")
    notes = document.get("notes") or (meta.get("notes") if isinstance(meta, Mapping) else None)
    if isinstance(notes, Mapping):
        notes = notes.get("content")
    description = document.get("description") or notes
    text = " ".join(map(str, description)) if isinstance(description, list) else description
    return text.strip() if isinstance(text, str) and text.strip() else None
