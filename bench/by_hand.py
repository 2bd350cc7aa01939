"""The shop's pipeline as a good engineer writes it in PySpark: the baseline for a run of Lakesmith.

It builds the same tables, rows and quarantine as `examples/shop`. It has no plan, no fence against a second writer, and
cannot complete an interrupted batch. Lakesmith adds these at the price that `bench.demo` measures.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

CORRUPT = "_corrupt_record"
PROMISED = {"order_id": LongType(), "amount": DoubleType()}
CUSTOMERS = "customer_id STRING, name STRING, email STRING, country STRING, changed_at STRING"


@dataclass(frozen=True)
class Rule:
    """A condition on rows, and the reaction to a row that breaks it."""

    name: str
    condition: str
    severity: str = "quarantine"


@dataclass(frozen=True)
class StepResult:
    """A row of the table of steps."""

    run_id: str
    table: str
    rows_in: int
    rows_written: int
    rows_quarantined: int
    started_at: datetime
    seconds: float


class GateError(Exception):
    """A batch that must not be committed."""


class Shop:
    """One run over the shop's tables below a warehouse folder."""

    def __init__(self, spark: SparkSession, landing: Path, warehouse: Path) -> None:
        self.spark = spark
        self.landing = landing
        self.warehouse = warehouse
        self.run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
        self.bookmark_file = warehouse / "bookmarks.json"
        self.bookmarks = json.loads(self.bookmark_file.read_text()) if self.bookmark_file.exists() else {}
        self.moved: list[StepResult] = []

    def run(self) -> None:
        self.step("bronze.orders", self.bronze_orders)
        self.step("bronze.customers", self.bronze_customers)
        self.step("silver.orders", self.silver_orders)
        self.step("silver.customers", self.silver_customers)
        self.step("gold.daily_sales", self.daily_sales)
        self.step("gold.country_sales", self.country_sales)
        rows = self.spark.createDataFrame([asdict(moved) for moved in self.moved])
        rows.write.format("delta").mode("append").save(self.path("ops.runs"))

    def step(self, table: str, move: Callable[[str], tuple[int, int, int]]) -> None:
        started, clock = datetime.now(UTC), time.monotonic()
        rows_in, written, rejected = move(table)
        self.moved.append(
            StepResult(
                run_id=self.run_id,
                table=table,
                rows_in=rows_in,
                rows_written=written,
                rows_quarantined=rejected,
                started_at=started,
                seconds=time.monotonic() - clock,
            )
        )
        self.warehouse.mkdir(parents=True, exist_ok=True)
        self.bookmark_file.write_text(json.dumps(self.bookmarks))

    def path(self, table: str) -> str:
        return str(self.warehouse / table.replace(".", "/"))

    def exists(self, table: str) -> bool:
        return (Path(self.path(table)) / "_delta_log").is_dir()

    # Bronze

    def bronze_orders(self, table: str) -> tuple[int, int, int]:
        files = self.new_files(table, "orders/*.json")
        # The till adds fields without notice: infer the schema, and keep the types of declared columns.
        found = self.spark.read.json(files).schema
        fields = [
            StructField(field.name, PROMISED.get(field.name, field.dataType))
            for field in found.fields
            if field.name != CORRUPT
        ]
        schema = StructType([*fields, StructField(CORRUPT, StringType())])
        rows = self.spark.read.schema(schema).option("columnNameOfCorruptRecord", CORRUPT).json(files)
        return self.land(table, rows, files)

    def bronze_customers(self, table: str) -> tuple[int, int, int]:
        files = self.new_files(table, "customers/*.csv")
        rows = (
            self.spark.read.schema(f"{CUSTOMERS}, {CORRUPT} STRING")
            .options(header=True, enforceSchema=False, columnNameOfCorruptRecord=CORRUPT)
            .csv(files)
        )
        return self.land(table, rows, files)

    def new_files(self, table: str, pattern: str) -> list[str]:
        taken = set(self.bookmarks.get(table, []))
        return sorted(str(file) for file in self.landing.glob(pattern) if str(file) not in taken)

    def land(self, table: str, rows: DataFrame, files: Sequence[str]) -> tuple[int, int, int]:
        payload = [name for name in rows.columns if name != CORRUPT]
        audited = rows.select(
            *payload,
            F.col("_metadata.file_path").alias("_source_file"),
            F.col("_metadata.file_modification_time").alias("_source_modified"),
            F.current_timestamp().alias("_ingested_at"),
            F.lit(self.run_id).alias("_run_id"),
            F.sha2(F.to_json(F.struct(*payload)), 256).alias("_row_hash"),
            CORRUPT,
        )
        seen = Observation()
        watched = audited.observe(seen, F.count("*").alias("rows_in"), F.count(CORRUPT).alias("rejected"))
        self.append(table, watched.where(F.col(CORRUPT).isNull()).drop(CORRUPT))
        counts = seen.get
        if counts["rejected"]:
            # Spark parses only selected columns, and any column can make a row corrupt: select all.
            raw = f"coalesce({CORRUPT}, to_json(struct({', '.join(payload)}))) AS raw"
            rejected = audited.where(f"{CORRUPT} IS NOT NULL")
            self.quarantine(table, rejected.selectExpr(raw, "array('unreadable') AS rules"))
        self.bookmarks[table] = [*self.bookmarks.get(table, []), *files]
        return counts["rows_in"], counts["rows_in"] - counts["rejected"], counts["rejected"]

    # Silver

    def silver_orders(self, table: str) -> tuple[int, int, int]:
        rows = self.changes("bronze.orders", table).selectExpr(
            "order_id",
            "customer_id",
            "try_cast(amount AS DECIMAL(12,2)) AS amount",
            "upper(currency) AS currency",
            "status",
            "to_date(ordered_at) AS day",
            "to_timestamp(updated_at) AS updated_at",
            "_commit_version",
            "amount AS _amount",
        )
        rules = [
            Rule("amount.type", "_amount IS NULL OR amount IS NOT NULL"),
            Rule("order_id.required", "order_id IS NOT NULL"),
            Rule("customer_id.required", "customer_id IS NOT NULL"),
            Rule("currency.required", "currency IS NOT NULL"),
            Rule("day.required", "day IS NOT NULL"),
            Rule("updated_at.required", "updated_at IS NOT NULL"),
            Rule("amount.check", "amount >= 0"),
            Rule("known_currency", "currency IN ('EUR', 'USD')"),
        ]
        return self.upsert(table, rows, rules, key="order_id", order_by="updated_at", source="bronze.orders", least=1)

    def silver_customers(self, table: str) -> tuple[int, int, int]:
        rows = self.changes("bronze.customers", table).selectExpr(
            "try_cast(customer_id AS BIGINT) AS customer_id",
            "name",
            "lower(email) AS email",
            "upper(country) AS country",
            "try_cast(changed_at AS TIMESTAMP) AS changed_at",
            "_commit_version",
            "customer_id AS _customer_id",
            "changed_at AS _changed_at",
        )
        rules = [
            Rule("customer_id.type", "_customer_id IS NULL OR customer_id IS NOT NULL"),
            Rule("changed_at.type", "_changed_at IS NULL OR changed_at IS NOT NULL"),
            Rule("customer_id.required", "customer_id IS NOT NULL"),
            Rule("country.required", "country IS NOT NULL"),
            Rule("changed_at.required", "changed_at IS NOT NULL"),
            Rule("email.check", "email LIKE '%@%'"),
        ]
        return self.upsert(
            table, rows, rules, key="customer_id", order_by="changed_at", source="bronze.customers", least=0
        )

    def changes(self, source: str, reader: str) -> DataFrame:
        """Return the rows that were added or changed since the last read."""
        return self.feed(source, reader).where("_change_type IN ('insert', 'update_postimage')")

    def feed(self, source: str, reader: str) -> DataFrame:
        since = self.bookmarks.get(reader, {}).get(source, -1) + 1
        return (
            self.spark.read.format("delta")
            .option("readChangeFeed", True)
            .option("startingVersion", since)
            .load(self.path(source))
        )

    def upsert(
        self, table: str, rows: DataFrame, rules: Sequence[Rule], *, key: str, order_by: str, source: str, least: int
    ) -> tuple[int, int, int]:
        """Merge the latest row of each key. Invalid rows go to quarantine; too few good rows stop the batch."""
        # The gate, the merge and the quarantine read the batch, so compute it once.
        checked = checked_rows(rows, rules).persist()
        counts = checked.agg(
            F.count("*").alias("rows_in"),
            F.count_if("_rejected").alias("rejected"),
            F.max("_commit_version").alias("newest"),
        ).first()
        assert counts
        if counts.rows_in - counts.rejected < least:
            raise GateError(f"{table}: expected at least {least} good rows, found {counts.rows_in - counts.rejected}")
        good = stored(checked.where("NOT _rejected"))
        latest = (
            good.selectExpr("*", f"row_number() OVER (PARTITION BY {key} ORDER BY {order_by} DESC) AS _rank")
            .where("_rank = 1")
            .drop("_rank")
        )
        if self.exists(table):
            latest.createOrReplaceTempView("latest")
            merged = self.spark.sql(
                f"MERGE INTO delta.`{self.path(table)}` AS target USING latest AS source "
                f"ON target.{key} = source.{key} "
                f"WHEN MATCHED AND source.{order_by} > target.{order_by} THEN UPDATE SET * "
                "WHEN NOT MATCHED THEN INSERT *"
            ).first()
            assert merged
            written = merged.num_affected_rows
        else:
            seen = Observation()
            self.append(table, latest.observe(seen, F.count("*").alias("written")))
            written = seen.get["written"]
        if counts.rejected:
            self.quarantine(table, rejected_rows(checked))
        checked.unpersist()
        self.bookmarks[table] = {source: counts.newest}
        return counts.rows_in, written, counts.rejected

    # Gold

    def daily_sales(self, table: str) -> tuple[int, int, int]:
        touched = (
            self.feed("silver.orders", table).groupBy("day").agg(F.max("_commit_version").alias("newest")).collect()
        )
        days = sorted(row.day for row in touched)
        orders = self.read("silver.orders")
        if self.exists(table):
            orders = orders.where(among(days))
        rows = (
            orders.where("status <> 'cancelled'")
            .groupBy("day", "currency")
            .agg(F.count("*").alias("orders"), F.sum("amount").alias("sales"))
        )
        rules = [
            Rule("day.required", "day IS NOT NULL"),
            Rule("sales.check", "sales >= 0"),
            Rule("no_empty_day", "orders > 0", "fail"),
        ]
        checked = checked_rows(rows, rules).persist()
        counts = checked.agg(
            F.count("*").alias("rows_in"),
            F.count_if("_rejected").alias("rejected"),
            F.count_if("_fatal").alias("fatal"),
        ).first()
        assert counts
        if counts.fatal:
            raise GateError(f"{table}: {counts.fatal} rows break no_empty_day")
        writer = stored(checked.where("NOT _rejected")).write.format("delta").mode("overwrite").partitionBy("day")
        if self.exists(table):
            writer = writer.option("replaceWhere", among(days))
        writer.save(self.path(table))
        if counts.rejected:
            self.quarantine(table, rejected_rows(checked))
        checked.unpersist()
        self.bookmarks[table] = {"silver.orders": max(row.newest for row in touched)}
        return counts.rows_in, counts.rows_in - counts.rejected, counts.rejected

    def country_sales(self, table: str) -> tuple[int, int, int]:
        seen = Observation()
        rows = (
            self.read("silver.orders")
            .where("status <> 'cancelled'")
            .join(self.read("silver.customers"), "customer_id", "left")
            .groupBy("country", "currency")
            .agg(F.count("*").alias("orders"), F.sum("amount").alias("sales"))
            .observe(seen, F.count("*").alias("rows_in"), F.count_if(F.col("country").isNull()).alias("unnamed"))
        )
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", True).save(self.path(table))
        counts = seen.get
        if counts["unnamed"]:
            print(f"{table}: {counts['unnamed']} rows have no country")
        return counts["rows_in"], counts["rows_in"], 0

    # Tables

    def read(self, table: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.path(table))

    def append(self, table: str, rows: DataFrame) -> None:
        (
            rows.write.format("delta")
            .mode("append")
            .option("mergeSchema", True)
            .option("delta.enableChangeDataFeed", True)
            .save(self.path(table))
        )

    def quarantine(self, table: str, rows: DataFrame) -> None:
        noted = rows.select("raw", "rules", F.lit(self.run_id).alias("run_id"), F.current_timestamp().alias("at"))
        noted.write.format("delta").mode("append").save(self.path(f"quarantine.{table}"))


