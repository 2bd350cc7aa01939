"""New records of a topic, from a real broker and without a JVM."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.servers.kafka import Broker
from tests.servers.maven import free_port
from tests.servers.registry import Apicurio

from lakesmith.declare import Kafka, Table, TableName
from lakesmith.declare.loads import Append
from lakesmith.errors import DataError, DeclarationError, InfrastructureError, Place
from lakesmith.ports import Slice
from lakesmith.sources.kafka import (
    ACCEPT,
    SCHEMA,
    TOPIC,
    client_settings,
    new_records,
    offsets,
    pinned_offsets,
    spark_settings,
)

pytestmark = pytest.mark.servers

SOURCE = Kafka(topic="", connection="main")
Reached = Mapping[str, int | str]


def declared(source: Kafka) -> Table:
    name = TableName.parse("bronze.events")
    assert name
    return Table(name=name, origin=source, load=Append(), declared_at=Place("bronze/events.yml"))


def ask(kafka: Broker, source: Kafka, reached: Reached | None = None, **more: str) -> Slice | None:
    settings = kafka.settings() | {key.replace("_", "."): value for key, value in more.items()}
    return new_records(declared(source), source, settings, reached or {})


def found(kafka: Broker, source: Kafka, reached: Reached | None = None, **more: str) -> tuple[dict[int, int], ...]:
    """Return the start and end offsets of the new slice, by partition."""
    pinned = ask(kafka, source, reached, **more)
    assert pinned is not None
    settings = kafka.settings() | {key.replace("_", "."): value for key, value in more.items()}
    read = pinned_offsets(declared(source), source, settings, pinned)
    return {part: bounds[0] for part, bounds in read.items()}, {part: bounds[1] for part, bounds in read.items()}


def test_the_first_slice_has_all_records_and_then_nothing_is_new(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic(partitions=2))
    kafka.send(source.topic, "a", "b", "c", partition=1)
    pinned = ask(kafka, source)
    assert pinned is not None
    assert (offsets(source, pinned.since), offsets(source, pinned.until)) == ({0: 0, 1: 0}, {0: 0, 1: 3})
    assert ask(kafka, source, pinned.until) is None
    kafka.send(source.topic, "d", partition=0)
    assert found(kafka, source, pinned.until) == ({0: 0, 1: 3}, {0: 1, 1: 3})


def test_an_empty_topic_has_nothing_new(kafka: Broker) -> None:
    assert ask(kafka, replace(SOURCE, topic=kafka.topic())) is None


def test_latest_pins_its_start_so_that_the_next_run_loses_nothing(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic(), starting="latest")
    kafka.send(source.topic, "old")
    pinned = ask(kafka, source)
    assert pinned is not None
    assert (pinned.since, offsets(source, pinned.until)) == ({}, {0: 1})
    kafka.send(source.topic, "new")
    assert pinned_offsets(declared(source), source, kafka.settings(), pinned) == {0: (1, 1)}
    assert found(kafka, source, pinned.until) == ({0: 1}, {0: 2})


def test_a_new_partition_starts_at_its_first_record_even_for_latest(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic(), starting="latest")
    kafka.send(source.topic, "a")
    pinned = ask(kafka, source)
    assert pinned is not None
    kafka.grow(source.topic, 2)
    kafka.send(source.topic, "b", partition=1)
    assert found(kafka, source, pinned.until) == ({0: 1, 1: 0}, {0: 1, 1: 1})


def test_a_batch_has_at_most_the_requested_records_and_no_partition_is_skipped(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic(partitions=3), max_rows=10)
    for partition, count in ((0, 2), (1, 20), (2, 7)):
        kafka.send(source.topic, *("x" * count), partition=partition)
    since, until = found(kafka, source)
    assert since == {0: 0, 1: 0, 2: 0}
    assert until == {0: 2, 1: 4, 2: 4}
    reached: Reached = {}
    rounds = 0
    while (pinned := ask(kafka, source, reached)) is not None:
        reached, rounds = pinned.until, rounds + 1
    assert offsets(source, reached) == {0: 2, 1: 20, 2: 7}
    assert rounds == 3


def test_with_one_record_per_batch_every_partition_is_read(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic(partitions=2), max_rows=1)
    for partition in (0, 1):
        kafka.send(source.topic, "a", "b", partition=partition)
    reached: Reached = {}
    rounds = 0
    while (pinned := ask(kafka, source, reached)) is not None:
        reached, rounds = pinned.until, rounds + 1
    assert (offsets(source, reached), rounds) == ({0: 2, 1: 2}, 4)


def test_retention_that_passed_the_offset_is_an_error_that_shows_the_gap(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic(partitions=2))
    kafka.send(source.topic, "a", "b", partition=0)
    pinned = ask(kafka, source)
    assert pinned is not None
    kafka.send(source.topic, "c", "d", "e", partition=0)
    kafka.expire(source.topic, 0, 4)
    with pytest.raises(DataError) as raised:
        ask(kafka, source, pinned.until)
    assert raised.value.code == "offsets-lost"
    assert "partition 0 was read up to 2 and now starts at 4 (2 offsets lost)" in raised.value.what
    assert f"{ACCEPT}: {source.topic}/0:4" in str(raised.value.hint)


def test_only_the_named_loss_is_accepted(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic())
    kafka.send(source.topic, "a", "b", "c", "d")
    kafka.expire(source.topic, 0, 2)
    reached = {f"{source.topic}/0": 1}
    accepted = {"accept_lost": f"other/0:99, {source.topic}/0:2"}
    assert found(kafka, source, reached, **accepted) == ({0: 2}, {0: 4})
    kafka.expire(source.topic, 0, 3)
    with pytest.raises(DataError):
        ask(kafka, source, reached, **accepted)
    with pytest.raises(DataError):
        ask(kafka, source, reached, accept_lost="other/0:99")


def test_an_invalid_acceptance_is_rejected(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic())
    with pytest.raises(DeclarationError) as raised:
        ask(kafka, source, accept_lost="everything")
    assert raised.value.code == "bad-connection"


def test_a_recreated_topic_is_detected_even_past_the_offset(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic())
    kafka.send(source.topic, "a")
    pinned = ask(kafka, source)
    assert pinned is not None
    kafka.drop(source.topic)
    kafka.topic(source.topic)
    kafka.send(source.topic, "x", "y", "z")
    with pytest.raises(DataError) as raised:
        ask(kafka, source, pinned.until)
    assert raised.value.code == "offsets-lost"
    assert "created again" in raised.value.what
    way = str(raised.value.hint).partition(f"{ACCEPT}: ")[2].partition(" ")[0]
    assert found(kafka, source, pinned.until, accept_lost=way) == ({0: 0}, {0: 3})


def test_a_topic_that_ends_before_the_offset_is_an_error(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic())
    kafka.send(source.topic, "a")
    with pytest.raises(DataError) as raised:
        ask(kafka, source, {f"{source.topic}/0": 5})
    assert "partition 0 was read up to 5 and now ends at 1" in raised.value.what
    with pytest.raises(DataError) as raised:
        ask(kafka, source, {f"{source.topic}/0": 1, f"{source.topic}/3": 5})
    assert "partition 3 was read up to 5 and no longer exists" in raised.value.what


def test_a_pinned_slice_is_checked_again_before_it_is_read(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic())
    kafka.send(source.topic, "a", "b", "c")
    pinned = ask(kafka, source)
    assert pinned is not None
    kafka.send(source.topic, "d")
    assert pinned_offsets(declared(source), source, kafka.settings(), pinned) == {0: (0, 3)}
    kafka.expire(source.topic, 0, 1)
    with pytest.raises(DataError):
        pinned_offsets(declared(source), source, kafka.settings(), pinned)
    accepted = kafka.settings() | {ACCEPT: f"{source.topic}/0:1"}
    assert pinned_offsets(declared(source), source, accepted, pinned) == {0: (1, 3)}


def test_records_of_an_open_transaction_are_not_read(kafka: Broker) -> None:
    from confluent_kafka import Producer

    source = replace(SOURCE, topic=kafka.topic())
    kafka.send(source.topic, "a")
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": source.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(source.topic, "b")
    producer.flush(30)
    assert found(kafka, source) == ({0: 0}, {0: 1})
    producer.commit_transaction(30)
    # The end of the transaction is reported a little later, and has its own offset.
    deadline = time.monotonic() + 30
    while found(kafka, source) != ({0: 0}, {0: 3}):
        assert time.monotonic() < deadline


def test_an_unreachable_broker_is_reported_within_seconds() -> None:
    source = replace(SOURCE, topic="events")
    began = time.monotonic()
    with pytest.raises(InfrastructureError) as raised:
        new_records(declared(source), source, {"brokers": f"127.0.0.1:{free_port()}"}, {})
    assert time.monotonic() - began < 10
    assert raised.value.code == "kafka-unreachable"
    assert "refused" in raised.value.what
    assert "'main'" in str(raised.value.hint)


def test_an_unknown_topic_is_reported_with_the_nearest_name(kafka: Broker) -> None:
    topic = kafka.topic("clicks.of.customers")
    source = replace(SOURCE, topic="clicks.of.costumers")
    with pytest.raises(DeclarationError) as raised:
        ask(kafka, source)
    assert raised.value.code == "unknown-topic"
    assert f"did you mean '{topic}'?" in str(raised.value.hint)


@pytest.mark.parametrize("settings", [{}, {"brokers": "x:1", "no.such.setting": "1"}])
def test_a_connection_with_invalid_client_settings_is_rejected(settings: dict[str, str]) -> None:
    source = replace(SOURCE, topic="events")
    with pytest.raises(DeclarationError) as raised:
        new_records(declared(source), source, settings, {})
    assert raised.value.code == "bad-connection"


def test_a_user_and_password_open_a_secured_listener_and_a_wrong_password_is_reported(kafka: Broker) -> None:
    source = replace(SOURCE, topic=kafka.topic())
    kafka.send(source.topic, "a")
    settings = {
        "brokers": kafka.secured,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": kafka.user,
        "sasl.password": kafka.password,
    }
    assert new_records(declared(source), source, settings, {}) is not None
    with pytest.raises(InfrastructureError) as raised:
        new_records(declared(source), source, settings | {"sasl.password": "wrong"}, {})
    assert raised.value.code == "kafka-unreachable"
    assert "uthentication" in raised.value.what


def test_the_schema_is_part_of_the_slice(kafka: Broker, registry: Apicurio) -> None:
    source = replace(SOURCE, topic=kafka.topic(), values="avro")
    kafka.send(source.topic, "a")
    schema = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "long"}]}
    first = registry.register(f"{source.topic}-value", schema)
    pinned = ask(kafka, source, registry=registry.url)
    assert pinned is not None
    assert pinned.since[SCHEMA] == pinned.until[SCHEMA] == first
    assert pinned.since[TOPIC] == pinned.until[TOPIC] != 0
    schema["fields"] = [*schema["fields"], {"name": "b", "type": "long", "default": 0}]
    second = registry.register(f"{source.topic}-value", schema)
    kafka.send(source.topic, "b")
    pinned = ask(kafka, source, pinned.until, registry=registry.url)
    assert pinned is not None
    assert (pinned.since[SCHEMA], pinned.until[SCHEMA]) == (first, second)


def test_avro_without_a_registry_or_subject_is_rejected(kafka: Broker, registry: Apicurio) -> None:
    source = replace(SOURCE, topic=kafka.topic(), values="avro")
    kafka.send(source.topic, "a")
    with pytest.raises(DeclarationError) as raised:
        ask(kafka, source)
    assert raised.value.code == "missing-registry"
    with pytest.raises(DeclarationError) as raised:
        ask(kafka, source, registry=registry.url)
    assert raised.value.code == "unknown-subject"
    with pytest.raises(InfrastructureError) as down:
        ask(kafka, source, registry=f"http://127.0.0.1:{free_port()}")
    assert down.value.code == "registry-unreachable"


def test_settings_are_translated_to_the_names_of_spark_s_client() -> None:
    settings = {
        "brokers": "a:9092",
        "registry": "http://r",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'p"w\\d',
    }
    assert client_settings(settings) == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "me",
        "sasl.password": 'p"w\\d',
    }
    assert spark_settings(settings) == {
        "kafka.bootstrap.servers": "a:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="p\\"w\\\\d";',
        "kafka.isolation.level": "read_committed",
    }
