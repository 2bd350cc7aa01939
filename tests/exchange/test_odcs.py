"""Export and import of documents of the Open Data Contract Standard."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft201909Validator
from tests.exchange.tables import FULL, HEAD, RULES, loaded, with_checks

from lakesmith.declare import Table
from lakesmith.errors import LakesmithError
from lakesmith.exchange import ImportRequest, ImportResult, import_contract
from lakesmith.exchange.odcs import odcs_text

STANDARD = Draft201909Validator(json.loads((files("open_data_contract_standard") / "schema.json").read_text()))


BOMB = "a: &a [x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 8)}]\n" for before, after in pairwise("abcdefgh")
)
"""Aliases that stand for two million values."""


def exported(table: Table) -> dict[str, Any]:
    """Return the document; it is valid under the JSON Schema of the standard."""
    document: dict[str, Any] = yaml.safe_load(odcs_text(table, lake="shop"))
    assert [f"{error.json_path}: {error.message}" for error in STANDARD.iter_errors(document)] == []
    return document


def imported(document: object, **wanted: str) -> ImportResult:
    text = document if isinstance(document, str) else yaml.safe_dump(document)
    return import_contract(text, ImportRequest(file="contract.yml", **wanted))


def foreign(**keys: object) -> dict[str, object]:
    """A small document of another tool."""
    table = {"name": "orders", "properties": [{"name": "id", "logicalType": "integer"}]}
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "orders", "version": "1.0.0", "status": "active"}
    return {**head, "schema": [table], **keys}


def of_property(**keys: object) -> dict[str, object]:
    return foreign(schema=[{"name": "orders", "properties": [{"name": "c", "logicalType": "string", **keys}]}])


def promises(table: Table) -> dict[str, object]:
    """Return all parts of a contract; the order of checks does not matter."""
    return {
        "columns": table.columns,
        "checks": {check.name: check for check in table.checks},
        "terms": table.terms,
        "contract": table.contract,
        "quarantine": table.quarantine,
        "owner": table.owner,
        "description": table.description,
        "tags": table.tags,
        "freshness": table.freshness,
    }


def there_and_back(folder: Path, table: Table) -> Table:
    back = imported(odcs_text(table, lake="shop"))
    assert [warning for warning in back.warnings if not warning.startswith("source:")] == []
    return loaded(folder, back.text, back.file)


@pytest.mark.parametrize("rule", RULES)
def test_a_check_survives_export_and_import_and_the_document_is_valid(rule: str, tmp_path: Path) -> None:
    table = loaded(tmp_path, with_checks(rule))
    exported(table)
    assert promises(there_and_back(tmp_path, table)) == promises(table)


def test_all_checks_together_survive_export_and_import(tmp_path: Path) -> None:
    table = loaded(tmp_path, with_checks(*RULES))
    exported(table)
    assert promises(there_and_back(tmp_path, table)) == promises(table)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(lambda text: text.strip())
names = st.from_regex(r"[A-Za-zäßЖ_][A-Za-z0-9_]{0,6}", fullmatch=True)
types = st.recursive(
    st.sampled_from(["bigint", "string", "double", "date", "timestamp", "timestamp_ntz", "boolean", "decimal(38,9)"]),
    lambda inner: st.one_of(
        inner.map(lambda item: f"array<{item}>"),
        inner.map(lambda item: f"map<string,{item}>"),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda items: f"struct<{','.join(f'f{n}:{item}' for n, item in enumerate(items))}>"
        ),
    ),
    max_leaves=5,
)
columns = st.fixed_dictionaries(
    {},
    optional={
        "type": types,
        "required": st.booleans(),
        "key": st.booleans(),
        "unique": st.booleans(),
        "description": texts,
        "deprecated": texts,
        "currency": st.sampled_from(["EUR", "USD"]),
        "timezone": st.sampled_from(["UTC", "Europe/Oslo"]),
        "check": texts,
        "tags": st.lists(st.from_regex(r"[a-z][a-z.:/-]{0,9}", fullmatch=True), min_size=1, max_size=2),
        "since": st.sampled_from(["1", "2.0", "3.10.1"]),
    },
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    made=st.dictionaries(names, columns, min_size=1, max_size=4),
    head=st.fixed_dictionaries(
        {}, optional={"description": texts, "owner": texts, "freshness": st.sampled_from(["1.5h", "0.333m", "10w"])}
    ),
    condition=texts,
)
def test_any_columns_survive_export_and_import(
    made: dict[str, Any], head: dict[str, str], condition: str, tmp_path: Path
) -> None:
    from lakesmith.load.yaml_writer import yaml_table

    folded = {name.casefold(): (name, block) for name, block in made.items()}
    checks = {"a": {"sql": condition, "on_fail": "warn", "description": condition}}
    keys = {"source": {"files": "landing/a/*.json"}, **head, "columns": dict(folded.values()), "checks": checks}
    table = loaded(tmp_path, yaml_table(keys))
    exported(table)
    assert promises(there_and_back(tmp_path, table)) == promises(table)


def test_the_fields_of_the_standard_are_used(tmp_path: Path) -> None:
    document = exported(loaded(tmp_path, with_checks("{required: [email]}", "{row_count: {min: 1}}")))
    (table,) = document["schema"]
    properties = {each["name"]: each for each in table["properties"]}
    assert (document["version"], document["team"]) == ("2.1.0", {"name": "sales"})
    assert document["slaProperties"] == [{"property": "freshness", "value": 90, "unit": "m"}]
    assert properties["line"]["primaryKeyPosition"] == 2
    assert properties["amount"]["logicalType"] == "number"
    assert properties["place"]["properties"][1]["properties"][0]["physicalType"] == "double"
    assert properties["extra"]["map"]["value"]["items"]["logicalType"] == "object"
    assert properties["old"]["deprecated"] is True
    (rule,) = properties["email"]["quality"]
    assert (rule["metric"], rule["mustBe"], rule["severity"]) == ("nullValues", 0, "error")
    assert table["quality"][0]["mustBeGreaterOrEqualTo"] == 1


def test_a_silver_table_becomes_a_query_with_the_contract_in_its_header(tmp_path: Path) -> None:
    table = loaded(tmp_path, HEAD + 'columns: {id: bigint, order: {type: string, description: "not */ the end"}}\n')
    (tmp_path / "bronze/orders.yml").unlink()
    back = imported(odcs_text(table, lake="shop"), layer="silver", name="sold")
    assert back.file == "silver/sold.sql"
    assert loaded(tmp_path, back.text, back.file).columns == table.columns


def test_a_document_of_3_0_is_imported_completely(tmp_path: Path) -> None:
    document = """
