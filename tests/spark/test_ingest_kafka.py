"""Topics into bronze: a real broker, a real registry, each record exactly once."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from fastavro import schemaless_writer
from tests.marks import chosen_only
from tests.run.lakes import Cut, Written
from tests.servers.kafka import Broker
from tests.servers.maven import free_port
from tests.servers.proxy import Proxy
from tests.servers.registry import Apicurio

from lakesmith.intake.protobuf_values import compile_protobuf
from lakesmith.ledger.batches import Batches
from lakesmith.reports import RunReport
from lakesmith.sources.registry import Registry, Schema
from lakesmith.spark.write import BatchWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.servers]

PLACE = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
FIELDS: list[dict[str, object]] = [
    {"name": "id", "type": "long"},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "place", "type": ["null", PLACE], "default": None},
]
ORDER = {"type": "record", "name": "Order", "fields": FIELDS}
VALUE = {
    "id": 1,
    "price": Decimal("9.90"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "place": {"city": "Ulm"},
}


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession, kafka: Broker) -> Written:
    made = Written(tmp_path / "shop", spark)
    connect(made, **kafka.settings())
    return made


def connect(lake: Written, **settings: str) -> None:
    """Declare the settings of the cluster; `_` in a name stands for a dot."""
    options = {name.replace("_", "."): value for name, value in settings.items()}
    environments = {"dev": {"connections": {"main": options}}}
    lake.declare({"lakesmith.yml": json.dumps({"name": "shop", "environments": environments})})


def declare(lake: Written, topic: str, contract: str = "additive", **more: object) -> None:
    source = {"kafka": topic, "connection": "main", **more}
    lake.declare({"bronze/events.yml": json.dumps({"source": source, "contract": contract})})


def framed(id: int, body: bytes) -> bytes:
    return b"\x00" + id.to_bytes(4, "big") + body


def avro(id: int, schema: object, value: Mapping[str, object]) -> bytes:
    stream = io.BytesIO()
    schemaless_writer(stream, schema, value)  # type: ignore[arg-type]
    return framed(id, stream.getvalue())


def codes(lake: Written) -> list[str]:
    """The error codes of the rejected records, sorted."""
    return sorted(str(row[0]) for row in lake.rows("SELECT unnest(rules) FROM quarantine.bronze_events"))


def test_each_record_is_ingested_once_with_its_key_headers_place_and_time(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    declare(lake, topic)
    headers: list[tuple[str, bytes | None]] = [("trace", b"\xff1"), ("none", None)]
    kafka.send(topic, '{"id": 1, "who": "ä🙂"}', key="k1", headers=headers, timestamp=1_700_000_000_123)
    kafka.send(topic, '{"id": 2}', key=b"\xff\x00", partition=1)
    first = lake.run()["bronze.events"]
    kafka.send(topic, '{"id": 3}')
    second = lake.run()["bronze.events"]
    assert (first.rows_in, first.rows_written, second.rows_in, second.rows_written) == (2, 2, 1, 1)
    assert lake.run() == {}
    found = lake.rows("SELECT id, who, _topic, _partition, _offset, _key, _run_id FROM bronze.events ORDER BY id")
    assert found == [
        (1, "ä🙂", topic, 0, 0, "k1", first.run_id),
        (2, None, topic, 1, 0, "base64:/wA=", first.run_id),
        (3, None, topic, 0, 1, None, second.run_id),
    ]
    ((moment, stored_headers),) = lake.rows("SELECT _timestamp, _headers FROM bronze.events WHERE id = 1")
    assert moment == datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert stored_headers == [{"key": "trace", "value": b"\xff1"}, {"key": "none", "value": None}]
    assert lake.rows("SELECT count(DISTINCT _row_hash), count(_ingested_at) FROM bronze.events") == [(3, 3)]


def test_rounds_of_a_continuous_run_ingest_each_record_once(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic)
    kafka.send(topic, '{"id": 1}')
    stop, rounds = threading.Event(), list[int]()

    def on_report(report: RunReport) -> None:
        rounds.append(sum(step.rows_in for step in report.steps))
        if len(rounds) == 3:
            stop.set()
        else:
            kafka.send(topic, f'{{"id": {len(rounds) + 1}}}')

    lake.lake().run_continuously(every=0.01, stop=stop, on_report=on_report, session=lake.spark)
    assert rounds == [1, 1, 1]
    assert lake.rows("SELECT id, _offset FROM bronze.events ORDER BY id") == [(1, 0), (2, 1), (3, 2)]


def test_an_invalid_record_goes_to_quarantine_with_a_code_and_a_tombstone_is_a_row(
    lake: Written, kafka: Broker
) -> None:
    topic = kafka.topic()
    declare(lake, topic)
    kafka.send(topic, '{"id": 1}', "not json", '{"id":', None, framed(77, b"{}"), key="k")
    step = lake.run()["bronze.events"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (5, 2, 3)
    assert lake.rows("SELECT id, _offset, _key FROM bronze.events ORDER BY _offset") == [(1, 0, "k"), (None, 3, "k")]
    assert codes(lake) == ["not-json", "truncated-json", "unknown-schema"]
    found = lake.rows("SELECT raw, position FROM quarantine.bronze_events ORDER BY position")
    assert found[:2] == [("not json", f"{topic}/0:1"), ('{"id":', f"{topic}/0:2")]


def test_a_new_field_is_ingested_and_what_does_not_fit_is_rescued(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic)
    kafka.send(topic, '{"id": 1, "to": {"city": "Ulm"}}')
    lake.run()
    kafka.send(topic, '{"id": "two", "to": {"zip": "89"}, "new": true}')
    lake.run()
    found = lake.rows('SELECT id, to_json("to"), new, _rescued FROM bronze.events ORDER BY _offset')
    assert found[0] == (1, '{"city":"Ulm","zip":null}', None, None)
    assert found[1][0] is None
    assert found[1][2] is True
    assert json.loads(str(found[1][3])) == {"id": "two"}


def test_a_strict_contract_rejects_a_new_field_with_a_diff(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    lake.declare(
        {
            "bronze/events.yml": f"source: {{kafka: {topic}, connection: main}}\n"
            "contract: strict\ncolumns: {id: bigint}\n"
        }
    )
    kafka.send(topic, '{"id": 1}')
    lake.run()
    kafka.send(topic, '{"id": 2, "extra": 1}')
    lake.run(ok=False)
    (error,) = lake.reports[-1].errors
    assert error.code == "contract-broken"
    assert "+ extra" in error.what
    assert lake.rows("SELECT id FROM bronze.events") == [(1,)]


def test_an_open_contract_stores_every_field_as_text(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic, "open")
    kafka.send(topic, '{"id": 1, "deep": {"a": [1.50]}}', '{"id": "x"}')
    lake.run()
    found = lake.rows("SELECT id, deep FROM bronze.events ORDER BY _offset")
    assert found == [("1", '{"a": [1.50]}'), ("x", None)]


def test_text_values_are_one_column(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic, values="text")
    kafka.send(topic, "hello", b"\xff")
    step = lake.run()["bronze.events"]
    assert (step.rows_written, step.rows_quarantined) == (1, 1)
    assert lake.rows("SELECT value FROM bronze.events") == [("hello",)]


def test_the_first_run_from_latest_ingests_nothing_and_the_next_all_new_records(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic, starting="latest")
    kafka.send(topic, '{"id": 1}')
    lake.run()
    kafka.send(topic, '{"id": 2}')
    step = lake.run()["bronze.events"]
    assert step.rows_written == 1
    assert lake.rows("SELECT id FROM bronze.events") == [(2,)]


def test_a_batch_has_at_most_the_requested_rows(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic(partitions=2)
    declare(lake, topic, max_rows=3)
    for partition in (0, 1):
        kafka.send(topic, *(json.dumps({"id": n}) for n in range(4)), partition=partition)
    taken = []
    while step := lake.run().get("bronze.events"):
        taken.append(step.rows_written)
    assert sum(taken) == 8
    assert max(taken) <= 3
    assert lake.rows("SELECT count(DISTINCT (_partition, _offset)) FROM bronze.events") == [(8,)]


def test_records_deleted_by_retention_are_an_error_and_can_be_accepted(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic)
    kafka.send(topic, '{"id": 1}')
    lake.run()
    kafka.send(topic, '{"id": 2}', '{"id": 3}')
    kafka.expire(topic, 0, 2)
    lake.run(ok=False)
    (error,) = lake.reports[-1].errors
    assert (error.code, error.exit_code) == ("offsets-lost", 1)
    assert "read up to 1 and now starts at 2" in error.what
    connect(lake, **kafka.settings(), accept_lost=f"{topic}/0:2")
    lake.run()
    assert lake.rows("SELECT id FROM bronze.events ORDER BY id") == [(1,), (3,)]


def test_records_of_aborted_transactions_are_not_read(lake: Written, kafka: Broker) -> None:
    from confluent_kafka import Producer

    topic = kafka.topic()
    declare(lake, topic)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions(30)
    for number, end in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        producer.produce(topic, json.dumps({"id": number}))
        producer.flush(30)
        end(30)
    step = lake.run()["bronze.events"]
    assert (step.rows_in, step.rows_written) == (2, 2)
    assert lake.rows("SELECT id FROM bronze.events ORDER BY id") == [(0,), (2,)]
    assert lake.run() == {}


def test_a_secured_listener_is_read_by_spark_with_the_same_settings(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic)
    kafka.send(topic, '{"id": 1}')
    connect(
        lake,
        brokers=kafka.secured,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username=kafka.user,
        sasl_password=kafka.password,
    )
    assert lake.run()["bronze.events"].rows_written == 1


def test_avro_values_keep_their_types_and_a_new_field_of_the_schema_is_ingested(
    lake: Written, kafka: Broker, registry: Apicurio
) -> None:
    topic = kafka.topic()
    declare(lake, topic, values="avro")
    connect(lake, **kafka.settings(), registry=registry.url)
    first = registry.register(f"{topic}-value", ORDER)
    kafka.send(topic, avro(first, ORDER, VALUE))
    lake.run()
    found = lake.rows('SELECT id, price, day, "at", place.city FROM bronze.events')
    assert found == [(1, Decimal("9.90"), date(2026, 1, 31), datetime(2026, 1, 31, 12, tzinfo=UTC), "Ulm")]
    wider = {**ORDER, "fields": [*FIELDS, {"name": "note", "type": ["null", "string"], "default": None}]}
    second = registry.register(f"{topic}-value", wider)
    kafka.send(topic, avro(first, ORDER, {**VALUE, "id": 2}), avro(second, wider, {**VALUE, "id": 3, "note": "new"}))
    step = lake.run()["bronze.events"]
    assert (step.rows_written, step.rows_quarantined) == (2, 0)
    assert lake.rows("SELECT id, note FROM bronze.events ORDER BY id") == [(1, None), (2, None), (3, "new")]


def test_a_wider_type_of_a_schema_and_a_wider_number_in_json_widen_the_column(
    lake: Written, kafka: Broker, registry: Apicurio
) -> None:
    topic, plain = kafka.topic(), kafka.topic()
    declare(lake, topic, values="avro")
    lake.declare({"bronze/plain.yml": f"source: {{kafka: {plain}, connection: main}}\n"})
    connect(lake, **kafka.settings(), registry=registry.url)
    narrow, wide = ({**ORDER, "fields": [{"name": "n", "type": type}]} for type in ("int", "long"))
    kafka.send(topic, avro(registry.register(f"{topic}-value", narrow), narrow, {"n": 1}))
    kafka.send(plain, '{"n": 1}')
    lake.run()
    kafka.send(topic, avro(registry.register(f"{topic}-value", wide), wide, {"n": 1 << 40}))
    kafka.send(plain, f'{{"n": {10**30}}}')
    steps = lake.run()
    assert (steps["bronze.events"].columns_widened, steps["bronze.events"].rows_rescued) == ("n: int → bigint", 0)
    assert (steps["bronze.plain"].columns_widened, steps["bronze.plain"].rows_rescued) == (
        "n: bigint → decimal(38,0)",
        0,
    )
    assert lake.rows("SELECT n FROM bronze.events ORDER BY n") == [(1,), (1 << 40,)]
    assert lake.rows("SELECT n FROM bronze.plain ORDER BY n") == [(1,), (10**30,)]


def test_a_value_with_a_schema_of_another_subject_is_read_and_one_without_is_rejected(
    lake: Written, kafka: Broker, registry: Apicurio
) -> None:
    topic = kafka.topic()
    declare(lake, topic, values="avro")
    connect(lake, **kafka.settings(), registry=registry.url)
    own = registry.register(f"{topic}-value", ORDER)
    other = {
        "type": "record",
        "name": "Other",
        "fields": [{"name": "id", "type": "long"}, {"name": "x", "type": "int"}],
    }
    foreign = registry.register(f"{topic}-elsewhere", other)
    kafka.send(
        topic, avro(own, ORDER, VALUE), avro(foreign, other, {"id": 2, "x": 5}), framed(999_999, b"\x02"), b"{}", b""
    )
    step = lake.run()["bronze.events"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (5, 2, 3)
    assert lake.rows("SELECT id, x FROM bronze.events ORDER BY id") == [(1, None), (2, 5)]
    assert codes(lake) == ["no-schema-id", "no-schema-id", "unknown-schema"]


def test_a_strict_contract_rejects_a_new_schema_with_a_diff_before_anything_is_read(
    lake: Written, kafka: Broker, registry: Apicurio
) -> None:
    topic = kafka.topic()
    columns = "{id: bigint, price: 'decimal(10,2)', day: date, at: timestamp, place: 'struct<city:string>'}"
    lake.declare(
        {
            "bronze/events.yml": f"source: {{kafka: {topic}, connection: main, values: avro}}\n"
            f"contract: strict\ncolumns: {columns}\n"
        }
    )
    connect(lake, **kafka.settings(), registry=registry.url)
    first = registry.register(f"{topic}-value", ORDER)
    kafka.send(topic, avro(first, ORDER, VALUE))
    assert lake.run()["bronze.events"].rows_written == 1
    changed = {**ORDER, "fields": [*FIELDS[:2], {"name": "note", "type": "string", "default": ""}]}
    registry.register(f"{topic}-value", changed)
    kafka.send(topic, avro(first, ORDER, VALUE))
    lake.run(ok=False)
    (error,) = lake.reports[-1].errors
    assert error.code == "contract-broken"
    assert "+ note string" in error.what
    assert "- day date" in error.what
    assert lake.rows("SELECT count(*) FROM bronze.events") == [(1,)]


def test_a_schema_that_does_not_fit_the_table_is_reported_once_or_rejected_before_reading(
    lake: Written, kafka: Broker, registry: Apicurio
) -> None:
    topic = kafka.topic()
    connect(lake, **kafka.settings(), registry=registry.url)
    declare(lake, topic, values="avro", incompatible="fail")
    first = registry.register(f"{topic}-value", ORDER)
    kafka.send(topic, avro(first, ORDER, VALUE))
    assert lake.run()["bronze.events"].rows_written == 1
    other = {**ORDER, "fields": [{"name": "id", "type": "string"}, *FIELDS[1:], {"name": "new", "type": "int"}]}
    second = registry.register(f"{topic}-value", other)
    kafka.send(topic, avro(second, other, {**VALUE, "id": "two", "new": 5}))
    lake.run(ok=False)
    (error,) = lake.reports[-1].errors
    assert (error.code, error.exit_code) == ("schema-incompatible", 1)
    assert error.what.endswith(f"schema {second}: ~ id bigint → string")
    assert lake.rows("SELECT count(*) FROM bronze.events") == [(1,)]
    declare(lake, topic, values="avro")
    assert lake.run()["bronze.events"].rows_rescued == 1
    (check,) = [check for check in lake.reports[-1].checks if check.check == "schema"]
    assert (check.severity, check.passed, check.sequence) == ("warn", False, 2)
    assert check.observed == f"schema {second}: ~ id bigint → string"
    found = lake.rows("SELECT id, new, _rescued FROM bronze.events ORDER BY _offset")
    assert found == [(1, None, None), (None, 5, '{"id": "two"}')]
    kafka.send(topic, avro(second, other, {**VALUE, "id": "3", "new": 6}))
    lake.run()
    assert not [check for check in lake.reports[-1].checks if check.check == "schema"]


def test_nothing_is_read_while_the_registry_is_down(lake: Written, kafka: Broker, registry: Apicurio) -> None:
    topic = kafka.topic()
    declare(lake, topic, values="avro")
    id = registry.register(f"{topic}-value", ORDER)
    kafka.send(topic, avro(id, ORDER, VALUE))
    connect(lake, **kafka.settings(), registry=f"http://127.0.0.1:{free_port()}")
    lake.run(ok=False)
    (error,) = lake.reports[-1].errors
    assert (error.code, error.exit_code) == ("registry-unreachable", 4)
    connect(lake, **kafka.settings(), registry=registry.url)
    assert lake.run()["bronze.events"].rows_written == 1


def test_a_registry_that_fails_during_a_batch_is_waited_for_or_the_batch_is_not_committed(
    lake: Written,
    kafka: Broker,
    registry: Apicurio,
    proxy_to: Callable[[int], Proxy],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = kafka.topic()
    declare(lake, topic, values="avro")
    own = registry.register(f"{topic}-value", ORDER)
    other = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
    foreign = registry.register(f"{topic}-elsewhere", other)
    kafka.send(topic, avro(own, ORDER, VALUE), avro(foreign, other, {"x": 5}))
    line = proxy_to(urlsplit(registry.url).port or 0)
    url = registry.url.replace(registry.url.split("/")[2], f"127.0.0.1:{line.port}")
    ask = Registry.by_id

    def down(fault: Callable[[], None]) -> None:
        """From the first record with a schema of another subject."""

        def by_id(registry: Registry, id: int) -> Schema | None:
            fault()
            return ask(registry, id)

        monkeypatch.setattr(Registry, "by_id", by_id)

    connect(lake, **kafka.settings(), registry=url, registry_wait="1")
    down(lambda: line.fail_always("reset"))
    began = time.monotonic()
    assert lake.run(ok=False)["bronze.events"].outcome == "failed"
    assert time.monotonic() - began < 60
    (error,) = lake.reports[-1].errors
    assert (error.code, error.exit_code) == ("registry-unreachable", 4)
    assert lake.version("bronze.events") is None
    again = proxy_to(urlsplit(registry.url).port or 0)
    connect(lake, **kafka.settings(), registry=url.replace(str(line.port), str(again.port)), registry_wait="20")
    down(lambda: again.fail("reset", "503"))
    caplog.clear()
    assert lake.run()["bronze.events"].rows_written == 2
    assert again.faulted == 2
    assert [record.getMessage() for record in caplog.records if "waiting for up to 20 s" in record.getMessage()]
    assert lake.rows("SELECT id, x FROM bronze.events ORDER BY _offset") == [(1, None), (None, 5)]
    assert lake.run() == {}


CUTS = {
    "pinned": (Batches, "pin", "after"),
    "before the commit": (BatchWriter, "_commit", "before"),
    "before the quarantine": (BatchWriter, "_quarantine", "before"),
    "before it is noted as done": (Batches, "finish", "before"),
}


@pytest.mark.parametrize("cut", chosen_only(CUTS, "pinned", "before the quarantine"))
def test_after_an_interruption_and_a_rerun_every_record_is_in_one_place_once(
    lake: Written, kafka: Broker, registry: Apicurio, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    topic = kafka.topic(partitions=2)
    declare(lake, topic, values="avro", max_rows=4)
    connect(lake, **kafka.settings(), registry=registry.url)
    id = registry.register(f"{topic}-value", ORDER)
    for partition in (0, 1):
        values = [avro(id, ORDER, {**VALUE, "id": number}) for number in range(3)]
        kafka.send(topic, *values, b"poison", partition=partition)
    if cut != "pinned":
        lake.run()
    owner, method, when = CUTS[cut]
    original = getattr(owner, method)

    def interrupted(self: object, *rest: object) -> None:
        if when == "after":
            original(self, *rest)
        raise Cut

    monkeypatch.setattr(owner, method, interrupted)
    with pytest.raises(Cut):
        lake.run()
    monkeypatch.undo()
    # Later records must neither enter the interrupted batch nor be skipped.
    newer = {**ORDER, "fields": [*FIELDS, {"name": "note", "type": "string", "default": ""}]}
    second = registry.register(f"{topic}-value", newer)
    kafka.send(topic, avro(second, newer, {**VALUE, "id": 9, "note": "new"}))
    for _ in range(4):
        lake.run()
    assert lake.run() == {}
    expected = [(part, at, at) for part in (0, 1) for at in range(3)]
    found = lake.rows("SELECT _partition, _offset, id FROM bronze.events ORDER BY ALL")
    assert found == sorted([*expected, (0, 4, 9)])
    assert lake.rows("SELECT note FROM bronze.events WHERE id = 9") == [("new",)]
    positions = lake.rows("SELECT position FROM quarantine.bronze_events ORDER BY position")
    assert positions == [(f"{topic}/0:3",), (f"{topic}/1:3",)]


def test_protobuf_values_are_read_by_the_message_that_they_name(
    lake: Written, kafka: Broker, registry: Apicurio
) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message_factory import GetMessages

    proto = (
        'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";\n'
        "message Order { int64 id = 1; optional string note = 2; google.protobuf.Timestamp at = 3; }\n"
        "message Refund { int64 id = 1; double amount = 2; }\n"
    )
    messages: Any = GetMessages(FileDescriptorSet.FromString(compile_protobuf(proto).files).file)
    topic = kafka.topic()
    declare(lake, topic, values="protobuf")
    connect(lake, **kafka.settings(), registry=registry.url)
    id = registry.register(f"{topic}-value", proto, "PROTOBUF")
    order = messages["shop.Order"](id=2**62)
    order.at.seconds = 5
    kafka.send(
        topic,
        framed(id, b"\x00" + order.SerializeToString()),
        framed(id, b"\x02\x02" + messages["shop.Refund"](id=2, amount=1.5).SerializeToString()),
    )
    assert lake.run()["bronze.events"].rows_written == 2
    found = lake.rows('SELECT id, note, "at", amount FROM bronze.events ORDER BY _offset')
    assert found == [
        (2**62, None, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), None),
        (2, None, None, 1.5),
    ]


def test_changes_of_a_database_are_rows_with_their_operation(lake: Written, kafka: Broker) -> None:
    topic = kafka.topic()
    declare(lake, topic, envelope="debezium")

    def change(op: str, before: object, after: object, lsn: int) -> str:
        source = {"lsn": lsn, "ts_ms": 1_700_000_000_000 + lsn}
        return json.dumps({"payload": {"op": op, "before": before, "after": after, "source": source}, "schema": None})

    first, second = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    kafka.send(
        topic,
        change("c", None, first, 9),
        change("u", first, second, 10),
        change("d", second, None, 11),
        None,
        json.dumps({"ddl": "ALTER TABLE x", "source": {"lsn": 12}, "tableChanges": []}),
        '{"id": 5}',
        key='{"schema": {}, "payload": {"id": 1}}',
    )
    step = lake.run()["bronze.events"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (6, 5, 1)
    found = lake.rows("SELECT id, name, _op, _before FROM bronze.events ORDER BY _offset")
    assert [row[:3] for row in found] == [
        (1, "a", "insert"),
        (1, "b", "update"),
        (1, "b", "delete"),
        (1, None, "tombstone"),
        (None, None, "schema"),
    ]
    assert json.loads(str(found[1][3])) == first
    assert "ALTER TABLE x" in str(found[4][3])
    ordered = lake.rows(
        "SELECT _offset FROM bronze.events WHERE _change_position IS NOT NULL ORDER BY _change_position"
    )
    assert ordered == [(0,), (1,), (2,), (4,)]
    assert codes(lake) == ["not-an-envelope"]
