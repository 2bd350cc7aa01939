"""New records of a topic: the offsets of each partition that are not in the table yet, and lost ones.

A slice of a topic has, for each partition, the key `topic/partition` with the next offset to read. Two further keys
identify what was read: `topic`, the id that the cluster assigned when it created the topic, and `schema`, the id of the
latest schema in the registry.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lakesmith.declare import Kafka, Settings, Table
from lakesmith.errors import DataError, DeclarationError, InfrastructureError, did_you_mean, missing_library
from lakesmith.ports import Slice
from lakesmith.sources.registry import Registry

TOPIC = "topic"
SCHEMA = "schema"
ACCEPT = "accept.lost"
_OWN = (
    *("brokers", "registry", "registry.user", "registry.password", "registry.allow_plain_http", "registry.wait"),
    ACCEPT,
)
_TIMEOUT = 15.0
"""The timeout of the cluster in seconds."""
_ACCEPTED = re.compile(r"([\w.-]+)(?:/(\d+))?:([\w-]+)")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The current state of a topic in its cluster."""

    id: int
    """0 when the cluster has no topic ids."""
    low: Mapping[int, int]
    """By partition, the oldest available offset."""
    high: Mapping[int, int]
    """By partition, the offset after the newest readable record."""


def new_records(
    table: Table, source: Kafka, settings: Mapping[str, str], reached: Mapping[str, int | str]
) -> Slice | None:
    """Return the offsets after `reached`, or None when no record is new. Lost records are an error."""
    topic = fetch_topic(table, source, settings)
    since = starting_offsets(table, source, settings, reached, topic)
    counts = _limit({part: topic.high[part] - at for part, at in since.items()}, source.max_rows)
    # On the first run, the position of `latest` must be recorded even without new records.
    first_latest = source.starting == "latest" and not reached
    if not any(counts.values()) and not first_latest:
        return None
    newest = latest_schema(table, source, settings)
    marks = {TOPIC: topic.id} | ({SCHEMA: newest} if newest is not None else {})
    until = _keyed(source, {part: at + counts[part] for part, at in since.items()}) | marks
    if first_latest:
        return Slice(until=until)
    # `since` stays unchanged: new partitions and accepted losses start where reading starts.
    return Slice(since=reached or _keyed(source, since) | marks, until=until)


def offsets(source: Kafka, marks: Mapping[str, int | str]) -> dict[int, int]:
    """Return, by partition, the offsets of one end of a slice."""
    prefix = f"{source.topic}/"
    return {int(key[len(prefix) :]): int(at) for key, at in marks.items() if key.startswith(prefix)}


def subject_of(source: Kafka) -> str:
    """Return the registry subject of the topic's values."""
    return source.subject or f"{source.topic}-value"


def latest_schema(table: Table, source: Kafka, settings: Mapping[str, str]) -> int | None:
    """Return the id of the subject's latest schema; None when values are read without one."""
    registry = Registry.of(settings)
    needs = source.values in ("avro", "protobuf")
    if needs and registry is None:
        raise DeclarationError(
            "missing-registry",
            f"{source.values} values need a schema registry, and the connection '{source.connection}' has none",
            at=table.declared_at,
            hint=f"add registry: http://… to the connection '{source.connection}' in lakesmith.yml",
        )
    if registry is None or source.values == "text":
        return None
    newest = registry.latest(subject_of(source))
    if newest is None and needs:
        raise DeclarationError(
            "unknown-subject",
            f"the registry at {registry.url} has no subject '{subject_of(source)}'",
            at=table.declared_at,
            hint="set subject: in the source, or register the schema",
        )
    return newest.id if newest else None


def starting_offsets(
    table: Table, source: Kafka, settings: Mapping[str, str], reached: Mapping[str, int | str], topic: Topic
) -> dict[int, int]:
    """Return, by partition, the offset to continue from. Lost records are an error, unless accepted."""
    reached_offsets = offsets(source, reached)
    accepted = _accepted(table, source, settings)
    before = reached.get(TOPIC)
    if before and topic.id and before != topic.id:
        if accepted.get(None) != _id_text(topic.id):
            raise _lost(
                table,
                source,
                f"the topic {source.topic} was deleted and created again (its id was {_id_text(int(before))}, "
                f"and is now {_id_text(topic.id)}): records of the old one after "
                f"{', '.join(f'{part}:{at}' for part, at in sorted(reached_offsets.items()))} can no longer be read",
                [f"{source.topic}:{_id_text(topic.id)}"],
            )
        reached_offsets = {}
    gaps, entries = [], []
    since = {}
    for part, low in topic.low.items():
        at = reached_offsets.get(part)
        high = topic.high[part]
        if at is None:
            since[part] = high if source.starting == "latest" and not reached else low
        elif low <= at <= high:
            since[part] = at
        elif int(accepted.get(part, 0)) >= max(low, at):
            since[part] = low
        elif at < low:
            gaps.append(f"partition {part} was read up to {at} and now starts at {low} ({low - at:,} offsets lost)")
            entries.append(f"{source.topic}/{part}:{low}")
        else:
            gaps.append(f"partition {part} was read up to {at} and now ends at {high}")
            entries.append(f"{source.topic}/{part}:{at}")
    for part in sorted(reached_offsets.keys() - topic.low.keys()):
        if int(accepted.get(part, 0)) < reached_offsets[part]:
            gaps.append(f"partition {part} was read up to {reached_offsets[part]} and no longer exists")
            entries.append(f"{source.topic}/{part}:{reached_offsets[part]}")
    if gaps:
        what = f"records of {source.topic} were lost before they were read: {'; '.join(gaps)}"
        raise _lost(table, source, what, entries)
    return since