apiVersion: v3.0.2
kind: DataContract
id: 53581432-6c55-4ba2-a65f-72344a91553a
version: 1.1.0
status: active
contractCreatedTs: 2025-01-01T00:00:00Z
description: {purpose: Payments of customers, usage: Ask first}
team:
  - {username: ann, role: Reviewer}
  - {username: bob, role: Owner}
slaProperties:
  - {property: latency, value: 4, unit: d}
  - {property: retention, value: 3, unit: y}
schema:
  - name: Customer Payments
    physicalName: payments_1_0
    properties:
      - {name: txn-ref, logicalType: string, physicalType: varchar(18), primaryKey: true, required: true}
      - name: amount
        logicalType: number
        physicalType: NUMBER(12, 2)
        logicalTypeOptions: {minimum: 0.5, exclusiveMaximum: 100, multipleOf: 0.5}
        quality:
          - {rule: nullCheck, mustBe: 0}
          - {metric: nullValues, mustBeLessThan: 5, unit: percent}
          - {type: custom, engine: soda, implementation: "checks: []"}
      - name: country
        logicalType: string
        logicalTypeOptions: {minLength: 2, maxLength: 2, pattern: "^[A-Z]+$"}
        classification: public
        quality:
          - {rule: validValues, validValues: [NO, DE], mustBeLessThan: 3, name: known country, severity: warning}
          - {type: sql, query: "SELECT COUNT(*) FROM {object} WHERE {property} = 'XX'", mustBe: 0, name: xx}
          - {type: text, description: Looks right}
      - {name: at, logicalType: date, physicalType: timestamptz, examples: [a]}
      - {name: blob, logicalType: object, physicalType: weird}
    quality:
      - {rule: rowCount, mustBeBetween: [10, 20]}
      - {type: sql, query: "SELECT max(amount) FROM ${table} WHERE country = 'NO'", mustBeLessThan: 7}
      - {type: sql, query: "SELECT count(*) FROM ${table} a JOIN b USING (id)", mustBe: 0}
