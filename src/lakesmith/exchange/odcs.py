"""Export a table's contract as a document of the Open Data Contract Standard, version 3."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from lakesmith.declare import checks
from lakesmith.declare.spark_type import ArrayType, DecimalType, MapType, SimpleType, SparkType, StructType, parse_type
from lakesmith.declare.table import Column, Table
from lakesmith.errors import InfrastructureError
from lakesmith.exchange.declaration_keys import (
    Keys,
    contract_keys,
    duration_text,
    exact_number,
    given,
    limit_text,
    rule_keys,
    written_keys,
)
from lakesmith.exchange.odcs_sql import VENDOR, batch_condition, batch_query, row_condition, row_query
from lakesmith.load.yaml_writer import yaml_document

API_VERSION = "v3.2.0"
_LOGICAL = {
    "bigint": "integer",
    "int": "integer",
    "smallint": "integer",
    "tinyint": "integer",
    "string": "string",
    "binary": "string",
    "boolean": "boolean",
    "double": "number",
    "float": "number",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
}
_SEVERITIES = {"warn": "warning", "quarantine": "error", "fail": "error"}


def library() -> Any:
    """Return the standard's models, or raise when the library is missing."""
    try:
        from open_data_contract_standard import model
    except ModuleNotFoundError as error:
        what = f"documents of the Open Data Contract Standard need the library {error.name}"
        raise InfrastructureError("missing-library", what, hint="pip install 'lakesmith[contracts]'") from error
    return model


def odcs_text(table: Table, *, lake: str) -> str:
    """Return the document as YAML."""
    rules: dict[str | None, list[Keys]] = {None: [], **{column.name: [] for column in table.columns}}
    for column in table.columns:
        if column.check is not None:
            rules[column.name].append(_row_sql(checks.RowSql(condition=column.check), None))
    for check in table.checks:
        column_name, rule = _rule(check, rules)
        rules[column_name].append(rule)
    keys = [column.name for column in table.columns if column.key]
    properties = [_column(column, table, keys, rules[column.name]) for column in table.columns]
    terms = contract_keys(table.contract, table.terms)
    version = terms.pop("version", None)
    document = library().OpenDataContractStandard(
        apiVersion=API_VERSION,
        kind="DataContract",
        id=f"{lake}:{table.name}",
        name=str(table.name),
        version=version or "1",
        status="active",
        description={"purpose": table.description} if table.description else None,
        schema=[
            {
                "name": table.name.name,
                "physicalName": str(table.name),
                "physicalType": "table",
                "logicalType": "object",
                "description": table.description,
                "tags": list(table.tags) or None,
                "properties": properties or None,
                "quality": rules[None] or None,
            }
        ],
        team={"name": table.owner} if table.owner else None,
        slaProperties=_freshness(table.freshness),
        customProperties=_custom(
            contract=terms.pop("mode"),
            versionCounted=None if version else True,
            quarantine=written_keys(table.quarantine) or None,
            **terms,
        ),
    )
    return yaml_document(document.model_dump(exclude_none=True, by_alias=True))


def _freshness(seconds: float | None) -> list[Keys] | None:
    text = duration_text(seconds)
    if text is None:
        return None
    return [{"property": "freshness", "value": exact_number(Decimal(text[:-1])), "unit": text[-1]}]


def _column(column: Column, table: Table, keys: list[str], quality: list[Keys]) -> Keys:
    # The standard's JSON Schema requires a type, unlike its text.
    typed: Keys = _typed(parse_type(column.type)) if column.type else {"logicalType": "string"}
    options = _options(column, table, typed["logicalType"]) if column.type else {}
    if options:
        typed["logicalTypeOptions"] = {**typed.get("logicalTypeOptions", {}), **options}
    return dict(
        name=column.name,
        **typed,
        required=column.required or None,
        unique=column.unique or None,
        primaryKey=column.key or None,
        primaryKeyPosition=keys.index(column.name) + 1 if column.key else None,
        tags=list(column.tags) or None,
        description=column.description,
        deprecated=True if column.deprecated else None,
        customProperties=_custom(
            untyped=None if column.type else True,
            since=column.since,
            deprecatedBecause=column.deprecated,
            currency=column.currency,
            timezone=column.timezone,
        ),
        quality=quality or None,
    )


def _typed(type: SparkType) -> Keys:
    """Return the standard's fields for a type."""
    match type:
        case SimpleType():
            fields: Keys = {"logicalType": _LOGICAL[type.name]}
            if type.name.startswith("timestamp"):
                fields["logicalTypeOptions"] = {"timezone": type.name == "timestamp"}
        case DecimalType():
            fields = {"logicalType": "number"}
        case ArrayType():
            fields = {"logicalType": "array", "items": _typed(type.element)}
        case MapType():
            fields = {"logicalType": "map", "map": {"key": _typed(type.key), "value": _typed(type.value)}}
        case StructType():
            properties = [{"name": name, **_typed(each)} for name, each in type.fields]
            fields = {"logicalType": "object", "properties": properties}
    return fields | {"physicalType": str(type)}


