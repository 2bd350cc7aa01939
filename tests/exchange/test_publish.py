"""Contracts in a real schema registry: published once, checked by its rules, or compared as the source of truth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner, Result
from tests.servers.registry import Apicurio

from lakesmith.cli import app
from lakesmith.errors import LakesmithError
from lakesmith.lake import Lake
from lakesmith.sources.registry import Registry

pytestmark = pytest.mark.servers


class Shop:
    """A lake with one table in a registry."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.registry = folder, Registry(url=url)
        self.subject = f"s{uuid4().hex[:12]}-value"
        lake = (
            f"name: shop\nenvironments: {{dev: {{connections: {{events: {{registry: '{url}'}}, bare: {{x: y}}}}}}}}\n"
        )
        (folder / "lakesmith.yml").write_text(lake)
        (folder / "bronze").mkdir()

    def declare(self, columns: str, *, truth: str = "here", compatibility: str = "backward", more: str = "") -> Lake:
        registry = f"{{connection: events, subject: {self.subject}, truth: {truth}}}"
        (self.folder / "bronze/orders.yml").write_text(
            "source: {files: landing/orders/*.json}\n"
            f"contract: {{compatibility: {compatibility}, registry: {registry}}}\n"
            f"columns: {{{columns}}}\n{more}"
        )
        return Lake.open(self.folder)

    def cli(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["contract", *arguments, "--lake", str(self.folder)])


@pytest.fixture
def shop(tmp_path: Path, registry: Apicurio) -> Shop:
    return Shop(tmp_path, registry.url)


def states(lake: Lake) -> list[tuple[str, int | None]]:
    found = lake.publish_contract(["bronze.orders"])
    assert found.errors == ()
    return [(each.state, each.version) for each in found.contracts]


def rejected(lake: Lake) -> Sequence[LakesmithError]:
    found = lake.publish_contract(["bronze.orders"])
    assert found.contracts == ()
    return found.errors


def test_a_contract_is_registered_once_with_its_level_of_compatibility(shop: Shop) -> None:
    lake = shop.declare("id: {type: bigint, key: true}, place: 'struct<city:string>'", compatibility="full")
    assert states(lake) == [("registered", 1)]
    assert states(lake) == [("unchanged", 1)]
    (held,) = shop.registry.versions(shop.subject)
    assert held.kind == "AVRO"
    assert [field["name"] for field in json.loads(held.text)["fields"]] == ["id", "place"]
    assert shop.registry.level(shop.subject) == "FULL"


@pytest.mark.parametrize("word", ["backward", "forward", "none"])
def test_every_compatibility_level_exists_in_the_registry(word: str, shop: Shop) -> None:
    states(shop.declare("id: bigint", compatibility=word))
    assert shop.registry.level(shop.subject) == word.upper()


def test_a_change_allowed_by_the_compatibility_level_is_the_next_version(shop: Shop) -> None:
    states(shop.declare("id: {type: bigint, key: true}"))
    assert states(shop.declare("id: {type: bigint, key: true}, note: string")) == [("registered", 2)]
    assert states(shop.declare("id: {type: bigint, key: true}")) == [("unchanged", 1)]


def test_a_change_that_the_registry_rejects_registers_nothing(shop: Shop) -> None:
    states(shop.declare("id: {type: bigint, key: true}"))
    (error,) = rejected(shop.declare("id: {type: bigint, key: true}, note: {type: string, required: true}"))
    assert (error.code, error.exit_code) == ("contract-incompatible", 2)
    assert str(error.at) == "bronze/orders.yml:1"
    assert "which is BACKWARD: 'note' is new and required" in error.what
    assert error.hint
    assert len(shop.registry.versions(shop.subject)) == 1


def test_changes_are_reported_by_field(shop: Shop) -> None:
    states(shop.declare("a: {type: bigint, key: true}, b: string, c: int, d: {type: int, required: true}"))
    (error,) = rejected(shop.declare("a: {type: string, key: true}, b: {type: string, required: true}, d: int"))
    for change in ("'c' was removed", "'a' was bigint and is string", "'b' is required now", "'d' is nullable now"):
        assert change in error.what


def test_without_a_level_every_change_is_accepted(shop: Shop) -> None:
    states(shop.declare("id: bigint", compatibility="none"))
    assert states(shop.declare("other: {type: string, required: true}", compatibility="none")) == [("registered", 2)]


