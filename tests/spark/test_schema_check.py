"""New schema versions are compared with the table before any record is read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from tests.servers.registry import Apicurio

from lakesmith.declare import Append, Column, Kafka, Table, TableName
from lakesmith.declare.contract import Contract
from lakesmith.declare.sources import Incompatible, Values
from lakesmith.errors import DataError, Place
from lakesmith.ports import ColumnFact, Slice, TableFacts
from lakesmith.sources.kafka import SCHEMA
from lakesmith.spark.ingest.kafka import check_schemas
from lakesmith.store import folder_at

pytestmark = pytest.mark.servers
HERE = Place("bronze/events.yml")


def record(**types: object) -> dict[str, object]:
    """Return a new schema: a registry gives equal texts the same id, and new ones the next."""
    fields = [{"name": name, "type": type} for name, type in types.items()]
    return {"type": "record", "name": "A", "doc": uuid4().hex, "fields": fields}


class Subject:
    """A subject of the registry, and the table of its topic."""

    def __init__(self, registry: Apicurio) -> None:
        self._registry = registry
        self.topic = f"t{uuid4().hex[:12]}"
        self.ids: list[int] = []

    def add(self, *schemas: object, kind: str = "AVRO") -> None:
        self.ids += [self._registry.register(f"{self.topic}-value", schema, kind) for schema in schemas]

    def drop(self, version: int) -> None:
        self._registry.ask("DELETE", f"/subjects/{self.topic}-value/versions/{version}", None)

    def check(
        self,
        before: int | None,
        columns: dict[str, str] | None = None,
        *,
        contract: Contract = "additive",
        incompatible: Incompatible = "warn",
        values: Values = "avro",
        required: str | None = None,
    ) -> list[str]:
        """Return the reported changes after one of `ids`, without the ids."""
        source = Kafka(topic=self.topic, connection="main", values=values, incompatible=incompatible)
        declared = (Column(name=required, required=True, declared_at=HERE),) if required else ()
        name = TableName("bronze", "events")
        table = Table(name=name, origin=source, load=Append(), contract=contract, columns=declared, declared_at=HERE)
        since = {} if before is None else {SCHEMA: self.ids[before]}
        stretch = Slice(since=since, until={SCHEMA: self.ids[-1]})
        facts = None if columns is None else stored(columns)
        warnings = check_schemas(table, source, {"registry": self._registry.url}, stretch, facts)
        return [line.split(": ", 1)[-1] for line in warnings]


def stored(columns: dict[str, str]) -> TableFacts:
    return TableFacts(
        folder=folder_at("x"),
        version=0,
        table_id="",
        columns=tuple(ColumnFact(name=name, type=type) for name, type in columns.items()),
        partition_by=(),
        rows=1,
        bytes=1,
        files=1,
        committed_at=datetime.now(UTC),
        oldest=0,
        sequence=1,
    )


@pytest.fixture
def subject(registry: Apicurio) -> Subject:
    return Subject(registry)


def test_each_new_schema_version_is_compared_with_the_previous_one(subject: Subject) -> None:
    subject.add(record(a="string"), record(a="long"), record(a="boolean", b="long"), record(a="boolean", b="string"))
    columns = {"a": "bigint"}
    assert subject.check(1, columns) == ["~ a bigint → boolean"]
    assert subject.check(3, columns) == []


def test_an_incompatible_intermediate_version_is_reported(subject: Subject) -> None:
    subject.add(record(a="long"), record(a="string"), record(a="long", b="string"))
    assert subject.check(0, {"a": "bigint"}) == ["~ a bigint → string"]


def test_a_table_without_a_recorded_schema_is_compared_by_its_columns(subject: Subject) -> None:
    subject.add(record(a="long", day="string"), record(a="string", day="string", new="int"))
    assert subject.check(None, {"a": "bigint", "day": "date"}) == ["~ a bigint → string"]
    assert subject.check(None, None) == []
    assert subject.check(None, None, required="b") == ["- b, which is required"] * 2


def test_a_deleted_last_read_version_is_still_compared(subject: Subject) -> None:
    subject.add(record(a="string"), record(a="long"), record(a="boolean"))
    subject.drop(2)
    assert subject.check(1, {"a": "bigint"}) == ["~ a bigint → boolean"]


def test_wider_columns_accept_new_values(subject: Subject) -> None:
    subject.add(record(a="int"), record(a="long"))
    assert subject.check(0, {"a": "int"}) == []


def test_protobuf_and_json_schemas_are_compared(registry: Apicurio) -> None:
    protobuf, text = Subject(registry), Subject(registry)
    messages = ('syntax = "proto3"; message A { int64 a = 1; }', 'syntax = "proto3"; message A { bool a = 1; }')
    protobuf.add(*messages, kind="PROTOBUF")
    assert protobuf.check(0, {"a": "bigint"}, values="protobuf") == ["~ a bigint → boolean"]
    text.add(*({"type": "object", "properties": {"a": {"type": type}}} for type in ("integer", "array")), kind="JSON")
    assert text.check(0, {"a": "bigint"}, values="json") == ["~ a bigint → array"]
    assert text.check(None, {"a": "bigint"}, values="avro") == [f"schema {id} is not one of avro" for id in text.ids]


def test_an_incompatible_version_is_rejected_if_the_source_says_so(subject: Subject) -> None:
    subject.add(record(a="long", b="int"), record(a="long", b="int", c="int"), record(a="long"))
    with pytest.raises(DataError) as raised:
        subject.check(0, {"a": "bigint", "b": "int"}, incompatible="fail")
    assert raised.value.code == "schema-incompatible"
    assert raised.value.what.endswith(
        f"schema {subject.ids[2]}: - b int, which readers need; schema {subject.ids[2]}: - c int, which readers need"
    )
    assert "incompatible: warn" in str(raised.value.hint)


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
def test_a_strict_contract_rejects_compatible_versions_too(subject: Subject, kind: str) -> None:
    values: Values = "avro" if kind == "AVRO" else "json"
    if kind == "AVRO":
        subject.add(record(a="long"), record(a="long", b="string", c={**record(d="int"), "name": "C"}))
    else:
        schemas = ({"properties": {name: {"type": "string"} for name in names}} for names in ("a", "ab"))
        subject.add(*map(json.dumps, schemas), kind=kind)
    with pytest.raises(DataError) as raised:
        subject.check(0, {"a": "bigint"}, contract="strict", values=values)
    assert raised.value.code == "contract-broken"
    assert "+ b string" in raised.value.what
    assert ("+ c struct" in raised.value.what) == (kind == "AVRO")
    assert "c.d" not in raised.value.what
    assert subject.check(0, {"a": "string"}, contract="open", values=values) == []
    assert subject.check(0, {"a": "bigint"}, values=values) == []