def _options(column: Column, table: Table, logical: str) -> Keys:
    """Return bounds as options of the type. The rule itself is among the quality rules too, with its name."""
    options: Keys = {}
    for check in table.checks:
        rule = check.rule
        if not isinstance(rule, checks.Range | checks.Length) or rule.column != column.name:
            continue
        if check.where or check.on_fail == "warn" or check.fail_above:
            continue
        least, most = ("minimum", "maximum") if isinstance(rule, checks.Range) else ("minLength", "maxLength")
        allowed = (str,) if logical in ("date", "timestamp") else (int, Decimal)
        bounds = given(**{least: rule.min, most: rule.max})
        fits = all(isinstance(value, allowed) and not isinstance(value, bool) for value in bounds.values())
        bounded = ("date", "timestamp", "number", "integer") if isinstance(rule, checks.Range) else ("string",)
        if fits and logical in bounded and least not in options and most not in options:
            options |= bounds
    return options


def _rule(check: checks.Check, columns: Collection[str | None]) -> tuple[str | None, Keys]:
    """Return the check as a rule of the standard, with its column if it has one."""
    rule = check.rule
    column: str | None = None
    match rule:
        # The standard's metrics apply to all rows.
        case _ if check.where and not isinstance(rule, checks.RowSql | checks.BatchSql):
            fields = _custom_rule(rule)
        case checks.Required(columns=(only,)) if only in columns:
            column, fields = only, _library("nullValues", mustBe=0)
        case checks.NullRate() if rule.column in columns:
            percent = exact_number(Decimal(repr(rule.max)) * 100)
            column, fields = rule.column, _library("nullValues", unit="percent", mustBeLessOrEqualTo=percent)
        case checks.In() if rule.column in columns:
            column, fields = rule.column, _library("invalidValues", {"validValues": list(rule.values)}, mustBe=0)
        case checks.Pattern() if rule.column in columns:
            column, fields = rule.column, _library("invalidValues", {"pattern": rule.matches}, mustBe=0)
        case checks.Unique():
            if len(rule.columns) == 1 and rule.columns[0] in columns:
                column, fields = rule.columns[0], _library("duplicateValues", mustBe=0)
            else:
                fields = _library("duplicateValues", {"properties": list(rule.columns)}, mustBe=0)
        case checks.RowCount() if rule.change is None:
            fields = _library("rowCount", **_bounds(rule))
        case checks.RowSql():
            fields = _row_sql(rule, check.where)
        case checks.BatchSql():
            fields = _batch_sql(rule, check.where)
        case _:
            fields = _custom_rule(rule)
    custom = _custom(
        where=check.where,
        within="table" if isinstance(rule, checks.Unique) and rule.within == "table" and not check.where else None,
        onFail=check.on_fail,
        failAbove=limit_text(check.fail_above),
        owner=check.owner,
    )
    about = {"name": check.name, "description": check.description, "severity": _SEVERITIES[check.on_fail]}
    return column, {**about, **fields, "customProperties": custom}


def _row_sql(rule: checks.RowSql, where: str | None) -> Keys:
    query = row_query(rule.condition, where)
    if row_condition(query, where) != rule.condition:
        return _custom_rule(rule)
    return {"type": "sql", "query": query, "mustBe": 0}


def _batch_sql(rule: checks.BatchSql, where: str | None) -> Keys:
    query = batch_query(rule.condition, where)
    if batch_condition(query, ("=", True)) != (rule.condition, where):
        return _custom_rule(rule)
    return {"type": "sql", "query": query, "mustBe": True}


def _custom_rule(rule: checks.CheckRule) -> Keys:
    key, value = rule_keys(rule)
    return {"type": "custom", "engine": VENDOR, "implementation": {key: value}}


def _library(metric: str, arguments: Keys | None = None, **fields: Any) -> Keys:
    return {"type": "library", "metric": metric, "arguments": arguments, **fields}


def _bounds(rule: checks.RowCount) -> Keys:
    match rule.min, rule.max:
        case least, most if least == most:
            return {"mustBe": least}
        case None, most:
            return {"mustBeLessOrEqualTo": most}
        case least, None:
            return {"mustBeGreaterOrEqualTo": least}
        case least, most:
            return {"mustBeBetween": [least, most]}


def _custom(**values: Any) -> list[Keys] | None:
    return [{"property": key, "value": value, "vendor": VENDOR} for key, value in given(**values).items()] or None
