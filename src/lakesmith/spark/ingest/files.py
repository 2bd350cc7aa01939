"""Reads files into rows of a bronze table. Spark's Python workers read them, in the same way from every store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from lakesmith.columns import (
    CHANGE_AUDIT,
    CORRUPT,
    ERROR_CODE,
    FILE_END,
    FILE_NUMBER,
    RESCUED,
    ROW_HASH,
    SOURCE_ROW,
    WRITTEN_FILE,
)
from lakesmith.declare import Files, Table
from lakesmith.intake.debezium import COLUMNS as CHANGES
from lakesmith.intake.direct import WRITTEN_FIELD, Destination
from lakesmith.intake.reader import HOLD_BACK, FileSurvey, Opener, Reader, Task, survey
from lakesmith.intake.rows import Abort, Target
from lakesmith.intake.shapes import STRING, arrow_type, schema_of, spark_type, wider
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.content import NewFiles
from lakesmith.ports import FileFact, Store, TableFacts, TableFolder
from lakesmith.spark.ingest.parts import divide_files, parallel_tasks
from lakesmith.spark.ingest.table_schema import evolved_schema, table_schema, widenable_columns
from lakesmith.sql import literal, quoted
from lakesmith.store import LocalStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakesmith.spark.ingest import IngestContext

_SPLIT = 64 << 20
"""Target size of the files that one task reads, in bytes."""
_SMALL = 8 << 20
"""Below this many bytes, files are surveyed in the driver without a Spark job."""
_ANSWER = pa.schema(
    [("number", pa.int64()), ("start", pa.int64()), ("shape", STRING), ("why", STRING), ("passing", pa.bool_())]
)


@dataclass(frozen=True, kw_only=True)
class _SurveyResult:
    """The shape of all files together, and the files that cannot be read."""

    found: pa.DataType
    errors: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _ListedFiles:
    """Opens files as they were listed. A file that was overwritten since raises an error."""

    storage: Store
    facts: Mapping[str, FileFact]

    def __call__(self, path: str) -> BinaryIO:
        return self.storage.open(path, self.facts[path])


def read_files(
    context: IngestContext,
    table: Table,
    source: Files,
    batch: Batch,
    facts: TableFacts | None,
    *,
    survey: bool,
    whole: bool = False,
    into: TableFolder | None = None,
) -> DataFrame:
    """Return the rows of the batch's files, and one marker row per file, or part of it, with what was read from it.

    Large files are read in parts, unless `whole`. With `into`, the folder of the table, readers write good rows there
    when the table has all their columns. Then the result has only the other rows, and one marker row per Parquet file
    that was written.
    """
    known = table_schema(table, facts)
    new = batch.content
    assert isinstance(new, NewFiles)
    opened = _ListedFiles(context.landing, {file.path: file for file in new.files})
    tasks = [Task(number, file.path, file.size, new.rejected.get(file.path)) for number, file in enumerate(new.files)]
    if not whole:
        tasks = divide_files(context.spark, source, opened, tasks)
    # A job that is aborted because of a new column costs more than a survey of a little local data.
    little = isinstance(context.landing, LocalStore) and sum(file.size for file in new.files) < _SMALL
    surveyed = survey or little or table.drift.new_column != "evolve" or not len(known)
    if surveyed:
        look = _survey(context, source, opened, known.names, tasks)
        tasks = [replace(task, error=look.errors.get(task.path)) for task in tasks]
        columns = evolved_schema(table, known, look.found)
    else:
        columns = known
    if source.envelope:
        columns = pa.schema([*columns, *CHANGES])
    widening = widenable_columns(table, known)
    target = Target(schema=columns, timezone=source.timezone, surveyed=surveyed, widening=widening)
    reader = Reader(source=source, target=target, open=opened, held=HOLD_BACK)
    places = [context.landing.location(file.path) for file in new.files]
    destination = None
    if into is not None and _has_all(facts, columns):
        destination = Destination(
            folder=into,
            columns=columns.names,
            places=places,
            modified=[file.modified for file in new.files],
            pinned_at=batch.pinned_at,
            run_id=batch.run_id,
        )
    return _with_audit_columns(_rows(context.spark, reader, tasks, destination), batch, places, columns)


def _has_all(facts: TableFacts | None, columns: pa.Schema) -> bool:
    """Whether rows with these columns can be added to the table without a schema change, or create it."""
    if facts is None:
        return not any(pa.types.is_null(type) for type in columns.types)
    stored = schema_of({fact.name: fact.type for fact in facts.columns})
    return all(field.name in stored.names and stored.field(field.name) == field for field in columns)


def _rows(spark: SparkSession, reader: Reader, tasks: Sequence[Task], destination: Destination | None) -> DataFrame:
    groups = _groups(spark, tasks)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = reader.read(groups[number])
                yield from rows if destination is None else destination.divert(rows)

    output = reader.output if destination is None else reader.output.append(WRITTEN_FIELD)
    schema = ", ".join(f"{quoted(field.name)} {spark_type(field.type)}" for field in output)
    return spark.range(0, len(groups), 1, max(len(groups), 1)).mapInArrow(read, schema)


def _groups(spark: SparkSession, tasks: Sequence[Task]) -> list[list[Task]]:
    """Distribute the files over tasks of about the same size."""
    total = sum(task.weight for task in tasks)
    count = min(len(tasks), max(parallel_tasks(spark), -(-total // _SPLIT)))
    groups: list[list[Task]] = [[] for _ in range(count)]
    weights = [0] * count
    for task in sorted(tasks, key=lambda task: -task.weight):
        lightest = weights.index(min(weights))
        groups[lightest].append(task)
        weights[lightest] += task.weight + 1
    return groups


def _survey(
    context: IngestContext, source: Files, open: Opener, expected: Sequence[str], tasks: Sequence[Task]
) -> _SurveyResult:
    """Scan all files for their columns."""
    if sum(task.weight for task in tasks) < _SMALL:
        with ThreadPoolExecutor(max_workers=4) as pool:
            answers = list(pool.map(partial(survey, source, open, expected), tasks))
    else:
        answers = _survey_in_spark(context.spark, source, open, expected, tasks)
    passing = {task.path: answer.why or "" for task, answer in zip(tasks, answers, strict=True) if answer.passing}
    if passing:
        raise Abort("left-out", Abort.SEPARATOR.join(passing), next(iter(passing.values())))
    return _SurveyResult(
        found=reduce(_shape_merger(source), (answer.shape for answer in answers), pa.struct([])),
        errors={t.path: answer.why for t, answer in zip(tasks, answers, strict=True) if answer.why is not None},
    )


def _shape_merger(source: Files) -> Callable[[pa.DataType, pa.DataType], pa.DataType]:
    """Return the function that merges the shapes of two files. In XML, an element and a list of it are compatible."""
    if source.format == "xml":
        from lakesmith.intake import xml

        return xml.wider
    return wider


def _survey_in_spark(
    spark: SparkSession, source: Files, open: Opener, expected: Sequence[str], tasks: Sequence[Task]
) -> list[FileSurvey]:
    groups = _groups(spark, tasks)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in (task for number in batch.column(0).to_pylist() for task in groups[number]):
                seen = survey(source, open, expected, task)
                shape = str(spark_type(seen.shape)) if len(seen.shape) else ""
                place = {"number": task.number, "start": task.start}
                yield pa.RecordBatch.from_pylist(
                    [{**place, "shape": shape, "why": seen.why, "passing": seen.passing}], schema=_ANSWER
                )

    rows = spark.range(0, len(groups), 1, max(len(groups), 1)).mapInArrow(
        look, "number bigint, start bigint, shape string, why string, passing boolean"
    )
    found = {
        (row.number, row.start): FileSurvey(arrow_type(row.shape) if row.shape else pa.struct([]), row.why, row.passing)
        for row in rows.collect()
    }
    return [found[task.number, task.start] for task in tasks]


def _with_audit_columns(rows: DataFrame, batch: Batch, places: Sequence[str], columns: pa.Schema) -> DataFrame:
    path = _value_per_file(places, "string")
    modified = _value_per_file([file.modified for file in batch.files], "bigint")
    # The same value for all files. As a plain literal, it would make Spark compile the stage again for each batch.
    pinned = _value_per_file([batch.pinned_at] * len(batch.files), "bigint")
    changes = [name for name in columns.names if name in CHANGE_AUDIT]
    return rows.selectExpr(
        *(quoted(name) for name in columns.names if name not in changes),
        f"{path} AS _source_file",
        SOURCE_ROW,
        f"timestamp_millis({modified}) AS _source_modified",
        *changes,
        f"timestamp_millis({pinned}) AS _ingested_at",
        f"{literal(batch.run_id)} AS _run_id",
        ROW_HASH,
        RESCUED,
        CORRUPT,
        ERROR_CODE,
        FILE_NUMBER,
        FILE_END,
        *([WRITTEN_FILE] if WRITTEN_FILE in rows.columns else []),
    )


def _value_per_file(values: Sequence[object], type: str) -> str:
    """Return SQL: the value for a row's file. One literal, folded once, because a batch may have thousands of files."""
    return f"element_at(from_json({literal(json.dumps(values))}, 'array<{type}>'), {FILE_NUMBER} + 1)"
