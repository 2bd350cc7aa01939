"""Widened columns: by new values under `additive`, by a declaration, and their later readers."""

from __future__ import annotations

import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from tests.run.lakes import Written

from lakesmith.errors import DeclarationError
from lakesmith.formats.delta import spark_writes
from lakesmith.spark.ingest import files

pytestmark = pytest.mark.spark

INNER = pa.struct([("b", pa.int32()), ("c", pa.list_(pa.int16()))])
NARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("f", pa.float32()),
        ("d", pa.decimal128(10, 2)),
        ("w", pa.int16()),
        ("st", INNER),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("fixed", pa.int32()),
    ]
)
WIDE_INNER = pa.struct([("b", pa.int64()), ("c", pa.list_(pa.int32()))])
WIDE = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("d", pa.decimal128(15, 3)),
        ("w", pa.decimal128(12, 2)),
        ("st", WIDE_INNER),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("fixed", pa.int64()),
    ]
)
FIRST = {"id": 1, "f": 0.5, "d": Decimal("1.25"), "w": 3, "st": {"b": 4, "c": [5]}, "m": [("k", 6)], "fixed": 7}
SECOND = {
    "id": 1 << 40,
    "f": 0.1,
    "d": Decimal("123456789012.125"),
    "w": Decimal("2.75"),
    "st": {"b": 1 << 41, "c": [1 << 17]},
    "m": [("k", 1 << 42)],
    "fixed": 1 << 43,
}
WIDENED = (
    "id: int → bigint; f: float → double; d: decimal(10,2) → decimal(15,3); w: smallint → decimal(12,2); "
    "st.b: int → bigint; st.c: smallint → int; m: int → bigint"
)


