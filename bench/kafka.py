"""A topic of JSON records into bronze: Lakesmith's batches against a bare stream from Kafka to Delta on the same topic,
in one Spark session, in turns."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.servers.kafka import Broker, run_broker

from bench.measure import busy, show, spread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 500_000
PARTITIONS = 4
TIMES = 3
TARGET = 0.8
SCHEMA = (
    "id bigint, customer string, amount double, currency string, placed_at string, "
    "address struct<street:string,city:string,zip:string>, items array<struct<sku:string,count:bigint>>, paid boolean"
)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.kafka", description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS, help="records of a round")
    parser.add_argument("--times", type=int, default=TIMES, help="rounds that are measured")
    options = parser.parse_args(words)
    load = busy()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "broker").mkdir()
        with contextmanager(run_broker)(folder / "broker") as broker:
            rounds = _rounds(broker, folder, options.records, options.times)
    rates = {way: [options.records / seconds for seconds in took] for way, took in rounds.items()}
    ratio = median(rates["lakesmith run"]) / median(rates["readStream … writeStream"])
    rows = [
        [way, spread(rounds[way]), f"{median(rates[way]):,.0f}", f"{median(rates[way]) / median(bare):.2f}"]
        for bare in (rates["readStream … writeStream"],)
        for way in rounds
    ]
    header = ("way", "seconds", "records/s", "of the bare stream")
    title = f"{options.records:,} JSON records in {PARTITIONS} partitions, median of {options.times} ({load})"
    show(title, header, rows)
    print(f"\nratio {ratio:.2f}, wanted ≥ {TARGET:g}: {'yes' if ratio >= TARGET else 'NO'}")


def _rounds(broker: Broker, folder: Path, records: int, times: int) -> dict[str, list[float]]:
    from lakesmith.jvm.session import close_session, open_session

    topic = broker.topic("orders", partitions=PARTITIONS)
    spark = open_session("bench", {}, ("delta", "kafka"))
    try:
        ways: dict[str, Callable[[], None]] = {
            "lakesmith run": _lakesmith(spark, broker, topic, folder / "lake"),
            "readStream … writeStream": _stream(spark, broker, topic, folder / "stream"),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        # The first rounds create the tables, and warm the session up for both.
        for number in range(-2, times):
            _send(broker, topic, records if number >= 0 else records // 10)
            order = list(ways) if number % 2 else list(reversed(ways))
            for way in order:
                began = time.monotonic()
                ways[way]()
                if number >= 0:
                    took[way].append(time.monotonic() - began)
        _compare(spark, folder)
    finally:
        close_session(spark)
    return took


def _lakesmith(spark: SparkSession, broker: Broker, topic: str, folder: Path) -> Callable[[], None]:
    from lakesmith.lake import Lake

    (folder / "bronze").mkdir(parents=True)
    connections = {"main": {"brokers": broker.address}}
    environment = {"warehouse": str(folder / "warehouse"), "connections": connections}
    (folder / "lakesmith.yml").write_text(json.dumps({"name": "bench", "environments": {"dev": environment}}))
    source = {"kafka": topic, "connection": "main"}
    (folder / "bronze" / "orders.yml").write_text(json.dumps({"source": source}))

    def run() -> None:
        report = Lake.open(folder).run(session=spark)
        assert not report.errors, report.errors

    return run


def _stream(spark: SparkSession, broker: Broker, topic: str, folder: Path) -> Callable[[], None]:
    def run() -> None:
        stream = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.address)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr(f"from_json(CAST(value AS string), '{SCHEMA}') AS row")
            .select("row.*")
            .writeStream.format("delta")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "table"))
        )
        assert stream.awaitTermination(600)

    return run


def _compare(spark: SparkSession, folder: Path) -> None:
    """Check that both have the same rows."""
    (log,) = (folder / "lake" / "warehouse").rglob("bronze/orders/_delta_log")
    counts = {
        tuple(spark.read.format("delta").load(str(table)).selectExpr("count(*)", "sum(id)").collect()[0])
        for table in (log.parent, folder / "stream" / "table")
    }
    assert len(counts) == 1, counts


def _send(broker: Broker, topic: str, records: int) -> None:
    part = records // PARTITIONS
    for partition in range(PARTITIONS):
        broker.send(topic, *(_record(partition * part + number) for number in range(part)), partition=partition)


def _record(number: int) -> str:
    return json.dumps(
        {
            "id": number,
            "customer": f"customer {number % 9973}",
            "amount": number % 10_000 / 100,
            "currency": ("EUR", "USD", "SEK")[number % 3],
            "placed_at": f"2026-01-{number % 28 + 1:02}T12:00:00Z",
            "address": {"street": f"Main Street {number % 200}", "city": "Ulm", "zip": "89073"},
            "items": [{"sku": f"sku-{number % 500}", "count": number % 7}],
            "paid": number % 2 == 0,
        }
    )


if __name__ == "__main__":
    main()
