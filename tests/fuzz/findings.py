"""What the fuzzer once found, smaller: each of these ended in a traceback, a crash, a hang or silence.

python -m tests.fuzz --seed found --only 3
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.fuzz import corpus
from tests.fuzz.corpus import DataFile
from tests.fuzz.entries import DECLARED
from tests.fuzz.landing import Entry
from tests.fuzz.logs import valid_log
from tests.fuzz.model import Case

_LAKE = {"lakesmith.yml": b"name: shop\n", "bronze/orders.yml": b"source: {files: landing/orders/*.json}\n"}


def _sql(text: str) -> Case:
    file = "silver/a.sql"
    return Case(kind="sql", target=file, files={**_LAKE, file: text.encode()})


def _lake(text: str) -> Case:
    return Case(kind="lake", target="lakesmith.yml", files={**_LAKE, "lakesmith.yml": text.encode()})


def _table(text: str) -> Case:
    return Case(kind="table", target="bronze/a.yml", files={**_LAKE, "bronze/a.yml": text.encode()})


def _check(condition: str) -> Case:
    return _table(f"source: {{files: a/*.json}}\ncolumns:\n  a: {{type: int, check: {json.dumps(condition)}}}\n")


def _avro(data: bytes) -> Case:
    return data_case(DataFile(name="found", format="avro", data=data))


def data_case(file: DataFile) -> Case:
    """Return a case that reads a file with all columns."""
    options: dict[str, Any] = {"format": file.format, "source": file.source, "surveyed": True, "widening": False}
    options |= {"columns": "all", "folder": "in", "held": 64 << 20}
    return Case(kind=file.format, target=file.name, files={"data": file.data}, options=options)


def _landing(*entries: Entry, pattern: str = "*.json") -> Case:
    options = {"entries": entries, "pattern": pattern, "symlinks": "inside", "listing": "full", "archive": None}
    return Case(kind="landing", target=pattern, options=options)


def _entries(*entries: Entry) -> Case:
    return Case(kind="entries", target="", files=DECLARED, options={"entries": entries})


def _schema_bomb() -> object:
    made: object = {"type": "record", "name": "R0", "fields": [{"name": "f", "type": "int"}]}
    for level in range(1, 30):
        uses = [{"name": "a", "type": made}, *({"name": f"b{n}", "type": f"R{level - 1}"} for n in range(3))]
        made = {"type": "record", "name": f"R{level}", "fields": uses}
    return made


def _nulls(count: int) -> bytes:
    fields = [{"name": f"n{number}", "type": "null"} for number in range(1_000)]
    schema = json.dumps({"type": "record", "name": "R", "fields": fields}).encode()
    return corpus.avro_with(schema, b"null", corpus.avro_block(count, 0, b""))


def _more_records_than_declared() -> bytes:
    """Return one record of no bytes with a declared count of three hundred million."""
    return corpus.avro_block(1, 6, b"\x80\x80\x80\x80\x02\x00")


_ARRAY_OF_NOTHING = json.dumps(
    {"type": "record", "name": "A", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
).encode()


def _message(schema: str) -> Case:
    options = {"values": "avro", "envelope": None, "surveyed": True, "mutations": 1, "schema": schema}
    return Case(kind="message", target="avro", options=options)


def _command(*words: str) -> Case:
    return Case(kind="command", target="lakesmith.yml", files=corpus.WIDE_LAKE, options={"words": list(words)})


def _batch(**changes: object) -> Case:
    from tests.fuzz.cases import batch_files

    return batch_files({"00000003.01.json": changes})


FOUND: tuple[Callable[[], Case], ...] = (
    # Access rules were silently ignored, and protected nothing.
    lambda: Case(kind="access", target="access.yml", files={**_LAKE, "access.yml": corpus.ACCESS}),
    lambda: Case(kind="access", target="Access.YAML", files={**_LAKE, "Access.YAML": corpus.ACCESS}),
    lambda: Case(kind="access", target="access/a.yml", files={**_LAKE, "access/a.yml": b""}),
    # The parser's compiled code overflowed the stack.
    lambda: _sql("SELECT a FROM " + "(SELECT a FROM " * 20_000 + "bronze.orders" + ") x" * 20_000),
    lambda: _sql("SELECT a FROM " + "(" * 100_000 + "bronze.orders" + ")" * 100_000),
    lambda: _sql("SELECT CAST(a AS " + "struct<a:" * 20_000 + "int" + ">" * 20_000 + ") AS a FROM bronze.orders"),
    # … or raised a traceback.
    lambda: _sql("SELECT " + "(" * 1_500 + "1" + ")" * 1_500 + " AS a FROM bronze.orders"),
    lambda: _sql("SELECT " + "NOT " * 1_500 + "a AS a FROM bronze.orders"),
    lambda: _sql("SELECT a FROM " + "(SELECT a FROM " * 1_000 + "bronze.orders" + ") x" * 1_000),
    lambda: _check("(" * 5_000 + "a" + ")" * 5_000),
    lambda: _check("NOT " * 5_000 + "a"),
    lambda: _sql("SELECT a FROM bronze.orders" + " UNION ALL SELECT a FROM bronze.orders" * 1_500),
    lambda: _sql("SELECT " + "a." * 1_500 + "a FROM bronze.orders"),
    # Another value was used instead of a table or a function.
    lambda: _sql("SELECT a FROM bronze.orders JOIN @a(1)"),
    lambda: _sql("SELECT a FROM bronze.orders, a.b(1)"),
    # Each JOIN without a condition took twice the time.
    lambda: _sql("SELECT a FROM bronze.orders" + " JOIN bronze.orders" * 40),
    lambda: _sql("SELECT a FROM bronze.orders" + " JOIN bronze.orders JOIN bronze.orders JOIN a ON x" * 20),
    # An error without a next step, with control characters, or of many pages.
    lambda: _sql("SELECT ( FROM bronze.orders"),
    lambda: _sql("SELECT 'a' 'b' \x7f 1 ( FROM bronze.orders"),
    lambda: _table('"\\e[2J\\e]0;x\\a": 1\n'),
    lambda: _table(f"source: {{files: landing/{'a' * 5_000}}}\n"),
    lambda: _command("validate", "\x1b]0;x\x07"),
    lambda: _command("plan", "\x1b]0;x\x07"),
    lambda: _command("--lake", "a" * 5_000, "status"),
    lambda: _command("init", "a" * 5_000),
    # Nested lambdas in SQL, which recurse with one call per level.
    lambda: _sql(f"SELECT id, {'x -> ' * 350}x FROM bronze.orders"),
    # A query with a lone surrogate, and a warehouse error without a place.
    lambda: _command("query", "SELECT '\udc80' FROM silver.orders"),
    lambda: _lake("name: shop\nenvironments:\n  dev: {warehouse: 's3://lake/warehouse'}\n"),
    # A folder name that is too long for the disk.
    lambda: _table(f"source: {{files: landing/{'a' * 300}/*.json}}\n"),
    # A codec with its own error classes, and schemas and blocks that expand without end.
    lambda: _avro(corpus.avro_with(json.dumps(corpus.AVRO).encode(), b"xz", corpus.avro_block(1, 3, b"abc"))),
    lambda: _avro(corpus.avro_with(json.dumps(_schema_bomb()).encode(), b"null", b"")),
    lambda: _avro(_nulls(20_000)),
    lambda: _avro(
        corpus.avro_with(b'{"type": "record", "name": "A", "fields": []}', b"null", _more_records_than_declared())
    ),
    lambda: _avro(
        corpus.avro_with(_ARRAY_OF_NOTHING, b"null", corpus.avro_block(1, 7, b"\xfe\xff\xff\xff\x7f\x00\x00"))
    ),
    lambda: _message(json.dumps(_schema_bomb())),
    lambda: _message('{"type": "record", "name": "A", "fields": [{"name": "a", "type": {"items": "int"}}]}'),
    # A batch that is its own parent, and one with invalid numbers.
    lambda: _batch(parent=3),
    lambda: _batch(parent="2"),
    lambda: _batch(content={"files": [["a", "b", None]]}),
    lambda: _batch(backfill={"span": {"start": "2026-01-01", "end": "2026-01-31"}, "days": 0, "done": None}),
    # Malformed or empty decisions were accepted.
    lambda: _batch(approval={}),
    lambda: _batch(approval={"by": "ann", "why": "looked at", "run_id": "q", "rows": "3"}),
    lambda: _batch(mode="replay", content={"replay": {"chosen": {"ids": "abc"}, "by": "ann"}}),
    lambda: _batch(
        mode="replay", content={"replay": {"chosen": {"ids": []}, "by": "ann", "edits": {"a": {"amount": 1}}}}
    ),
    lambda: _batch(mode="replay", content={"replay": {"chosen": {"ids": []}, "by": "ann", "discard": "no"}}),
    lambda: _batch(mode="restore", content={"rollback": {"version": "1", "head": 2}}),
    lambda: _batch(mode="restore", content={"rollback": {"version": 1, "head": 2, "quarantine": "0"}}),
    # An empty list instead of missing files.
    lambda: _batch(content={"files": {}}),
    lambda: _batch(mode="changes", content={"since": {"bronze.orders": "3"}}),
    # An unknown mode, and fields of another mode.
    lambda: _batch(mode="other"),
    lambda: _batch(mode="full"),
    # A link to itself stopped the whole plan, and a name that is not UTF-8 stopped its batch.
    lambda: _landing(Entry(path=b"a.json", kind="link", target=b"a.json")),
    lambda: _landing(Entry(path=b"d", kind="link", target=b"d"), pattern="*/a.json"),
    lambda: _landing(Entry(path=b"caf\xe9.json", kind="file")),
    # These were ingested from outside, or silently skipped.
    lambda: _landing(Entry(path=b"a.json", kind="link", target=b"@outside/s.json")),
    lambda: _landing(Entry(path=b"a.json", kind="link", target=b"nothing")),
    lambda: _landing(Entry(path=b"_a.json", kind="link", target=b"."), pattern="*"),
    lambda: _landing(Entry(path=b"a.json", kind="fifo")),
    # Actions that delta-rs reads late, and a checkpoint without a byte.
    lambda: valid_log({f"{2:020}.json": b'{"txn":{"appId":null,"version":3}}\n'}),
    lambda: valid_log({f"{2:020}.json": b'{"txn":{"appId":"a","version":{}}}\n'}),
    lambda: valid_log({f"{1:020}.checkpoint.parquet": b""}),
    lambda: valid_log({f"{2:020}.json": b'{"add":{"path":"a","size":"x","partitionValues":{}}}\n'}),
    # Entries that are no files, among declarations and data.
    lambda: _entries(Entry(path=b"silver/x.yml", kind="link", target=b"x.yml")),
    lambda: _entries(Entry(path=b"x", kind="link", target=b"x"), Entry(path=b"silver/x", kind="link", target=b"x")),
    lambda: _entries(Entry(path=b"silver/x.test.yml", kind="fifo")),
    lambda: _entries(Entry(path=b"adopted/x.parquet", kind="fifo")),
    lambda: _entries(Entry(path=b"adopted/caf\xe9.parquet", kind="file")),
)
