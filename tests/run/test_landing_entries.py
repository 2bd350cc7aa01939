"""Files with any name are ingested; other entries are reported once, and everything else continues."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.run.lakes import Written, watched
from tests.store.test_entries import ODD_NAMES

pytestmark = pytest.mark.spark

SOURCE = 'source: {{files: "landing/{}/*.json"}}\n'
CHECK = 'checks: {anything: {where: "true"}}\n'  # Spark has to check it, so Spark writes the rows


def test_files_with_any_name_are_ingested_and_replaced_ones_are_skipped_by_name(
    written: Written,
) -> None:
    written.declare({"bronze/direct.yml": SOURCE.format("odd"), "bronze/judged.yml": SOURCE.format("odd") + CHECK})
    for number, name in enumerate(ODD_NAMES):
        written.land(f"odd/{name}", {"id": number}, "{broken")
    gone = {"odd/a\nb.json", "odd/lakesmith-abort.json"}
    secret = written.folder / "secret.json"
    secret.write_text('{"id": -1}\n')

    swapping = threading.Lock()

    def swap(place: str, about: str) -> None:
        link = written.folder / "landing" / "odd/lakesmith-abort.json"
        with swapping:
            if place == "batch.pinned" and not link.is_symlink():
                (written.folder / "landing" / "odd/a\nb.json").unlink()
                link.unlink()
                link.symlink_to(secret)

    with watched(swap):
        steps = written.run(ok=False)
    count = len(ODD_NAMES) - len(gone)
    places = {
        (number, f"{written.folder}/landing/odd/{name}")
        for number, name in enumerate(ODD_NAMES)
        if f"odd/{name}" not in gone
    }
    for table in ("bronze.direct", "bronze.judged"):
        assert (steps[table].rows_written, steps[table].rows_quarantined) == (count, count), steps[table].error
        assert set(written.rows(f"SELECT id, _source_file FROM {table}")) == places
        quarantined = written.rows(f"SELECT position FROM quarantine.{table.replace('.', '_')}")
        assert {position for (position,) in quarantined} == {f"{place}:2" for _, place in places}
        files = written.rows(f"SELECT file, rows_in FROM system.files WHERE \"table\" = '{table}'")
        assert set(files) == {(f"landing/odd/{name}", 2) for name in ODD_NAMES if f"odd/{name}" not in gone}
    errors = {(error.table, error.what.partition(" was skipped")[0]) for error in written.reports[-1].errors}
    assert errors == {(table, f"landing/{name}") for table in ("bronze.direct", "bronze.judged") for name in gone}


def test_entries_that_cannot_be_ingested_are_reported_once_and_stop_nothing(written: Written) -> None:
    written.declare(
        {
            "bronze/mixed.yml": SOURCE.format("mixed"),
            "bronze/anywhere.yml": SOURCE.format("mixed").replace("}", ", symlinks: anywhere}", 1),
            "bronze/other.yml": SOURCE.format("other"),
        }
    )
    good = written.land("mixed/good.json", {"id": 1})
    written.land("other/a.json", {"id": 2})
    (written.folder / "outside.json").write_text('{"id": 3}\n')
    folder = good.parent
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.json")).write_text('{"id": 4}\n')
    os.mkfifo(folder / "fifo.json")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "nowhere.json").symlink_to("gone.json")
    (folder / "inside.json").symlink_to("good.json")
    (folder / "outside.json").symlink_to("../../outside.json")
    (folder / "_hidden.json").touch()
    expected = {
        "landing/mixed/caf\\xe9.json": "name-not-utf8",
        "landing/mixed/fifo.json": "not-a-file",
        "landing/mixed/loop.json": "link-loop",
        "landing/mixed/nowhere.json": "broken-link",
        "landing/mixed/outside.json": "link-outside",
        "landing/mixed/_hidden.json": "hidden-name",
    }
    rows = {("bronze.mixed", file, code) for file, code in expected.items()}
    rows |= {("bronze.anywhere", file, code) for file, code in expected.items() if code != "link-outside"}
    planned = {(str(table), entry.path, entry.code) for table, entry in written.lake().plan().skipped}
    assert planned == rows

    steps = written.run()
    assert {table: step.rows_written for table, step in steps.items()} == {
        "bronze.mixed": 2,
        "bronze.anywhere": 3,
        "bronze.other": 1,
    }
    assert written.reports[-1].outcome == "ok"
    assert {(entry.table, entry.file, entry.code) for entry in written.reports[-1].skipped} == rows
    assert set(written.rows('SELECT "table", file, code FROM system.skipped')) == rows

    assert list(written.lake().plan().skipped) == []
    assert written.run() == {}
    assert (written.reports[-1].run, written.reports[-1].skipped) == (None, ())

    (folder / "fifo.json").unlink()
    (folder / "fifo.json").symlink_to("gone.json")  # another reason
    (folder / ".new.json").touch()
    assert written.run() == {}
    again = {(entry.table, entry.file, entry.code) for entry in written.reports[-1].skipped}
    assert again == {
        (table, file, code)
        for table in ("bronze.mixed", "bronze.anywhere")
        for file, code in (("landing/mixed/fifo.json", "broken-link"), ("landing/mixed/.new.json", "hidden-name"))
    }
    report = written.reports[-1]
    assert report.run is not None
    assert (report.run.outcome, report.run.tables) == ("ok", 0)
    assert written.run() == {}
    assert written.reports[-1].run is None
