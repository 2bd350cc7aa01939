"""Read a suite of Great Expectations, of 0.x and of 1.x, as columns and checks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from lakesmith.declare import TableName
from lakesmith.errors import UsageError
from lakesmith.exchange.great_expectations.converters import CONVERTERS, NOT_CONVERTED
from lakesmith.exchange.great_expectations.expectation import Expectation, percent_text, required_share
from lakesmith.exchange.great_expectations.row_conditions import NotConvertible, condition
from lakesmith.exchange.great_expectations.types import spark_type_of
from lakesmith.load.yaml_writer import yaml_block, yaml_comment

_LONG = 240
_SEVERITIES = {"critical": "fail", "warning": "warn", "info": "warn"}


@dataclass(frozen=True, slots=True)
class ImportedSuite:
    """The columns and checks of a suite, and what could not be converted."""

    text: str
    """YAML: `columns` and `checks` of a table."""
    warnings: tuple[str, ...]
    """Expectations that were not converted, or whose check differs slightly."""


def is_suite(document: object) -> bool:
    """Whether a JSON document is a suite."""
    return (
        isinstance(document, Mapping)
        and isinstance(document.get("expectations"), Sequence)
        and ("name" in document or "expectation_suite_name" in document)
    )


def read_suite(text: str, table_name: TableName) -> ImportedSuite:
    """Return a suite as columns and checks of a table. Each expectation is converted or reported in a warning."""
    try:
        document = json.loads(text, parse_float=Decimal, parse_constant=lambda word: word)
    except (ValueError, RecursionError) as error:
        raise UsageError("bad-suite", f"the suite is not JSON: {error}", hint="give the JSON file of a suite") from None
    if not is_suite(document):
        raise UsageError(
            "bad-suite",
            "the JSON is not a suite of Great Expectations",
            hint='a suite has "name" (or "expectation_suite_name") and "expectations"',
        )
    suite = _Suite(table=table_name)
    for number, each in enumerate(document["expectations"], start=1):
        suite.add(each, number)
    name = document.get("name") or document.get("expectation_suite_name")
    return ImportedSuite(
        suite.text(f"From the suite {name} of Great Expectations, for {table_name}."), tuple(suite.warnings)
    )


@dataclass(slots=True, kw_only=True)
class _Suite:
    """Collects the columns and checks of a suite."""

    table: TableName
    columns: dict[str, dict[str, object]] = field(default_factory=dict)
    checks: dict[str, dict[str, object]] = field(default_factory=dict)
    from_types: dict[str, str] = field(default_factory=dict)
    """The type of the expectation that each check came from."""
    warnings: list[str] = field(default_factory=list)

    def add(self, document: object, number: int) -> None:
        if not isinstance(document, Mapping):
            self.warnings.append(f"expectation {number} was not converted: it is not an object")
            return
        kind = str(document.get("type") or document.get("expectation_type"))
        kwargs = document.get("kwargs")
        expectation = Expectation(type=kind, kwargs=kwargs if isinstance(kwargs, Mapping) else {})
        where = f"expectation {number}, {kind}" + _of_columns(expectation.kwargs)
        try:
            self._convert(expectation, document)
            self.warnings += [f"{where}: {note}" for note in expectation.notes]
        except NotConvertible as reason:
            self.warnings.append(f"{where} was not converted: {reason}")

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
        where = _where(expectation)
        severity = _severity(expectation, document)
        if self._promised(expectation, where, severity, required_share(expectation)):
            return
        for check in convert(expectation):
            rule = dict(check.rule)
            if where is not None:
                if "schema" in rule or "reconcile" in rule:
                    raise NotConvertible("it applies to all rows, but has a row_condition")
                # `where` comes after the rule: alone it would be the rule.
                rule["where"] = where
            rule |= _reaction(expectation, severity, on_rows=check.on_rows)
            if description := _description(document):
                rule["description"] = description
            self._add(check.name, rule, expectation.type)

    def _promised(
        self, expectation: Expectation, where: str | None, severity: str | None, share: Decimal | None
    ) -> bool:
        """Write `required` and `unique` as promises of the column, where the check has no options."""
        keys = {"expect_column_values_to_not_be_null": "required", "expect_column_values_to_be_unique": "unique"}
        if expectation.type not in keys or where or severity or share is not None:
            return False
        self._column(expectation.column())[keys[expectation.type]] = True
        return True

    def _column(self, name: str) -> dict[str, object]:
        """Return the keys of a column. Names are compared without case."""
        existing = next((each for each in self.columns if each.lower() == name.lower()), name)
        return self.columns.setdefault(existing, {})

    def _type(self, expectation: Expectation) -> None:
        if expectation.kwargs.get("row_condition"):
            raise NotConvertible("a column has one type; row_condition does not apply")
        given = expectation.texts("type_" if expectation.type.endswith("of_type") else "type_list")
        type = spark_type_of(given)
        if type is None:
            raise NotConvertible(f"there is no one Spark SQL type for {', '.join(given)}")
        if self._column(expectation.column()).setdefault("type", type) != type:
            raise NotConvertible(f"the column has another type already, so it cannot be {type} too")

    def _add(self, name: str, rule: dict[str, object], kind: str) -> None:
        """Add a check once, under a unique name. All expected columns become one check."""
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
        lines = [yaml_comment(title)]
        if self.columns:
            lines += yaml_block("columns", self.columns)
        if self.checks:
            lines += yaml_block("checks", self.checks, self.from_types)
        return "".join(f"{line}\n" for line in lines)


def _of_columns(kwargs: Mapping[str, Any]) -> str:
    named = [kwargs[key] for key in ("column", "column_A", "column_B") if isinstance(kwargs.get(key), str)]
    return f" of {', '.join(named)}" if named else ""


def _where(expectation: Expectation) -> str | None:
    written = expectation.kwargs.get("row_condition")
    return condition(written, expectation.kwargs.get("condition_parser")) if written else None


def _severity(expectation: Expectation, document: Mapping[str, Any]) -> str | None:
    meta = document.get("meta")
    given = document.get("severity") or (meta.get("severity") if isinstance(meta, Mapping) else None)
    if given is None:
        return None
    if str(given).lower() not in _SEVERITIES:
        expectation.notes.append(f"the severity {given!r} is unknown and was ignored")
    return _SEVERITIES.get(str(given).lower())


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
    found = document.get("description") or notes
    text = " ".join(map(str, found)) if isinstance(found, list) else found
    return text.strip() if isinstance(text, str) and text.strip() else None
