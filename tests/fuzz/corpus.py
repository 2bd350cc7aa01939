"""The originals of mutants: the lakes of template, example and docs, foreign documents, and a small file of each
format."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from tests.docs.markdown import ROOT, blocks, pages

from lakesmith.declare.sources import FileFormat

Files = Mapping[str, bytes]

ACCESS = b"""\
roles: {analyst: {members: [ann, bob]}, admin: {members: [eve]}}
grants:
  - {role: analyst, on: silver.orders, allow: [select]}
masks: {pii: {using: "sha2(value, 256)", except: [admin]}}
row_filters:
  silver.orders: {where: "country = current_country()", except: [admin]}
"""

WIDE_LAKE = {
    "lakesmith.yml": b"""\
name: shop
variables: {team: sales, token: env:FUZZ_TOKEN, none: }
defaults: {all: {owner: "${team}"}, bronze: {freshness: 1h}}
default_environment: dev
environments:
  dev:
    warehouse: .lakesmith/warehouse
    landing: landing
    jobs: 3
    spark: {spark.sql.shuffle.partitions: "4", spark.x: "${token}"}
    variables: {none: a}
  prod: {warehouse: /srv/lake, variables: {none: b}}
""",
    "bronze/orders.yml": b"""\
source: {files: orders/*.csv, format: csv, delimiter: ";", encoding: latin-1, timezone: Europe/Oslo, max_files: 10}
contract: {mode: strict, version: "2.1.0", drift: {type: quarantine, new_column: discard}}
owner: ${team}
tags: [daily, core]
columns:
  order_id: {type: bigint, key: true, required: true}
  email: {type: string, unique: true, tags: [pii], description: "Who: ordered it"}
  amount: {type: "decimal(12,2)", check: "amount >= 0 OR (email = '$${x}')"}
  currency: {type: string, description: "of the amount"}
  place: "struct<city:string,geo:struct<lat:double,lon:float>,tags:array<string>>"
  extra: "map<string,array<struct<a:tinyint,b:binary>>>"
  updated_at: {type: timestamp}
checks:
  known: &a {where: "currency in ('EUR','USD')", on_fail: quarantine}
  again: *a
  enough: {expect: "count(*) > 0", on_fail: fail}
quarantine: {alert_after: 7d, alert_rows: 100}
""",
    "silver/orders.sql": b"""\
-- Orders, the newest version of each.
/* lakesmith
load: {merge: {key: order_id, order_by: updated_at}}
columns:
  order_id: {type: bigint, required: true}
  amount: {type: "decimal(12,2)", check: "amount >= 0"}
checks:
  enough_rows: {expect: "count(*) > 0", on_fail: fail}
*/
WITH cleaned AS (
  SELECT order_id, lower(trim(email)) AS email, CAST(amount AS DECIMAL(12,2)) AS amount, currency, updated_at,
         row_number() OVER (PARTITION BY order_id ORDER BY updated_at DESC) AS place
  FROM bronze.orders WHERE currency <> ';' -- not this
)
SELECT order_id, email, amount, currency, updated_at FROM cleaned WHERE place = 1;
""",
    "silver/history.sql": b"""\
/* lakesmith
load: {scd2: {key: [order_id], order_by: updated_at, track: [amount]}}
*/
SELECT order_id, amount, updated_at FROM bronze.orders
""",
    "gold/daily.sql": b"""\
/* lakesmith
load: {replace_partitions: {by: day}}
*/
SELECT to_date(o.updated_at) AS day, count(*) AS orders, sum(o.amount) AS amount, max(h.amount) AS most
FROM silver.orders o LEFT JOIN silver.history h ON o.order_id = h.order_id
GROUP BY to_date(o.updated_at)
""",
    "silver/orders.test.yml": b"""\
the_newest_wins:
  description: Of two versions of an order, the later one.
  given:
    bronze.orders:
      - {order_id: 1, amount: "1.50", currency: EUR, updated_at: "2026-01-01 10:00:00"}
      - {order_id: 1, amount: "2.50", currency: EUR, updated_at: "2026-01-02 10:00:00"}
  then:
    - bronze.orders: [{order_id: 2, amount: "-1", currency: USD, updated_at: "2026-01-03 10:00:00"}]
  expect: [{order_id: 1, amount: "2.50"}]
  quarantine: [{order_id: 2, rules: [amount.check]}]
by_file: {given: {bronze.orders: rows.csv}, expect: []}
""",
    "silver/rows.csv": b"order_id,amount,currency,updated_at\n1,1.5,EUR,2026-01-01 10:00:00\n2,,USD,\n",
    "tests/more.yml": b"""\
none_at_all: {table: silver.orders, given: {bronze.orders: []}, expect: [], exactly: true}
""",
}

ODCS: dict[str, Any] = {
    "apiVersion": "v3.1.0",
    "kind": "DataContract",
    "id": "orders",
    "name": "orders",
    "version": "1.2.0",
    "status": "active",
    "description": {"purpose": "All orders", "usage": "any"},
    "tags": ["core"],
    "schema": [
        {
            "name": "orders",
            "physicalName": "silver.orders",
            "logicalType": "object",
            "properties": [
                {
                    "name": "id",
                    "logicalType": "integer",
                    "physicalType": "bigint",
                    "primaryKey": True,
                    "required": True,
                },
                {"name": "amount", "logicalType": "number", "physicalType": "decimal(12,2)"},
                {"name": "at", "logicalType": "timestamp", "logicalTypeOptions": {"timezone": True}},
                {"name": "email", "logicalType": "string", "unique": True, "classification": "pii"},
                {"name": "tags", "logicalType": "array", "items": {"logicalType": "string"}},
                {
                    "name": "place",
                    "logicalType": "object",
                    "properties": [{"name": "city", "logicalType": "string"}],
                },
            ],
            "quality": [
                {"metric": "nullValues", "mustBe": 0, "arguments": {"properties": ["id"]}},
                {"type": "sql", "query": "SELECT count(*) FROM {object} WHERE amount < 0", "mustBe": 0},
                {"metric": "rowCount", "mustBeBetween": [1, 1000]},
            ],
        }
    ],
    "slaProperties": [{"property": "latency", "value": 4, "unit": "h"}],
    "team": [{"username": "ann", "role": "owner"}],
    "servers": [{"server": "local", "type": "local", "path": "landing/orders/*.json", "format": "json"}],
}

SUITE: dict[str, Any] = {
    "name": "orders",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id", "mostly": 0.95}},
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}, "meta": {"notes": "why"}},
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {
                "column": "amount",
                "min_value": 0,
                "max_value": 10,
                "row_condition": 'col("a") == "b"',
                "condition_parser": "great_expectations",
            },
        },
        {
            "type": "expect_column_values_to_not_be_null",
            "kwargs": {
                "column": "b",
                "row_condition": "`a b` > 1 and not (c == 'x' or d in [1, 2])",
                "condition_parser": "pandas",
            },
        },
        {
            "type": "expect_column_values_to_be_unique",
            "kwargs": {"column": "b", "row_condition": "a > 1 AND b IN (1)", "condition_parser": "spark"},
        },
        {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "email", "regex": "^[^@]+@[^@]+$"}},
        {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "c", "value_set": ["EUR", 1, None]}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1, "max_value": 10}},
        {
            "type": "expect_column_quantile_values_to_be_between",
            "kwargs": {
                "column": "a",
                "quantile_ranges": {"quantiles": [0.1, 0.9], "value_ranges": [[0, 1], [5, None]]},
            },
        },
        {
            "type": "unexpected_rows_expectation",
            "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE a > 1"},
        },
        {"type": "expect_column_values_to_be_of_type", "kwargs": {"column": "a", "type_": "IntegerType"}},
    ],
    "meta": {"great_expectations_version": "1.2"},
}


@cache
def lakes() -> tuple[Files, ...]:
    """Return valid lakes: of the tests, the template, the example and the pages."""
    found: list[Files] = [WIDE_LAKE]
    for folder, name in ((ROOT / "src/lakesmith/cli/template", "shop"), (ROOT / "examples/shop", "shop")):
        files = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.suffix in (".yml", ".sql")}
        files.pop("gold/country_sales.test.yml", None)  # its table is written in Python
        found.append({file: path.read_bytes().replace(b"{{name}}", name.encode()) for file, path in files.items()})
    for page in pages():
        shown: dict[str, bytes] = {}
        for block in blocks(page):
            if block.file is not None and not block.file.endswith(".py"):
                shown.setdefault(block.file, block.text.encode())
        if shown:
            found.append({"lakesmith.yml": b"name: shop\n", **shown})
    return tuple(found)


ROWS = [
    {
        "id": number,
        "name": name,
        "amount": Decimal(number) / 4,
        "at": datetime(2026, 1, 1 + number % 28, 12, number % 60, tzinfo=UTC),
        "day": date(2026, 1, 1 + number % 28),
        "ok": number % 2 == 0,
        "tags": [name, "x"] if number % 3 else [],
        "place": {"city": name, "lat": number / 7},
    }
    for number, name in enumerate(["a", "é", "", "long " * 20, '"q"', "a,b;c", "1", "null", "\u4e2d", "z"] * 3)
]
COLUMNS = {
    "id": "bigint",
    "name": "string",
    "amount": "decimal(12,2)",
    "at": "timestamp",
    "day": "date",
    "ok": "boolean",
    "tags": "array<string>",
    "place": "struct<city:string,lat:double>",
}
_TYPES = {
    "id": pa.int64(),
    "name": pa.string(),
    "amount": pa.decimal128(12, 2),
    "at": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
    "ok": pa.bool_(),
    "tags": pa.list_(pa.string()),
    "place": pa.struct([("city", pa.string()), ("lat", pa.float64())]),
}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ok", "type": "boolean"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "place",
            "type": {
                "type": "record",
                "name": "Place",
                "fields": [{"name": "city", "type": "string"}, {"name": "lat", "type": "double"}],
            },
        },
        {"name": "either", "type": ["null", "int", "string", {"type": "map", "values": "long"}], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "A"},
    ],
}
CHANGE: dict[str, Any] = {
    "schema": {"type": "struct"},
    "payload": {
        "before": None,
        "after": {"id": 1, "name": "a"},
        "op": "c",
        "ts_ms": 1_767_225_600_000,
        "source": {"connector": "postgresql", "lsn": 7, "ts_ms": 1_767_225_600_000, "sequence": '["1","2"]'},
    },
}


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A small valid file and its declaration."""

    name: str
    format: FileFormat
    data: bytes
    source: Mapping[str, Any] = field(default_factory=dict)


@cache
def data_files() -> tuple[DataFile, ...]:
    """One file of each format, and of each variant that readers treat differently."""
    lines = [json.dumps(row, default=str) for row in ROWS]
    text = "\n".join(lines).encode()
    rows = ["id;name;amount;at;day;ok", *(f'{r["id"]};"{r["name"]}";{r["amount"]};{r["at"]};;true' for r in ROWS)]
    semicolons = "\n".join(rows).replace('""q""', '"""q"""').encode()
    commas = b"id,name,amount\n" + b"".join(b"%d,n%d,1.50\r\n" % (n, n) for n in range(30))
    changes = [{**CHANGE, "payload": {**CHANGE["payload"], "op": op}} for op in "crud"]
    xml = "".join(f'<row id="{r["id"]}"><name>{r["id"]} &lt;</name><tags>x</tags><tags>y</tags></row>' for r in ROWS)
    return (
        DataFile(name="lines", format="json", data=text),
        DataFile(name="array", format="json", data=f"[{','.join(lines)}]".encode()),
        DataFile(name="pretty", format="json", data=json.dumps(ROWS[0], default=str, indent=2).encode()),
        DataFile(name="gzip", format="json", data=gzip.compress(text, mtime=0)),
        DataFile(name="bz2", format="json", data=bz2.compress(text)),
        DataFile(name="zstd", format="json", data=_zstd(text)),
        DataFile(name="utf-16", format="json", data=text.decode().encode("utf-16")),
        DataFile(
            name="debezium",
            format="json",
            data="\n".join(map(json.dumps, changes)).encode(),
            source={"envelope": "debezium"},
        ),
        DataFile(name="semicolons", format="csv", data=semicolons, source={"delimiter": ";"}),
        DataFile(name="commas", format="csv", data=commas),
        DataFile(name="latin", format="csv", data="id,name\n1,é\n".encode("latin-1"), source={"encoding": "latin-1"}),
        DataFile(name="text", format="text", data="one\ntwo\r\n\nthree é".encode()),
        DataFile(
            name="xml",
            format="xml",
            data=f'<?xml version="1.0"?><rows xmlns:a="urn:a">{xml}</rows>'.encode(),
            source={"row_tag": "row"},
        ),
        DataFile(
            name="declared",
            format="xml",
            data='<?xml version="1.0" encoding="iso-8859-1"?><r><row a="é"/></r>'.encode("latin-1"),
            source={"row_tag": "row"},
        ),
        *(DataFile(name=codec, format="avro", data=_avro(codec)) for codec in ("null", "deflate", "bzip2")),
        *_parquets(),
        DataFile(name="orc", format="orc", data=_orc("uncompressed")),
        DataFile(name="orc-zlib", format="orc", data=_orc("zlib")),
    )


def table() -> pa.Table:
    return pa.Table.from_pylist(ROWS, schema=pa.schema(list(_TYPES.items())))


def _parquets() -> list[DataFile]:
    ways: dict[str, dict[str, Any]] = {
        "plain": {"compression": "none", "use_dictionary": False},
        "snappy": {"compression": "snappy"},
        "zstd": {"compression": "zstd", "row_group_size": 7, "data_page_size": 64},
        "int96": {"use_deprecated_int96_timestamps": True, "version": "1.0", "compression": "gzip"},
        "delta": {
            "compression": "none",
            "use_dictionary": False,
            "column_encoding": {"id": "DELTA_BINARY_PACKED", "name": "DELTA_BYTE_ARRAY"},
            "data_page_version": "2.0",
        },
    }
    found = []
    for name, how in ways.items():
        made = io.BytesIO()
        pq.write_table(table(), made, **how)
        found.append(DataFile(name=name, format="parquet", data=made.getvalue()))
    return found


def _orc(compression: str) -> bytes:
    made = io.BytesIO()
    pyarrow.orc.write_table(table(), made, compression=compression)
    return made.getvalue()


def _avro(codec: str) -> bytes:
    made = io.BytesIO()
    rows = [{**row, "either": {"a": row["id"]} if row["ok"] else row["id"], "kind": "B"} for row in ROWS]
    fastavro.writer(made, fastavro.parse_schema(AVRO), rows, codec=codec, sync_interval=600, sync_marker=b"S" * 16)
    return made.getvalue()


def _zstd(data: bytes) -> bytes:
    made = pa.BufferOutputStream()
    with pa.CompressedOutputStream(made, "zstd") as stream:
        stream.write(data)
    return bytes(made.getvalue())


def avro_with(schema: bytes, codec: bytes = b"null", blocks: bytes = b"") -> bytes:
    """Return an Avro file with another schema, codec or content."""
    metadata = b"".join(_long(len(part)) + part for part in (b"avro.schema", schema, b"avro.codec", codec))
    return b"Obj\x01" + _long(2) + metadata + b"\x00" + b"S" * 16 + blocks


def avro_block(count: int, size: int, data: bytes) -> bytes:
    """Return a block whose declared numbers of records and bytes can be wrong."""
    return _long(count) + _long(size) + data + b"S" * 16


def _long(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
