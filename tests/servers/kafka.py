"""A Kafka broker of the test run: one node that is its own controller."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.servers.fetch import kafka_jars
from tests.servers.maven import free_port, java, start, started
from tests.servers.shared import shared

_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured},CONTROLLER://127.0.0.1:{controller}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
listener.name.secured.sasl.enabled.mechanisms=PLAIN
listener.name.secured.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
 user_{user}="{password}";
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker, and helpers for tests."""

    address: str
    secured: str
    """The listener that accepts only `user` with `password`."""
    user: str = "reader"
    password: str = 'pass"word'

    def settings(self) -> dict[str, str]:
        return {"brokers": self.address}

    def topic(self, name: str = "", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic, and return its name."""
        from confluent_kafka.cimpl import NewTopic

        name = name or f"t{uuid4().hex[:12]}"
        with self._admin() as admin:
            admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])[name].result(30)
        return name

    def drop(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])[topic].result(30)
            _until(lambda: topic not in admin.list_topics(timeout=10).topics)

    def grow(self, topic: str, partitions: int) -> None:
        from confluent_kafka.cimpl import NewPartitions

        with self._admin() as admin:
            admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
            _until(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == partitions)

    def expire(self, topic: str, partition: int, before: int) -> None:
        """Delete the records before an offset, like retention."""
        from confluent_kafka import TopicPartition

        at = TopicPartition(topic, partition, before)
        with self._admin() as admin:
            admin.delete_records([at])[at].result(30)

    def send(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int = 0,
        timestamp: int = 0,
    ) -> None:
        """Write records to a partition, all with the same key, headers and time."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5})
        failed: list[object] = []
        for value in values:
            producer.produce(
                topic,
                value,
                key,
                partition,
                timestamp=timestamp,
                headers=list(headers),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        assert not failed, failed

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        """A client that lives until its answers arrive, because futures hold no reference to it."""
        from confluent_kafka.admin import AdminClient

        yield AdminClient({"bootstrap.servers": self.address})


@pytest.fixture(scope="session")
def kafka() -> Broker:
    """One broker for the whole test run; each test creates its own topics."""
    return shared("kafka", _start)


def _start(folder: Path) -> tuple[Broker, subprocess.Popen[bytes]]:
    broker, command = prepare_broker(folder)
    return broker, start(command, lambda: _answers(broker), folder=folder)


class Restarted:
    """A broker that can be stopped and started again with its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.broker, self._command = prepare_broker(folder)
        self._running = ExitStack()

    def start(self) -> None:
        self._running.enter_context(started(self._command, lambda: _answers(self.broker), folder=self._folder))

    def stop(self) -> None:
        self._running.close()


def prepare_broker(folder: Path) -> tuple[Broker, list[str]]:
    """A broker's folder, and the command that starts it."""
    port, secured, controller = free_port(), free_port(), free_port()
    broker = Broker(address=f"127.0.0.1:{port}", secured=f"127.0.0.1:{secured}")
    properties = folder / "server.properties"
    properties.write_text(
        _PROPERTIES.format(
            port=port,
            secured=secured,
            controller=controller,
            folder=folder,
            user=broker.user,
            password=broker.password.replace('"', '\\\\"'),
        )
    )
    command = [java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{kafka_jars()}/*"]
    tool = [*command, "kafka.tools.StorageTool", "format", "--standalone", "-t", "bGFrZXNtaXRoLXRlc3RzAA"]
    subprocess.run([*tool, "-c", str(properties)], check=True, capture_output=True, cwd=folder)
    return broker, [*command, "kafka.Kafka", str(properties)]


def _until(holds: Callable[[], bool]) -> None:
    """Wait until the broker reports a change that it has acknowledged."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _answers(broker: Broker) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return bool(AdminClient({"bootstrap.servers": broker.address, "log_level": 0}).list_topics(timeout=2).brokers)
    except KafkaException:
        return False
