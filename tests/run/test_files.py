"""Files of every format into bronze, in one lake: one run for many tables keeps the JVM's share small."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from tests.run.lakes import Written

from lakesmith.spark.ingest import files

pytestmark = pytest.mark.spark

JSON = {"bronze/orders.yml": "source: {files: landing/orders/*.json}\n"}
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "who": ["a", None]})


def test_files_of_every_format_and_compression_give_the_same_rows(written: Written) -> None:
    lines = b'{"id": 1, "who": "a"}\n{"id": 2, "who": null}\n'
    record = {
        "type": "record",
        "name": "row",
        "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": ["null", "string"]}],
    }
    avro = io.BytesIO()
    fastavro.writer(avro, record, ROWS.to_pylist())
    landed = {
        "lines.json": lines,
        "packed.json.gz": gzip.compress(lines),
        "bzip.json.bz2": bz2.compress(lines),
        "zstd.json.zst": bytes(pa.compress(lines, "zstd", asbytes=True)),
        "array.json": json.dumps(ROWS.to_pylist(), indent=1).encode(),
        "table.tsv": b"id\twho\n1\ta\n2\t\n",
        "cells.csv": b"who,id\r\na,1\r\n,2\r\n",
        "rows.parquet": _written(pq.write_table),
        "rows.orc": _written(orc.write_table),
        "rows.avro": avro.getvalue(),
        "rows.xml": b"<all><row><id>1</id><who>a</who></row><row><id>2</id></row></all>",
    }
    for name, data in landed.items():
        table, _, ending = name.partition(".")
        more = ", row_tag: row" if ending == "xml" else ""
        glob = f"landing/{table}_{ending.replace('.', '_')}/*.{ending}"
        written.declare(
            {
                f"bronze/{table}_{ending.replace('.', '_')}.yml": f'source: {{files: "{glob}"{more}}}\n'
                "columns: {id: bigint, who: string}\n"
            }
        )
        path = written.folder / glob.replace("*", "a")
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    steps = written.run()
    assert {table: step.rows_written for table, step in steps.items()} == dict.fromkeys(steps, 2)
    assert len(steps) == len(landed)
    for table in steps:
        assert written.rows(f"SELECT id, who, _rescued FROM {table} ORDER BY id") == [(1, "a", None), (2, None, None)]


def test_rows_are_the_same_whether_their_readers_write_them_or_spark_does(written: Written) -> None:
    columns = (
        "columns:\n  id: bigint\n  price: decimal(12,2)\n  wide: decimal(30,4)\n  at: timestamp\n  day: date\n"
        "  local: timestamp_ntz\n  small: smallint\n  part: float\n  item: struct<name:string,tags:array<string>>\n"
    )
    source = 'source: {files: "landing/orders/*.json"}\n'
    check = 'checks: {anything: {where: "true"}}\n'  # Spark must check it, so Spark writes the rows
    written.declare({"bronze/direct.yml": source + columns, "bronze/judged.yml": source + columns + check})
    full = {
        "id": 1, "price": "1.20", "wide": 123456789012345678.5, "at": "2026-01-31T10:00:00.123456+02:00",
        "day": "2026-01-31", "local": "2026-01-31T10:00:00", "small": 7, "part": 0.5,
        "item": {"name": "n", "tags": ["a", None]},
    }  # fmt: skip
    written.land("orders/1.json", full, {"id": 2}, "{broken", {"id": "x", "item": {"name": 1, "tags": []}})
    later: list[dict[str, object]] = [{"id": 3, "part": 1e300}, {"id": 4, "new": True}]
    for more in later:
        steps = written.run()
        assert steps["bronze.direct"].rows_written == steps["bronze.judged"].rows_written
        written.land(f"orders/{more['id']}.json", more)
    written.run()
    direct, checked = (
        written.spark.read.format("delta").load(f"{written.folder}/.lakesmith/warehouse/bronze/{name}")
        for name in ("direct", "judged")
    )
    assert {field.name: field for field in direct.schema} == {field.name: field for field in checked.schema}
    stored = [
        [row.asDict(True) for row in rows.drop("_ingested_at", "_run_id").orderBy("id").collect()]
        for rows in (direct, checked)
    ]
    assert stored[0] == stored[1]
    assert len(stored[0]) == 5
    for table in ("quarantine.bronze_direct", "quarantine.bronze_judged"):
        assert written.rows(f"SELECT raw, rules, position FROM {table}") == [
            ("{broken", ["not-json"], f"{written.folder}/landing/orders/1.json:3")
        ]


def test_nested_fields_with_odd_names_are_stored_and_audit_names_are_rescued(written: Written) -> None:
    written.declare(JSON)
    for number in (1, 2):
        written.land(f"orders/{number}.json", {"id": number, "o": {"a-b": 1, "x:y": {"q.r": 2}}, "_RUN_ID": "mine"})
        assert written.run()["bronze.orders"].rows_written == 1
    rescued = written.rows("SELECT id, _rescued FROM bronze.orders ORDER BY id")
    assert rescued == [(number, '{"_RUN_ID": "mine"}') for number in (1, 2)]


def test_folders_of_hive_partitions_are_columns(written: Written) -> None:
    written.declare(
        {"bronze/orders.yml": 'source: {files: "landing/orders/**/*.json"}\ncolumns: {id: bigint, year: int}\n'}
    )
    written.land("orders/year=2026/town=Bad%20Ems/a.json", {"id": 1})
    written.land("orders/year=2027/town=__HIVE_DEFAULT_PARTITION__/b.json", {"id": 2})
    written.run()
    found = written.rows("SELECT id, year, town FROM bronze.orders ORDER BY id")
    assert found == [(1, 2026, "Bad Ems"), (2, 2027, None)]


def test_new_files_are_split_into_batches_with_one_commit_each(written: Written) -> None:
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json, max_files: 2}\n"})
    for number in range(5):
        written.land(f"orders/{number}.json", {"id": number})
    written.run()
    (report,) = written.reports
    assert [step.rows_in for step in report.steps] == [2, 2, 1]
    assert written.rows("SELECT count(*), count(DISTINCT id) FROM bronze.orders") == [(5, 5)]
    assert written.run() == {}


def test_files_are_archived_after_they_are_ingested(written: Written) -> None:
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json, archive: done}\n"})
    path = written.land("orders/a.json", {"id": 1})
    written.run()
    assert not path.exists()
    assert (written.folder / "landing/orders/done/a.json").read_text() == '{"id": 1}\n'
    assert written.run() == {}


def test_a_new_field_aborts_the_job_before_its_commit_and_is_then_ingested(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_SMALL", 0)  # as if there were too much data for a survey
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json}\ncolumns: {id: bigint}\n"})
    written.land("orders/a.json", {"id": 1})
    written.run()
    written.land("orders/b.json", {"id": 2, "to": {"town": "Ulm"}})
    step = written.run()["bronze.orders"]
    assert (step.rows_written, step.columns_added) == (1, "to")
    written.land("orders/c.json", {"id": 3, "to": {"town": "Bonn", "zip": 53111}})
    step = written.run()["bronze.orders"]
    assert (step.rows_written, step.columns_added) == (1, "to.zip")
    assert written.rows("SELECT id, \"to\"['zip'] FROM bronze.orders ORDER BY id") == [(1, None), (2, None), (3, 53111)]
    assert written.version("bronze.orders") == 2


def test_a_file_that_is_corrupt_after_released_rows_is_rejected_completely(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_SMALL", 0)
    monkeypatch.setattr(files, "HOLD_BACK", 1)
    written.declare(
        {"bronze/orders.yml": "source: {files: landing/orders/*.json.gz, format: json}\ncolumns: {id: bigint}\n"}
    )
    whole = gzip.compress(b"".join(b'{"id": %d}\n' % number for number in range(400_000)))
    folder = written.folder / "landing/orders"
    folder.mkdir(parents=True)
    (folder / "broken.json.gz").write_bytes(whole[:-100])
    (folder / "good.json.gz").write_bytes(gzip.compress(b'{"id": 1}\n'))
    step = written.run()["bronze.orders"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (2, 1, 1)
    assert written.rows("SELECT id FROM bronze.orders") == [(1,)]
    assert written.rows("SELECT rules FROM quarantine.bronze_orders") == [(["truncated"],)]


def test_a_strict_contract_rejects_a_batch_with_values_that_do_not_fit(written: Written) -> None:
    written.declare(
        {"bronze/people.yml": "source: {files: landing/*.csv}\ncontract: strict\ncolumns: {id: bigint, day: date}\n"}
    )
    written.land("a.csv", "id,day", "1,2026-01-31", "2,2026-02-30")
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert error.code == "gate-failed"
    assert "1 rows failed: the row has a value that is not of the declared type" in error.what
    assert written.version("bronze.people") is None


def test_a_run_killed_between_table_and_quarantine_loses_and_duplicates_nothing(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakesmith.spark.write import BatchWriter

    written.declare(JSON)
    written.land("orders/a.json", {"id": 1}, "{broken", {"id": 2})

    def die(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(BatchWriter, "_quarantine", die)
    with pytest.raises(KeyboardInterrupt):
        written.run()
    monkeypatch.undo()
    written.run()
    assert written.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,)]
    assert written.rows("SELECT raw FROM quarantine.bronze_orders") == [("{broken",)]
    assert written.run() == {}


def _written(write: object) -> bytes:
    sink = io.BytesIO()
    write(ROWS, sink)  # type: ignore[operator]
    return sink.getvalue()


def test_new_fields_of_a_later_file_are_all_ingested(written: Written, tmp_path: Path) -> None:
    written.declare(JSON)
    written.land("orders/a.json", {"id": 1}, {"id": 2.5})
    written.land("orders/b.json", {"id": 3, "tags": ["x"]}, {"id": 4, "tags": []})
    step = written.run()["bronze.orders"]
    assert step.rows_written == 4
    assert written.rows("SELECT id, tags FROM bronze.orders ORDER BY id")[2:] == [(3.0, ["x"]), (4.0, [])]


def test_the_next_run_archives_the_file_of_a_killed_run(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakesmith.store import LocalStore

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json, archive: done}\n"})
    first = written.land("orders/a.json", {"id": 1})
    monkeypatch.setattr(LocalStore, "move", die)
    with pytest.raises(KeyboardInterrupt):
        written.run()
    monkeypatch.undo()
    assert first.exists()
    written.land("orders/b.json", {"id": 2})
    written.run()
    assert sorted(path.name for path in (written.folder / "landing/orders/done").iterdir()) == ["a.json", "b.json"]
    assert written.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,)]


def test_a_batch_that_cannot_be_completed_because_its_file_changed_reports_it(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakesmith.spark.write import BatchWriter

    def die(*_: object) -> int:
        raise KeyboardInterrupt

    written.declare(JSON)
    path = written.land("orders/a.json", {"id": 1}, "{broken")
    monkeypatch.setattr(BatchWriter, "_quarantine", die)
    with pytest.raises(KeyboardInterrupt):
        written.run()
    monkeypatch.undo()
    path.unlink()
    written.run(ok=False)
    assert [error.code for error in written.reports[-1].errors] == ["batch-unfinished"]