def checked_rows(rows: DataFrame, rules: Sequence[Rule]) -> DataFrame:
    """Return the rows with the names of the rules that each breaks; NULL breaks none, as in SQL."""
    cases = ", ".join(f"CASE WHEN NOT ({rule.condition}) THEN '{rule.name}' END" for rule in rules)
    kinds = {kind: [rule.name for rule in rules if rule.severity == kind] for kind in ("quarantine", "fail")}
    named = {kind: ", ".join(f"'{name}'" for name in names) for kind, names in kinds.items()}
    return rows.selectExpr("*", f"array_compact(array({cases})) AS _rules").selectExpr(
        "*",
        f"arrays_overlap(_rules, array({named['quarantine']})) AS _rejected",
        f"arrays_overlap(_rules, array({named['fail']})) AS _fatal" if named["fail"] else "false AS _fatal",
    )


def stored(rows: DataFrame) -> DataFrame:
    """Return the rows without the columns of the rules."""
    return rows.drop(*(name for name in rows.columns if name.startswith("_")))


def rejected_rows(checked: DataFrame) -> DataFrame:
    payload = [name for name in checked.columns if not name.startswith("_")]
    return checked.where("_rejected").select(F.to_json(F.struct(*payload)).alias("raw"), F.col("_rules").alias("rules"))


def among(days: Sequence[date]) -> str:
    listed = ", ".join(f"DATE'{day}'" for day in days)
    return f"day IN ({listed})"
