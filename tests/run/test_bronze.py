"""Files into bronze: unchanged, each exactly once."""

from __future__ import annotations

import pytest
from tests.run.lakes import Written

pytestmark = pytest.mark.spark

JSON = {"bronze/orders.yml": "source: {files: landing/orders/*.json}\n"}
CSV = {"bronze/people.yml": "source: {files: landing/people/*.csv}\n"}
TYPED_CSV = {"bronze/people.yml": "source: {files: landing/people/*.csv}\ncolumns: {id: bigint}\n"}


def test_each_file_is_ingested_once_with_its_source(written: Written) -> None:
    written.declare(JSON)
    written.land("orders/a.json", {"id": 1, "who": "ä🙂"}, {"id": 2, "who": None})
    first = written.run()["bronze.orders"]
    written.land("orders/odd [1] {x} 100%.json", {"id": 3, "who": "c"})
    second = written.run()["bronze.orders"]
    third = written.run()
    assert (first.rows_in, first.rows_written, second.rows_in, third) == (2, 2, 1, {})
    found = written.rows("SELECT id, who, _source_file, _run_id, _row_hash FROM bronze.orders ORDER BY id")
    assert [row[:2] for row in found] == [(1, "ä🙂"), (2, None), (3, "c")]
    assert str(found[0][2]).endswith("/landing/orders/a.json")
    assert found[0][3] == first.run_id != found[2][3] == second.run_id
    assert len({row[4] for row in found}) == 3
    modified, ingested = written.rows("SELECT min(_source_modified), min(_ingested_at) FROM bronze.orders")[0]
    assert modified is not None
    assert ingested is not None


def test_a_changed_ingested_file_is_detected_and_nothing_is_ingested(written: Written) -> None:
    written.declare(JSON)
    written.land("orders/a.json", {"id": 1})
    written.run()
    written.land("orders/a.json", {"id": 1}, {"id": 2})
    written.land("orders/b.json", {"id": 3})
    assert written.run(ok=False) == {}
    (error,) = written.reports[-1].errors
    assert (error.code, error.exit_code, error.table) == ("file-changed", 1, "bronze.orders")
    assert "landing/orders/a.json" in error.what
    assert "new name" in str(error.hint)
    assert written.rows("SELECT count(*) FROM bronze.orders") == [(1,)]


def test_rows_that_cannot_be_read_are_quarantined_with_text_and_position_and_counts_match(
    written: Written,
) -> None:
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json}\ncolumns: {id: bigint}\n"})
    broken = '{"id": 2, "who":'
    written.land("orders/a.json", {"id": 1, "who": "a"}, broken, {"id": 3})
    step = written.run()["bronze.orders"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (3, 2, 1)
    (quarantined,) = written.rows("SELECT raw, rules, reasons, position, batch, run_id FROM quarantine.bronze_orders")
    assert quarantined[:3] == (broken, ["truncated-json"], ["Expecting value at character 17"])
    assert str(quarantined[3]).endswith("landing/orders/a.json:2")
    assert quarantined[4:] == (1, step.run_id)
    (file,) = written.reports[-1].files
    assert (file.rows_in, file.rows_written, file.rows_quarantined, file.code) == (3, 2, 1, None)
    assert written.rows("SELECT rows_in, rows_written, rows_quarantined FROM system.files") == [(3, 2, 1)]


def test_a_value_that_does_not_fit_its_column_is_stored_in_rescued(written: Written) -> None:
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json}\ncolumns: {id: bigint}\n"})
    written.land("orders/a.json", {"id": 1, "who": "a"}, {"id": "two", "who": "b"})
    step = written.run()["bronze.orders"]
    assert (step.rows_written, step.rows_quarantined, step.rows_rescued) == (2, 0, 1)
    found = written.rows("SELECT id, who, _rescued, _source_row FROM bronze.orders ORDER BY who")
    assert found == [(1, "a", None, 1), (None, "b", '{"id": "two"}', 2)]


def test_a_new_field_is_ingested_and_the_hash_of_old_rows_stays(written: Written) -> None:
    written.declare(JSON)
    written.land("orders/a.json", {"id": 1, "to": {"city": "Ulm"}})
    written.run()
    written.land("orders/b.json", {"id": 1, "to": {"city": "Ulm"}}, {"id": 2, "to": {"zip": "89"}, "new": True})
    written.run()
    rows = written.rows('SELECT id, to_json("to"), new, _row_hash FROM bronze.orders ORDER BY id, _source_file')
    assert [row[0] for row in rows] == [1, 1, 2]
    assert rows[0][3] == rows[1][3]
    assert rows[2][2] is True
    assert '"zip":"89"' in str(rows[2][1])


def test_a_strict_contract_rejects_a_new_field_before_anything_is_written(written: Written) -> None:
    written.declare(
        {"bronze/orders.yml": "source: {files: landing/orders/*.json}\ncontract: strict\ncolumns: {id: bigint}\n"}
    )
    written.land("orders/a.json", {"id": 1})
    written.run()
    written.land("orders/b.json", {"id": 2, "surprise": 1})
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert error.code == "contract-broken"
    assert "+ surprise" in error.what
    assert written.version("bronze.orders") == 0