def test_a_wider_type_widens_an_undeclared_column_and_all_readers_read_it(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_SMALL", 0)  # as if there were too much data for a survey
    written.declare(
        {
            "bronze/p.yml": "source: {files: landing/p/*.parquet}\ncolumns: {fixed: int}\n",
            "silver/p.sql": "/* lakesmith\nload: {merge: {key: id, order_by: id}}\n*/\n"
            "SELECT id, w, st.b AS b FROM bronze.p\n",
            "gold/p.sql": "/* lakesmith\nload: {replace_partitions: b}\n*/\n"
            "SELECT b, count(*) AS n FROM silver.p GROUP BY b\n",
        }
    )
    _land(written, "p/a.parquet", NARROW, FIRST)
    assert written.run()["bronze.p"].columns_widened is None

    _land(written, "p/b.parquet", WIDE, SECOND)
    steps = written.run()
    assert (steps["bronze.p"].columns_widened, steps["bronze.p"].rows_rescued) == (WIDENED, 1)
    assert (steps["silver.p"].mode, steps["silver.p"].rows_written) == ("full", 2)
    assert "types in bronze.p changed (id, f, d, w, st.b" in steps["silver.p"].reason
    assert (steps["gold.p"].mode, steps["gold.p"].rows_written) == ("full", 2)

    columns = "id, f, d, w, st, m, fixed, _rescued"
    assert written.rows(f"SELECT {columns} FROM bronze.p ORDER BY id") == [
        (1, 0.5, Decimal("1.250"), Decimal("3.00"), {"b": 4, "c": [5]}, {"k": 6}, 7, None),
        (
            *(1 << 40, 0.1, Decimal("123456789012.125"), Decimal("2.75")),
            *({"b": 1 << 41, "c": [1 << 17]}, {"k": 1 << 42}, None, f'{{"fixed": {1 << 43}}}'),
        ),
    ]
    assert written.rows("SELECT id, d FROM bronze.p WHERE id > 5000000000 AND d > 2") == [
        (1 << 40, Decimal("123456789012.125"))
    ]
    assert written.rows("SELECT id FROM bronze.p WHERE id = 1 AND st.b = 4") == [(1,)]
    assert written.rows("SELECT id, w, b FROM silver.p ORDER BY id") == [
        (1, Decimal("3.00"), 4),
        (1 << 40, Decimal("2.75"), 1 << 41),
    ]
    # An earlier version has its earlier types.
    assert written.rows("SELECT id, w, typeof(id) FROM bronze.p", "bronze.p=0") == [(1, 3, "INTEGER")]
    report = next(status for status in written.lake().status() if status.table == "bronze.p")
    assert (report.rows, report.version) == (2, 2)
    assert written.run() == {}

    # From here on nothing is wider, and changes are read incrementally again.
    _land(written, "p/c.parquet", NARROW, {**FIRST, "id": 2})
    steps = written.run()
    assert (steps["bronze.p"].columns_widened, steps["silver.p"].mode) == (None, "changes")
    assert written.rows("SELECT count(*), sum(id) FROM silver.p") == [(3, 3 + (1 << 40))]

    # Restored to before it was widened: the wide file is new again, and widens the table again.
    place = written.folder / ".lakesmith/warehouse/bronze/p"
    written.spark.sql(f"RESTORE TABLE delta.`{place}` TO VERSION AS OF 0")
    assert written.rows("SELECT id, w FROM bronze.p") == [(1, 3)]
    steps = written.run()
    assert steps["bronze.p"].columns_widened == WIDENED
    assert steps["silver.p"].mode == "full"
    assert written.rows("SELECT id FROM silver.p ORDER BY id") == [(1,), (2,), (1 << 40,)]


def test_files_of_every_format_widen_and_a_strict_contract_does_not(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_SMALL", 0)
    written.declare(
        {
            **{
                f"bronze/{name}.yml": f"source: {{files: landing/{name}/*.{name}}}\ncolumns: {{k: bigint}}\n"
                for name in ("json", "avro", "orc")
            },
            "bronze/open.yml": "source: {files: landing/json/*.json}\ncolumns: {k: bigint}\ncontract: open\n",
            "bronze/strict.yml": "source: {files: landing/orc/*.orc}\ncolumns: {n: int}\ncontract: strict\n",
        }
    )
    narrow, wide = pa.schema([("n", pa.int32())]), pa.schema([("n", pa.int64())])
    written.land("json/a.json", {"n": 1})
    _land_avro(written, "avro/a.avro", "int", 1)
    _land(written, "orc/a.orc", narrow, {"n": 1}, orc.write_table)
    written.run()
    written.land("json/b.json", {"n": 2}, {"n": 10**30}, {"n": 3.5})
    _land_avro(written, "avro/b.avro", "long", 1 << 40)
    _land(written, "orc/b.orc", wide, {"n": 1 << 40}, orc.write_table)
    steps = written.run(ok=False)
    assert [(error.code, error.table) for error in written.reports[-1].errors] == [("contract-broken", "bronze.strict")]
    assert "int → bigint" in written.reports[-1].errors[0].what
    assert steps["bronze.avro"].columns_widened == steps["bronze.orc"].columns_widened == "n: int → bigint"
    assert written.rows("SELECT n FROM bronze.avro ORDER BY n") == [(1,), (1 << 40,)]
    assert written.rows("SELECT n FROM bronze.orc ORDER BY n") == [(1,), (1 << 40,)]
    # One number in the file has a fraction: no column holds both exactly, and neither is changed.
    assert (steps["bronze.json"].columns_widened, steps["bronze.json"].rows_rescued) == (None, 2)
    written.land("json/c.json", {"n": 10**30})
    assert written.run("bronze.json")["bronze.json"].columns_widened == "n: bigint → decimal(38,0)"
    assert written.rows("SELECT n FROM bronze.json WHERE n IS NOT NULL ORDER BY n") == [(1,), (2,), (10**30,)]
    assert written.rows("SELECT typeof(n) FROM bronze.open LIMIT 1") == [("VARCHAR",)]


def test_a_declared_wider_type_widens_without_rows_and_any_other_type_is_rejected(written: Written) -> None:
    declared = (
        "source: {{files: landing/o/*.json}}\ncontract: {{compatibility: none}}\ncolumns: {{id: int, amount: '{}'}}\n"
    )
    written.declare(
        {
            "bronze/o.yml": declared.format("decimal(6,2)"),
            "silver/o.sql": "/* lakesmith\nload: append\n*/\nSELECT id, amount FROM bronze.o\n",
        }
    )
    written.land("o/a.json", {"id": 1, "amount": "1234.50"}, {"id": 2, "amount": "123456.50"})
    assert written.run()["bronze.o"].rows_rescued == 1

    written.declare({"bronze/o.yml": declared.format("decimal(10,2)")})
    bronze, silver = written.lake().plan().tables
    assert bronze.reason == "amount is declared wider (decimal(6,2) → decimal(10,2))"
    assert [type(step).__name__ for step in bronze.steps] == ["Widen"]
    assert "types in bronze.o changed (amount)" in str(getattr(silver.steps[0], "cost_reason", None))
    steps = written.run()
    assert (steps["bronze.o"].step, steps["bronze.o"].mode) == ("widen", "columns")
    assert steps["bronze.o"].columns_widened == "amount: decimal(6,2) → decimal(10,2)"
    assert steps["silver.o"].mode == "full"
    assert written.run() == {}

    written.land("o/b.json", {"id": 3, "amount": "123456.50"})
    steps = written.run()
    assert (steps["bronze.o"].rows_rescued, steps["silver.o"].mode) == (0, "changes")
    assert written.rows("SELECT id, amount FROM silver.o ORDER BY id") == [
        (1, Decimal("1234.50")),
        (2, None),
        (3, Decimal("123456.50")),
    ]
    written.declare({"bronze/o.yml": declared.format("decimal(8,2)")})
    (found,) = written.lake().plan().problems
    assert isinstance(found, DeclarationError)
    assert found.code == "type-changed"


def test_a_run_killed_between_the_table_feature_and_the_rows_changes_no_row(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.declare({"bronze/c.yml": "source: {files: landing/c/*.parquet}\n"})
    narrow, wide = pa.schema([("n", pa.int32())]), pa.schema([("n", pa.int64())])
    _land(written, "c/a.parquet", narrow, {"n": 1})
    written.run()
    _land(written, "c/b.parquet", wide, {"n": 1 << 40})

    def ended(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(spark_writes, "_commit", ended)
        with pytest.raises(KeyboardInterrupt):
            written.run()
    assert written.version("bronze.c") == 1
    assert written.rows("SELECT n, typeof(n) FROM bronze.c") == [(1, "INTEGER")]
    assert written.run()["bronze.c"].columns_widened == "n: int → bigint"
    assert written.rows("SELECT n FROM bronze.c ORDER BY n") == [(1,), (1 << 40,)]
    # No rows: delta-rs cannot commit to such a table.
    written.declare(
        {
            "bronze/c.yml": "source: {files: landing/c/*.parquet}\n"
            "checks: {some: {expect: count(*) >= 0, on_fail: fail}}\n"
        }
    )
    pq.write_table(wide.empty_table(), written.folder / "landing/c/c.parquet")
    step = written.run()["bronze.c"]
    assert (step.rows_in, step.outcome) == (0, "ok")
    assert written.run() == {}


def _land(
    written: Written,
    name: str,
    schema: pa.Schema,
    row: dict[str, object],
    write: Callable[[pa.Table, Path], None] = pq.write_table,
) -> None:
    path = written.folder / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write(pa.Table.from_pylist([row], schema=schema), path)


def _land_avro(written: Written, name: str, type: str, value: int) -> None:
    data = io.BytesIO()
    schema = {"type": "record", "name": "row", "fields": [{"name": "n", "type": type}]}
    fastavro.writer(data, fastavro.parse_schema(schema), [{"n": value}])
    path = written.folder / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.getvalue())
