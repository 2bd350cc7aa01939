"""Large files are read in parts by several tasks, with the result of a reader of the whole file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from tests.run.lakes import Written

from lakesmith.intake import parts as intake_parts
from lakesmith.intake.reader import Task
from lakesmith.records import FileRecord, StepRecord
from lakesmith.spark.ingest import files as ingest_files
from lakesmith.spark.ingest import parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

JSON = [json.dumps({"id": number, "name": f"é {number}"}) for number in range(200)]
CSV = ["id,name", *(f'{number},"a {number}\n""b"""' for number in range(300))]
BAD_JSON = [*JSON[:90], '{"id": 90,', "", '{"id": "x", "name": "rescued"}', *JSON[93:], '{"id": 200, "na']
BAD_CSV = [*CSV[:90], '90,5" pipe', "91", "92,a,b", "x,rescued", *CSV[94:], '300,"cut\noff']
APPEND = "columns: {id: bigint}\n"
CHECKED = "columns: {id: {type: bigint, check: id <> 7}}\n"


class Divided:
    """Divides all files of 2,000 bytes or more into parts of about 1,000, and records the attempts at a batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.attempts: list[list[Task]] = []
        self.wholes: list[bool] = []
        """By attempt, whether all files are read as a whole."""
        self._patch = monkeypatch

    def __enter__(self) -> Divided:
        divide, read = parts.divide_files, ingest_files.read_files

        def recorded(*arguments: Any) -> list[Task]:
            self.attempts.append(divide(*arguments))
            return self.attempts[-1]

        def read_files(*arguments: Any, whole: bool, **others: Any) -> DataFrame:
            self.wholes.append(whole)
            return read(*arguments, whole=whole, **others)

        self._patch.setattr(parts, "LARGE", 2000)
        self._patch.setattr(intake_parts, "SECTION", 1000)
        self._patch.setattr(intake_parts, "_WINDOW", 300)
        self._patch.setattr(ingest_files, "divide_files", recorded)
        self._patch.setattr(ingest_files, "read_files", read_files)
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def write(written: Written, name: str, lines: Sequence[str]) -> None:
    path = written.folder / "landing" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def outcome(written: Written, table: str, step: StepRecord) -> list[object]:
    """Return all that a run of a bronze table results in, without times and names."""
    stored = written.rows(f"SELECT * EXCLUDE (_ingested_at, _run_id) FROM bronze.{table} ORDER BY _source_row")
    rejected = "SELECT raw, rules, reasons, position FROM quarantine.bronze_{} ORDER BY position"
    quarantined = written.rows(rejected.format(table)) if step.rows_quarantined else []
    (file,) = [counts(record) for record in written.reports[-1].files]
    return [stored, quarantined, file, (step.rows_in, step.rows_written, step.rows_quarantined, step.rows_rescued)]


def counts(file: FileRecord) -> tuple[object, ...]:
    return file.file, file.bytes, file.rows_in, file.rows_written, file.rows_quarantined, file.code


@pytest.mark.parametrize("columns", [APPEND, CHECKED])
@pytest.mark.parametrize(("format", "lines"), [("json", BAD_JSON), ("csv", BAD_CSV)])
def test_a_file_in_parts_gives_the_rows_rejected_rows_and_counts_of_the_whole(
    format: str, lines: Sequence[str], columns: str, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = f"source: {{files: landing/*.{format}}}\n{columns}"
    written.declare({"bronze/whole.yml": source, "bronze/parts.yml": source})
    write(written, f"a.{format}", lines)
    whole = outcome(written, "whole", written.run("bronze.whole")["bronze.whole"])
    with Divided(monkeypatch) as divided:
        step = written.run("bronze.parts")["bronze.parts"]
    (tasks,) = divided.attempts
    assert len(tasks) > 4
    assert outcome(written, "parts", step) == whole


def test_parts_and_small_files_are_read_in_one_batch(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written.declare({"bronze/orders.yml": f"source: {{files: landing/*.json}}\n{APPEND}"})
    for name, lines in (("a", JSON[:3]), ("b", JSON), ("c", BAD_JSON)):
        write(written, f"{name}.json", lines)
    with Divided(monkeypatch) as divided:
        step = written.run()["bronze.orders"]
    assert {task.part is None for task in divided.attempts[0] if task.number == 0} == {True}
    assert len({task.number for task in divided.attempts[0] if task.part is not None}) == 2
    files = {record.file[-6]: (record.rows_in, record.rows_quarantined) for record in written.reports[-1].files}
    assert files == {"a": (3, 0), "b": (200, 0), "c": (200, 2)}
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (403, 401, 2)


def test_a_new_column_in_any_part_is_added(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written.declare({"bronze/orders.yml": f"source: {{files: landing/*.json}}\n{APPEND}"})
    write(written, "a.json", JSON[:3])
    written.run()
    write(written, "b.json", [*JSON, '{"id": 500, "late": true}'])
    with Divided(monkeypatch) as divided:
        written.run()
    assert [len(tasks) > 4 for tasks in divided.attempts] == [True] * len(divided.attempts)
    assert written.rows("SELECT count(*), count(late) FROM bronze.orders") == [(204, 1)]


def test_a_file_with_a_wrong_guess_is_read_again_as_a_whole(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written.declare({"bronze/orders.yml": f"source: {{files: landing/*.csv}}\n{APPEND}"})
    lines = [*CSV[:50], '50,"' + "word\n" * 1000 + '"', *CSV[50:]]
    write(written, "a.csv", lines)
    with Divided(monkeypatch) as divided:
        step = written.run()["bronze.orders"]
    assert divided.wholes == [False, True]
    assert (step.rows_in, step.rows_written, step.rows_quarantined) == (301, 301, 0)
    found = written.rows("SELECT id, length(name), _source_row FROM bronze.orders WHERE length(name) > 100")
    assert found == [(50, 5000, 100)]