def test_an_open_contract_stores_every_value_as_text(written: Written) -> None:
    written.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json}\ncontract: open\n"})
    written.land("orders/a.json", {"id": 1}, {"id": "two"}, {"id": 3.5})
    written.run()
    assert sorted(written.rows("SELECT id FROM bronze.orders")) == [("1",), ("3.5",), ("two",)]


def test_csv_columns_are_matched_by_name_in_any_order(written: Written) -> None:
    written.declare(TYPED_CSV)
    written.land("people/a.csv", "id,name,town", '1,"Smith, Ann",Ulm')
    written.land("people/b.csv", "\ufefftown,id", "Bonn,2")
    written.land("people/c.csv", "name,id,since", "Cid,3,2020", "Dot,four,2021", "Eve,5,2022,extra")
    step = written.run()["bronze.people"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined, step.rows_rescued) == (5, 4, 1, 1)
    assert written.rows("SELECT id, name, town, since, _rescued FROM bronze.people ORDER BY id NULLS LAST") == [
        (1, "Smith, Ann", "Ulm", None, None),
        (2, None, "Bonn", None, None),
        (3, "Cid", None, "2020", None),
        (None, "Dot", None, "2021", '{"id": "four"}'),
    ]
    assert written.rows("SELECT raw, rules FROM quarantine.bronze_people") == [("Eve,5,2022,extra", ["csv-fields"])]


def test_a_quoted_field_may_span_lines_and_letter_case_makes_no_second_column(written: Written) -> None:
    written.declare(TYPED_CSV)
    written.land("people/a.csv", "id,name,note", '1,"Ann\nMarie",x', '2,Bob,"y\nz"')
    written.run()
    written.land("people/b.csv", "ID,Name", "3,Cid")
    step = written.run()["bronze.people"]
    assert (step.rows_written, step.columns_added) == (1, None)
    assert written.rows("SELECT id, name, note FROM bronze.people ORDER BY id") == [
        (1, "Ann\nMarie", "x"),
        (2, "Bob", "y\nz"),
        (3, "Cid", None),
    ]


def test_empty_files_and_headers_without_rows_are_ingested_once(
    written: Written,
) -> None:
    written.declare(CSV)
    written.land("people/empty.csv")
    written.land("people/header.csv", "id,name")
    assert written.run()["bronze.people"].rows_in == 0
    assert written.run() == {}


def test_an_unreadable_file_is_rejected_completely_and_the_others_are_ingested(written: Written) -> None:
    written.declare(TYPED_CSV)
    written.land("people/a.csv", "id,ID", "1,2")
    written.land("people/b.csv", "id;name;town", "1;Ann;Ulm")
    written.land("people/c.csv", "id,name", "3,Cid")
    latin = written.land("people/d.csv", "id,name")
    latin.write_bytes("id,größe\n1,2\n".encode("latin-1"))
    step = written.run()["bronze.people"]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (4, 1, 3)
    codes = {file.file.rpartition("/")[2]: file.code for file in written.reports[-1].files}
    assert codes == {"a.csv": "header-twice", "b.csv": "wrong-delimiter", "c.csv": None, "d.csv": "not-utf8"}
    quarantined = written.rows("SELECT rules, reasons FROM quarantine.bronze_people ORDER BY position")
    assert quarantined[1] == (["wrong-delimiter"], ["1 column found, 3 with another delimiter; try ';'"])
    assert written.run() == {}


def test_a_column_with_an_invalid_name_is_stored_in_rescued(written: Written) -> None:
    written.declare(TYPED_CSV)
    written.land("people/a.csv", "id,full name,_run_id", "1,Ann,x")
    written.run()
    assert written.rows("SELECT id, _rescued FROM bronze.people") == [(1, '{"full name": "Ann", "_run_id": "x"}')]


def test_a_file_that_vanishes_before_it_is_read_is_skipped_and_reported(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakesmith.ledger.batch import Batch
    from lakesmith.ledger.batches import Batches

    written.declare(JSON)
    written.land("orders/a.json", {"id": 1})
    doomed = written.land("orders/b.json", {"id": 2})
    pin = Batches.pin

    def pin_then_lose(batches: Batches, batch: Batch) -> Batch:
        doomed.unlink(missing_ok=True)
        return pin(batches, batch)

    monkeypatch.setattr(Batches, "pin", pin_then_lose)
    written.run(ok=False)
    (error,) = written.reports[-1].errors
    assert (error.code, error.exit_code) == ("file-gone", 1)
    assert written.rows("SELECT id FROM bronze.orders") == [(1,)]
    monkeypatch.undo()
    written.land("orders/b.json", {"id": 2})
    assert written.run()["bronze.orders"].rows_written == 1
    assert written.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,)]