def pinned_offsets(
    table: Table, source: Kafka, settings: Mapping[str, str], pinned: Slice
) -> dict[int, tuple[int, int]]:
    """Return, by partition, the first and the end offset of a slice, after a check that all of it is available."""
    topic = fetch_topic(table, source, settings)
    since = starting_offsets(table, source, settings, pinned.since, topic)
    until = offsets(source, pinned.until)
    accepted = _accepted(table, source, settings)
    lost = [part for part, at in until.items() if max(topic.high.get(part, 0), int(accepted.get(part, 0))) < at]
    if lost:
        gaps = "; ".join(f"partition {part} had {until[part]} and ends at {topic.high.get(part, 0)}" for part in lost)
        what = f"records of {source.topic} were lost before they were read: {gaps}"
        raise _lost(table, source, what, [f"{source.topic}/{part}:{until[part]}" for part in lost])
    stops = {part: min(at, topic.high[part]) for part, at in until.items() if part in since}
    return {part: (min(since[part], at), at) for part, at in stops.items()}


def fetch_topic(table: Table, source: Kafka, settings: Mapping[str, str]) -> Topic:
    """Fetch the topic's partitions and offsets from the cluster."""
    try:
        from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition, admin
    except ModuleNotFoundError as error:
        raise missing_library(str(error.name), "reading a topic", "kafka") from error

    cluster = _Cluster(table, source, settings)
    try:
        described = cluster.answer(cluster.admin.describe_topics(TopicCollection([source.topic]))[source.topic])
        parts = sorted(partition.id for partition in described.partitions)
        committed = settings.get("isolation.level", "read_committed") == "read_committed"
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        offsets = []
        of: Any = admin.OffsetSpec  # type: ignore[attr-defined]
        for spec in (of.earliest(), of.latest()):
            requested = {TopicPartition(source.topic, part): spec for part in parts}
            answers = cluster.admin.list_offsets(requested, isolation_level=level, request_timeout=_TIMEOUT)
            offsets.append({at.partition: int(cluster.answer(future).offset) for at, future in answers.items()})
    except KafkaException as error:
        raise cluster.problem(error) from error
    id = described.topic_id
    bits = (id.get_most_significant_bits() % 2**64) << 64 | id.get_least_significant_bits() % 2**64 if id else 0
    return Topic(id=bits, low=offsets[0], high=offsets[1])


def client_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a connection for confluent-kafka, which uses the same names."""
    return {"bootstrap.servers": settings.get("brokers", "")} | {
        key: settings[key] for key in settings if key not in _OWN
    }


def spark_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for Spark's Kafka source, which uses the names of the Java client."""
    spark_options = {key: settings[key] for key in settings if key not in _OWN}
    mechanism = spark_options.pop("sasl.mechanisms", None) or spark_options.get("sasl.mechanism")
    if mechanism:
        spark_options["sasl.mechanism"] = mechanism
    if "sasl.username" in spark_options:
        module = "scram.ScramLoginModule" if (mechanism or "").startswith("SCRAM") else "plain.PlainLoginModule"
        user, password = (_quoted(spark_options.pop(key, "")) for key in ("sasl.username", "sasl.password"))
        spark_options["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required username={user} password={password};"
        )
    if authority := spark_options.pop("ssl.ca.location", None):
        spark_options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(authority)}
    if certificate := spark_options.pop("ssl.certificate.location", None):
        key = _text(spark_options.pop("ssl.key.location", certificate))
        spark_options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _text(certificate),
            "ssl.keystore.key": key,
        }
    # librdkafka's default; Java's default would read records of aborted transactions.
    spark_options.setdefault("isolation.level", "read_committed")
    return {f"kafka.{key}": value for key, value in {"bootstrap.servers": settings["brokers"], **spark_options}.items()}


