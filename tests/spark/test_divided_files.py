"""Which files are divided among tasks."""

from __future__ import annotations

import io
from typing import Any, BinaryIO
from unittest.mock import Mock

import pytest

from lakesmith.declare.sources import Files
from lakesmith.intake.reader import Task
from lakesmith.spark.ingest import parts
from lakesmith.spark.ingest.parts import divide_files

LARGE = parts.LARGE


def opened(_: str) -> BinaryIO:
    raise FileNotFoundError


def session(cores: int) -> Any:
    spark = Mock()
    spark.conf.get.return_value = str(cores)
    spark.range.side_effect = AssertionError("a job was started")
    return spark


@pytest.mark.parametrize(
    ("cores", "sizes"),
    [(2, [LARGE - 1]), (1, [LARGE * 20]), (2, [LARGE] * 8), (8, []), (2, [5])],
    ids=["small", "one core", "many files", "no files", "tiny"],
)
def test_files_that_keep_all_cores_busy_as_they_are_cost_no_job(cores: int, sizes: list[int]) -> None:
    tasks = [Task(number, str(number), size) for number, size in enumerate(sizes)]
    opener = Mock(side_effect=AssertionError("a file was opened"))
    assert divide_files(session(cores), Files(files="*", format="csv"), opener, tasks) == tasks


def test_a_file_that_cannot_be_opened_or_divided_is_left_to_its_task() -> None:
    source = Files(files="*", format="csv")
    tasks = [Task(0, "a", LARGE * 4), Task(1, "b", LARGE * 4, "not-csv: it is known to be bad")]
    assert divide_files(session(2), source, opened, tasks) == tasks
    assert divide_files(session(2), source, lambda _: io.BytesIO(b"\x1f\x8b"), tasks) == tasks
