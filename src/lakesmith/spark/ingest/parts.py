"""Divides large files among tasks: the cores read one file together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakesmith.declare import Files
from lakesmith.errors import LakesmithError
from lakesmith.intake.parts import Layout, Section, file_layout, parts_of, read_section, section_bounds
from lakesmith.intake.reader import Opener, Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = 256 << 20
"""From this many bytes on, a file is read in parts."""
_SHARE = 4
"""A file is read as a whole when each core has this many times its size to read: other files keep the cores busy."""
_OPENED = 16
"""How many files are opened at a time."""
_ANSWER = pa.schema(
    [("at", pa.int64()), ("start", pa.int64()), ("lines", pa.int64()), ("record", pa.int64()), ("passed", pa.int64())]
)


def parallel_tasks(spark: SparkSession) -> int:
    """Return how many tasks run at a time, approximately."""
    return int(spark.conf.get("spark.sql.shuffle.partitions", "2") or 2)


def divide_files(spark: SparkSession, source: Files, open: Opener, tasks: Sequence[Task]) -> list[Task]:
    """Replace the tasks of large files by tasks for their parts, where the files can be read in parts."""
    cores, total = parallel_tasks(spark), sum(task.size for task in tasks)
    large = [task for task in tasks if task.error is None and LARGE <= task.size > total / cores / _SHARE]
    if cores < 2 or not large:
        return list(tasks)
    with ThreadPoolExecutor(_OPENED) as pool:
        found = zip(large, pool.map(partial(_layout, source, open), large), strict=True)
        layouts = {task.number: layout for task, layout in found if layout is not None}
    sections = _sections(spark, open, [(task, layouts[task.number]) for task in large if task.number in layouts], cores)
    divided: list[Task] = []
    for task in tasks:
        if len(read := sections.get(task.number, ())) < len(section_bounds(task.size)):
            divided.append(task)
        else:
            divided += (replace(task, part=part) for part in parts_of(task.size, layouts[task.number], read))
    return divided


def _layout(source: Files, open: Opener, task: Task) -> Layout | None:
    try:
        with open(task.path) as file:
            return file_layout(file, task.size, source)
    except (OSError, LakesmithError):
        return None  # the task of the whole file reports it


def _sections(
    spark: SparkSession, open: Opener, files: Sequence[tuple[Task, Layout]], cores: int
) -> Mapping[int, Sequence[Section]]:
    """Read the sections of files in parallel. Return those that can be read, by file number."""
    wanted = [(task, layout, *bounds) for task, layout in files for bounds in section_bounds(task.size)]
    if not wanted:
        return {}

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                task, layout, start, stop = wanted[at]
                try:
                    with open(task.path) as file:
                        section = read_section(file, start, stop, layout)
                except (OSError, LakesmithError):
                    continue
                yield pa.RecordBatch.from_pylist([{"at": at, **asdict(section)}], schema=_ANSWER)

    schema = ", ".join(f"{name} bigint" for name in _ANSWER.names)
    rows = spark.range(0, len(wanted), 1, min(cores, len(wanted))).mapInArrow(read, schema).collect()
    found: dict[int, list[Section]] = {}
    for row in sorted(rows, key=lambda row: int(row.at)):
        section = Section(start=row.start, lines=row.lines, record=row.record, passed=row.passed)
        found.setdefault(wanted[row.at][0].number, []).append(section)
    return found
