"""Rows that readers write: good rows are in Parquet files, all others are returned."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesmith.columns import CORRUPT, ERROR_CODE, FILE_END, FILE_NUMBER, WRITTEN_FILE
from lakesmith.declare.sources import Files
from lakesmith.intake import direct
from lakesmith.intake.direct import Destination
from lakesmith.intake.reader import Reader, Task
from lakesmith.intake.rows import Abort, Target
from lakesmith.intake.shapes import schema_of
from lakesmith.store import folder_at

COLUMNS = {"id": "bigint", "note": "string"}


def diverted(folder: Path, *files: str, held: int = 1 << 20) -> list[dict[str, Any]]:
    """Read JSON texts, one for each file, and return the rows that are not written."""
    schema = schema_of(COLUMNS)
    reader = Reader(
        source=Files(files="*.json", format="json"),
        target=Target(schema=schema),
        open=lambda path: io.BytesIO(files[int(path)].encode()),
        held=held,
    )
    tasks = [Task(number, str(number), len(text.encode())) for number, text in enumerate(files)]
    batches = destination(folder, schema.names, len(files)).divert(reader.read(tasks))
    return [row for batch in batches for row in batch.to_pylist()]


def destination(folder: Path, columns: Sequence[str], files: int) -> Destination:
    return Destination(
        folder=folder_at(str(folder)),
        columns=columns,
        places=[f"/landing/{number}.json" for number in range(files)],
        modified=[1_000 * number for number in range(files)],
        pinned_at=5_000,
        run_id="run",
    )


def made(folder: Path) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, sorted(folder.iterdir())))


def test_good_rows_are_written_to_one_file_with_their_source_and_others_are_returned(tmp_path: Path) -> None:
    others = diverted(tmp_path / "t", '{"id": 1}\n{"id": \n{"id": 2, "note": "x"}\n', '{"id": 3}\n')
    stored = made(tmp_path / "t").to_pylist()
    assert [(row["id"], row["note"], row["_source_file"], row["_source_row"]) for row in stored] == [
        (1, None, "/landing/0.json", 1),
        (2, "x", "/landing/0.json", 3),
        (3, None, "/landing/1.json", 1),
    ]
    assert {row["_run_id"] for row in stored} == {"run"}
    assert {row["_ingested_at"] for row in stored} == {datetime.fromtimestamp(5, UTC)}
    assert [row["_source_modified"].timestamp() for row in stored] == [0, 0, 1]
    assert len({row["_row_hash"] for row in stored}) == 3
    assert not any(name.startswith("_lakesmith_") for name in stored[0])
    unreadable = [row for row in others if row[CORRUPT] is not None]
    assert [(row[FILE_NUMBER], row[ERROR_CODE].split(":")[0]) for row in unreadable] == [(0, "truncated-json")]
    assert [(row[FILE_NUMBER], row[FILE_END]["rows"]) for row in others if row[FILE_END]] == [(0, 3), (1, 1)]
    (report,) = [row[WRITTEN_FILE] for row in others if row[WRITTEN_FILE]]
    assert report["rows"] == 3
    assert report["size"] == (tmp_path / "t" / report["path"]).stat().st_size


def test_no_file_is_written_without_good_rows(tmp_path: Path) -> None:
    others = diverted(tmp_path / "t", "", "{\n")
    assert not (tmp_path / "t").exists()
    assert [row for row in others if row[WRITTEN_FILE]] == []


def test_many_rows_are_written_in_groups_of_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_GROUP", 1)
    diverted(tmp_path / "t", '{"id": 1}\n', '{"id": 2}\n', '{"id": 3}\n')
    (file,) = (tmp_path / "t").iterdir()
    assert pq.ParquetFile(file).num_row_groups == 3


def test_an_aborted_job_reports_no_file(tmp_path: Path) -> None:
    report: list[object] = []
    with pytest.raises(Abort):
        report += diverted(tmp_path / "t", '{"id": 1}\n', '{"id": 2, "new": 1}\n')
    assert report == []