class _Cluster:
    """A connection to a cluster, and the first error on it."""

    def __init__(self, table: Table, source: Kafka, settings: Mapping[str, str]) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._table, self._source = table, source
        self._down: list[Any] = []
        if "brokers" not in settings:
            raise self._declaration("the connection '{}' has no brokers", "add brokers: host:9092")
        self._address = settings["brokers"]
        # Its own log goes to the terminal; relevant errors come through the callback.
        options: dict[str, Any] = {
            "log_level": 0,
            "socket.connection.setup.timeout.ms": 5000,
            "error_cb": self._down.append,
        }
        try:
            self.admin = AdminClient({**options, **client_settings(settings)})
        except KafkaException as error:
            message = Settings.of(settings).masked(error.args[0].str())
            what = f"the Kafka client rejects the connection '{{}}': {message}"
            raise self._declaration(what, "settings have the names of librdkafka") from error

    def answer(self, future: Future[T]) -> T:
        """Return the cluster's response; raise as soon as it is clear that there will be none."""
        from confluent_kafka import KafkaError

        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                return future.result(0.05)
            except TimeoutError:
                self.admin.poll(0)
            hopeless = (KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION)
            if any(error.code() in hopeless for error in self._down) or time.monotonic() > deadline:
                raise self._unreachable()

    def problem(self, error: Any) -> Exception:
        from confluent_kafka import KafkaError, KafkaException

        cause = error.args[0]
        if cause.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return self._unreachable()
        if cause.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            what = f"the Kafka cluster at {self._address} rejected a request about {self._source.topic}: {cause.str()}"
            hint = f"check the settings of the connection '{self._source.connection}' and the permissions of its user"
            return InfrastructureError("kafka-rejected", what, hint=hint)
        try:
            topics = [name for name in self.admin.list_topics(timeout=_TIMEOUT).topics if not name.startswith("__")]
        except KafkaException:
            return self._unreachable()
        return DeclarationError(
            "unknown-topic",
            f"the cluster at {self._address} has no topic '{self._source.topic}'",
            at=self._table.declared_at,
            hint=did_you_mean(self._source.topic, topics, label="topics"),
        )

    def _unreachable(self) -> InfrastructureError:
        # The first error is the cause; "all brokers down" only follows from it.
        reason = f": {self._down[0].str()}" if self._down else f" within {_TIMEOUT:g} s"
        return InfrastructureError(
            "kafka-unreachable",
            f"the Kafka cluster at {self._address} did not answer{reason}",
            hint=f"check brokers and the security settings of the connection '{self._source.connection}'",
        )

    def _declaration(self, what: str, hint: str) -> DeclarationError:
        return DeclarationError(
            "bad-connection",
            what.format(self._source.connection),
            at=self._table.declared_at,
            hint=hint,
        )


def _limit(waiting: Mapping[int, int], most: int | None) -> dict[int, int]:
    """Return, by partition, how many records to read: an equal share of `most`, plus what others leave."""
    if most is None or sum(waiting.values()) <= most:
        return dict(waiting)
    counts: dict[int, int] = {}
    left = most
    for place, part in enumerate(sorted(waiting, key=lambda part: waiting[part])):
        # The fullest comes last and gets the remainder, so that no partition starves.
        counts[part] = min(waiting[part], left // (len(waiting) - place))
        left -= counts[part]
    return counts


def _accepted(table: Table, source: Kafka, settings: Mapping[str, str]) -> dict[int | None, str]:
    """Return, by partition, the offset up to which loss is accepted; under None, the id of an accepted new topic."""
    accepted: dict[int | None, str] = {}
    for word in re.split(r"[\s,]+", settings.get(ACCEPT, "").strip()):
        found = _ACCEPTED.fullmatch(word)
        if word and (found is None or (found[2] is not None and not found[3].isdigit())):
            raise DeclarationError(
                "bad-connection",
                f"{ACCEPT} of the connection '{source.connection}' has the invalid entry '{word}'",
                at=table.declared_at,
                hint=f"write {source.topic}/0:340 (accepts that partition 0 lost records before 340)",
            )
        if found and found[1] == source.topic:
            accepted[int(found[2]) if found[2] else None] = found[3]
    return accepted


def _lost(table: Table, source: Kafka, what: str, entries: Sequence[str]) -> DataError:
    return DataError(
        "offsets-lost",
        what,
        at=table.declared_at,
        hint="keep records longer (retention.ms of the topic) or run more often; to continue without these, add "
        f"{ACCEPT}: {', '.join(entries)} to the connection '{source.connection}', which accepts this loss and no other",
    )


def _keyed(source: Kafka, by_partition: Mapping[int, int]) -> dict[str, int]:
    return {f"{source.topic}/{part}": at for part, at in sorted(by_partition.items())}


def _id_text(id: int) -> str:
    """Return a topic id as Kafka's own tools show it."""
    return base64.urlsafe_b64encode(id.to_bytes(16, "big")).decode().rstrip("=")


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(path: str) -> str:
    return Path(path).expanduser().read_text(encoding="utf-8")