"""
    back = imported(document)
    table = loaded(tmp_path, back.text, back.file)
    assert back.file == "bronze/payments_1_0.yml"
    assert (table.owner, table.freshness, table.terms.version) == ("bob", 345600.0, "1.1.0")
    assert {column.name: column.type for column in table.columns} == {
        "txn_ref": "string",
        "amount": "decimal(12,2)",
        "country": "string",
        "at": "timestamp",
        "blob": None,
    }
    text = back.text.partition("checks:\n")[2]
    assert text.splitlines() == [
        "  amount_required: {required: [amount]}",
        "  amount_null_rate: {null_rate: {column: amount, max: 5%}}",
        '  known_country: {in: {column: country, values: ["NO", DE]}, fail_above: 2, on_fail: warn}',
        "  xx: {sql: \"NOT (country = 'XX')\"}",
        "  table_row_count: {row_count: {min: 10, max: 20}}",
        '  table_expect: {expect: "(max(amount)) < 7", where: "country = \'NO\'"}',
        "  amount_range: {range: {column: amount, min: 0.5}}",
        '  amount_range_2: {sql: "`amount` < 100"}',
        '  amount_multiple: {sql: "`amount` % 0.5 = 0"}',
        "  country_length: {length: {column: country, min: 2, max: 2}}",
        '  country_pattern: {pattern: {column: country, matches: "^[A-Z]+$"}}',
    ]
    warnings = {warning.partition(": ")[0] for warning in back.warnings}
    table_at = "schema[Customer Payments]"
    assert warnings == {
        "source",
        "id",
        "contractCreatedTs",
        "description.usage",
        "team[0]",
        "slaProperties[retention]",
        f"{table_at}.name",
        f"{table_at}.quality[2]",
        f"{table_at}.properties[txn-ref].name",
        f"{table_at}.properties[amount].quality[2]",
        f"{table_at}.properties[country].quality[2]",
        f"{table_at}.properties[at].examples",
        f"{table_at}.properties[blob].physicalType",
        f"{table_at}.properties[blob].logicalType",
    }


@pytest.mark.parametrize(
    ("rule", "check"),
    [
        ({"metric": "nullValues"}, "{required: [c]}"),
        ({"metric": "nullValues", "mustBeLessOrEqualTo": 3}, "{required: [c], fail_above: 3, on_fail: warn}"),
        (
            {"metric": "missingValues", "arguments": {"missingValues": ["", None]}},
            "`c` IS NOT NULL AND `c` NOT IN ('')",
        ),
        ({"metric": "duplicateValues", "mustBeLessThan": 1, "unit": "percent"}, "fail_above: 1%"),
        ({"type": "sql", "query": "SELECT avg(c) FROM orders", "mustBeBetween": [1, 2]}, "(avg(c)) BETWEEN 1 AND 2"),
    ],
)
def test_foreign_rules_become_checks(rule: dict[str, object], check: str) -> None:
    back = imported(of_property(quality=[rule]))
    assert check in back.text
    assert not [warning for warning in back.warnings if "quality" in warning]


@pytest.mark.parametrize(
    "rule",
    [
        {"metric": "nullValues", "mustBeGreaterThan": 3},
        {"metric": "somethingElse", "mustBe": 0},
        {"metric": "invalidValues", "arguments": {"other": 1}, "mustBe": 0},
        {"type": "sql", "query": "SELECT COUNT(*) FROM a WHERE x IN (SELECT y FROM b)", "mustBe": 0},
        {"type": "sql", "query": "no sql at all", "mustBe": 0},
        {"type": "custom", "engine": "lakesmith", "implementation": {"range": {"column": "c"}}},
        {"type": "custom", "engine": "lakesmith", "implementation": {"unheard": 1}},
    ],
)
def test_a_rule_that_cannot_be_imported_is_reported_and_the_rest_is_imported(
    rule: dict[str, object], tmp_path: Path
) -> None:
    back = imported(of_property(quality=[rule, {"metric": "nullValues", "mustBe": 0}]))
    assert len([warning for warning in back.warnings if "quality[0]" in warning]) == 1
    assert len(loaded(tmp_path, back.text, back.file).checks) == 1


def test_fields_without_an_equivalent_are_reported_and_not_imported(tmp_path: Path) -> None:
    document = of_property(tags=["a b", "fine"], partitioned=True, encryptedName="x")
    document |= {
        "version": "0.1",
        "status": "draft",
        "dataProduct": "shop",
        "customProperties": [
            {"property": "a", "value": 1},
            {"property": "previous", "value": {"first": {"until": "2027-01-01"}}},
        ],
    }
    back = imported(document)
    (column,) = loaded(tmp_path, back.text, back.file).columns
    assert column.tags == ("fine",)
    warnings = "\n".join(back.warnings)
    for word in (
        "tags",
        "partitioned",
        "encryptedName",
        "contract: version",
        "dataProduct",
        "customProperties[a]",
        "status",
        "'first'",
    ):
        assert word in warnings, word


def test_one_of_several_tables_is_selected() -> None:
    objects = [{"name": "a", "properties": [{"name": "x"}]}, {"name": "b", "properties": [{"name": "y"}]}]
    back = imported(foreign(schema=objects), part="b")
    assert back.file == "bronze/b.yml"
    assert "schema[a]: another table, which can be imported separately" in back.warnings


@pytest.mark.parametrize(
    ("document", "wanted", "code"),
    [
        ("{", {}, "bad-document"),
        ("[]", {}, "bad-document"),
        ("a: 1", {}, "unknown-document"),
        (foreign(apiVersion="v2.2.2"), {}, "bad-document"),
        (foreign(schema=[]), {}, "bad-document"),
        (foreign(schema="orders"), {}, "bad-document"),
        (foreign(unheard=1), {}, "bad-document"),
        (foreign(schema=[{"name": "a"}, {"name": "b"}]), {}, "several-objects"),
        (foreign(), {"part": "order"}, "unknown-object"),
        (foreign(), {"name": "Not A Name"}, "bad-name"),
        (foreign(schema=[{"name": "…"}]), {}, "bad-name"),
        (BOMB, {}, "bad-document"),
    ],
)
def test_an_invalid_document_is_an_error(document: object, wanted: dict[str, str], code: str) -> None:
    with pytest.raises(LakesmithError) as raised:
        imported(document, **wanted)
    assert raised.value.code == code
    assert raised.value.hint


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = loaded(tmp_path, FULL)
    monkeypatch.setitem(__import__("sys").modules, "open_data_contract_standard", None)
    uses: list[Callable[[], object]] = [lambda: odcs_text(table, lake="shop"), lambda: imported(foreign())]
    for use in uses:
        with pytest.raises(LakesmithError) as raised:
            use()
        assert (raised.value.code, raised.value.exit_code) == ("missing-library", 4)
        assert "lakesmith[contracts]" in str(raised.value.hint)