def test_a_declaration_that_matches_the_registry_writes_nothing(shop: Shop) -> None:
    columns = "id: {type: bigint, key: true}, amount: 'decimal(12,2)', lines: 'array<struct<a:smallint>>', any: {}"
    shop.registry.register(
        shop.subject,
        json.dumps(
            {
                "type": "record",
                "name": "com.shop.Order",
                "fields": [
                    {"name": "id", "type": "long"},
                    {"name": "amount", "type": ["null", _decimal(12)]},
                    {"name": "lines", "type": ["null", {"type": "array", "items": _line()}]},
                    {"name": "any", "type": ["null", "string"]},
                ],
            }
        ),
    )
    assert states(shop.declare(columns, truth="registry")) == [("agrees", None)]
    assert len(shop.registry.versions(shop.subject)) == 1


def test_each_difference_from_the_registry_is_an_error_with_its_place(shop: Shop) -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", _decimal(9)]},
        {"name": "free", "type": ["null", "string"]},
        {"name": "sure", "type": "string"},
        {"name": "more", "type": "int"},
    ]
    shop.registry.register(shop.subject, json.dumps({"type": "record", "name": "A", "fields": fields}))
    columns = "\n  id: {type: bigint, key: true},\n  amount: 'decimal(12,2)',\n  free: {type: string, required: true},"
    found = rejected(shop.declare(f"{columns}\n  sure: string,\n  extra: int", truth="registry"))
    assert {error.code for error in found} == {"contract-differs-from-registry"}
    assert all(error.hint and error.table == "bronze.orders" for error in found)
    assert [(str(error.at), error.what) for error in found] == [
        ("bronze/orders.yml:1", "the registry's schema has the field 'more', which is not declared"),
        ("bronze/orders.yml:5", "'amount' is decimal(12,2) here, but decimal(9,2) in the registry"),
        ("bronze/orders.yml:6", "'free' is required here, but nullable in the registry"),
        ("bronze/orders.yml:7", "'sure' is nullable here, but required in the registry"),
        ("bronze/orders.yml:8", "the registry's schema has no field 'extra'"),
    ]


def test_a_registry_without_the_contract_cannot_be_the_source_of_truth(shop: Shop) -> None:
    (error,) = rejected(shop.declare("id: bigint", truth="registry"))
    assert error.code == "contract-not-registered"
    assert shop.registry.latest(shop.subject) is None


def test_a_schema_that_is_not_a_record_cannot_be_compared(shop: Shop) -> None:
    shop.registry.register(shop.subject, '"string"')
    (error,) = rejected(shop.declare("id: bigint", truth="registry"))
    assert error.code == "contract-differs-from-registry"


def test_the_command_publishes_all_tables_with_a_registry(shop: Shop) -> None:
    shop.declare("id: bigint")
    (shop.folder / "bronze/other.yml").write_text("source: {files: landing/other/*.json}\n")
    answer = shop.cli("publish")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith(f"registered  bronze.orders: {shop.subject} version 1, id ")
    report = json.loads(shop.cli("publish", "--json").stdout)
    assert (report["contracts"][0]["state"], report["errors"]) == ("unchanged", [])


def test_a_table_without_a_registry_cannot_be_published(shop: Shop) -> None:
    lake = shop.declare("id: bigint")
    (shop.folder / "bronze/other.yml").write_text("source: {files: landing/other/*.json}\n")
    assert "no-registry" in shop.cli("publish", "bronze.other").stderr
    assert "unknown-table" in shop.cli("publish", "bronze.nothing").stderr
    assert states(lake)


def test_a_connection_without_a_registry_is_an_error(shop: Shop) -> None:
    shop.declare("id: bigint")
    file = shop.folder / "bronze/orders.yml"
    for name, code in (("bare", "missing-registry"), ("unheard", "unknown-connection")):
        file.write_text(file.read_text().replace("connection: events", f"connection: {name}"))
        answer = shop.cli("publish")
        assert (answer.exit_code, code in answer.stderr) == (2, True)
        file.write_text(file.read_text().replace(f"connection: {name}", "connection: events"))


def test_an_address_without_a_registry_is_an_error(shop: Shop) -> None:
    shop.declare("id: bigint")
    lake = shop.folder / "lakesmith.yml"
    lake.write_text(lake.read_text().replace("/apis/ccompat/v7", "/nowhere"))
    answer = shop.cli("publish")
    assert (answer.exit_code, "registry-rejected" in answer.stderr) == (4, True), answer.output


def _decimal(precision: int) -> dict[str, object]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


def _line() -> dict[str, object]:
    return {"type": "record", "name": "Line", "fields": [{"name": "a", "type": "int"}]}
