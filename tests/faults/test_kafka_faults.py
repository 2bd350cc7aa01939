"""A broker that goes away and comes back, groups that come and go, and records that expire, in the middle of a run.

A registry that is down and records that expire between runs are in `tests/spark/test_ingest_kafka.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.run.lakes import Written
from tests.servers.kafka import Broker, Restarted

from lakesmith import failpoints
from lakesmith.sources.kafka import pinned_offsets
from lakesmith.spark.ingest import kafka as reading

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.servers]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Written:
    return Written(tmp_path / "shop", spark)


def declare(lake: Written, broker: Broker, topic: str) -> None:
    environments = {"dev": {"connections": {"main": broker.settings()}}}
    source = {"kafka": topic, "connection": "main", "values": "text"}
    lake.declare(
        {
            "lakesmith.yml": json.dumps({"name": "shop", "environments": environments}),
            "bronze/events.yml": json.dumps({"source": source}),
        }
    )


Moment = Literal["before the check", "before the read"]


@contextmanager
def at(moment: Moment, act: Callable[[], None]) -> Iterator[None]:
    """Act once during a run: after its batch is pinned and before its offsets are checked, or after the check and
    before Spark reads the records."""
    done: list[str] = []

    def once() -> None:
        if not done:
            done.append(moment)
            act()

    def watch(place: str, about: str) -> None:
        if place == "batch.pinned" and moment == "before the check":
            once()

    def look(*arguments: Any) -> Any:
        found = pinned_offsets(*arguments)
        if moment == "before the read":
            once()
        return found

    failpoints.watch(watch)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "pinned_offsets", look)
            yield
    finally:
        failpoints.watch(None)
    assert done


def offsets(lake: Written) -> list[tuple[object, ...]]:
    return lake.rows("SELECT _partition, _offset FROM bronze.events ORDER BY ALL")


def test_a_broker_that_goes_away_between_or_during_runs_loses_no_record(lake: Written, tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    kafka = Restarted(tmp_path / "kafka")
    kafka.start()
    try:
        topic = kafka.broker.topic(partitions=2)
        declare(lake, kafka.broker, topic)
        kafka.broker.send(topic, "a", "b")
        lake.run()
        kafka.broker.send(topic, "c", "d", partition=1)
        with at("before the check", kafka.stop):
            lake.run(ok=False)
        (error,) = lake.reports[-1].errors
        assert (error.code, error.exit_code) == ("kafka-unreachable", 4)
        assert error.hint
        lake.run(ok=False)
        assert [error.code for error in lake.reports[-1].errors] == ["kafka-unreachable"]
        assert offsets(lake) == [(0, 0), (0, 1)]
        kafka.start()
        back = threading.Thread(target=kafka.start)

        def restart() -> None:
            kafka.stop()
            back.start()

        with at("before the read", restart):
            assert lake.run()["bronze.events"].rows_written == 2
        back.join()
        assert lake.run() == {}
        assert offsets(lake) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    finally:
        kafka.stop()


def test_a_new_group_and_new_partitions_during_a_run_do_not_change_its_batch(lake: Written, kafka: Broker) -> None:
    from confluent_kafka import Consumer

    topic = kafka.topic(partitions=2)
    declare(lake, kafka, topic)
    kafka.send(topic, "a", "b")
    kafka.send(topic, "c", partition=1)
    others = [
        Consumer({"bootstrap.servers": kafka.address, "group.id": "others", "auto.offset.reset": "earliest"})
        for _ in range(2)
    ]

    def rebalance() -> None:
        for each in others:
            each.subscribe([topic])
            each.poll(5)
        kafka.grow(topic, 4)
        kafka.send(topic, "d", partition=3)
        others[0].close()

    with at("before the check", rebalance):
        assert lake.run()["bronze.events"].rows_written == 3
    assert lake.run()["bronze.events"].rows_written == 1
    others[1].close()
    assert lake.run() == {}
    assert offsets(lake) == [(0, 0), (0, 1), (1, 0), (3, 0)]


@pytest.mark.parametrize("moment", ["before the check", "before the read"])
def test_records_that_expire_during_a_run_are_an_error_and_never_a_gap(
    lake: Written, kafka: Broker, moment: Moment
) -> None:
    topic = kafka.topic()
    declare(lake, kafka, topic)
    kafka.send(topic, "a")
    lake.run()
    kafka.send(topic, *"bcdef")
    with at(moment, lambda: kafka.expire(topic, 0, 4)):
        lake.run(ok=False)
    (error,) = lake.reports[-1].errors
    assert (error.code, error.exit_code) == ("offsets-lost", 1)
    assert f"{topic}/0:4" in str(error.hint)
    assert offsets(lake) == [(0, 0)]
    lake.run(ok=False)
    assert [error.code for error in lake.reports[-1].errors] == ["offsets-lost"]
