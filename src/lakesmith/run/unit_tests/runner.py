"""Runs unit tests one after the other on one Spark session, each in its own warehouse."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from time import monotonic
from typing import TYPE_CHECKING

from lakesmith.declare import LakeDeclaration, Settings, TableName
from lakesmith.declare.loads import key_columns
from lakesmith.declare.tests import Row, Rows, TableTest, Value, Word
from lakesmith.errors import DataError, DeclarationError, LakesmithError, did_you_mean
from lakesmith.jvm.session import isolated
from lakesmith.plan.graph import Graph
from lakesmith.ports import TableFacts
from lakesmith.reports import Event, RowDifference, UnitTestResult
from lakesmith.run.failures import translate
from lakesmith.run.unit_tests.differences import differences
from lakesmith.run.unit_tests.frames import Cells, create_frame, texts
from lakesmith.run.unit_tests.session import local_session
from lakesmith.run.unit_tests.warehouse import UnitTestWarehouse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_unit_tests(
    lake: LakeDeclaration,
    graph: Graph,
    stored: Mapping[TableName, TableFacts],
    tests: Sequence[TableTest],
    *,
    on_event: Callable[[Event], None],
    on_result: Callable[[UnitTestResult], None],
    session: SparkSession | None = None,
) -> tuple[UnitTestResult, ...]:
    """Run the tests. Write only temporary folders, which are removed afterwards."""
    if not tests:
        return ()
    results = []
    with local_session(lake, session, on_event) as spark:
        own = isolated(spark)
        for test in tests:
            with tempfile.TemporaryDirectory(prefix="lakesmith-test-") as folder:
                environment = replace(lake.environment, warehouse=folder, spark=Settings())
                in_folder = replace(lake, environment=environment)
                warehouse = UnitTestWarehouse(
                    lake=in_folder, graph=graph, stored=stored, test=test, session=spark, own=own
                )
                result = _run_test(warehouse)
            if result.error is not None:
                lake.environment.mask(result.error)
            results.append(result)
            on_result(result)
    return tuple(results)


def _run_test(warehouse: UnitTestWarehouse) -> UnitTestResult:
    test, clock = warehouse.test, monotonic()
    error: LakesmithError | None = None
    differing: tuple[RowDifference, ...] = ()
    ran = True
    try:
        error = warehouse.run_all()
        if error is None or error.code == test.fails:
            error = _not_failed(test) if test.fails and error is None else None
            differing = (*_table_differences(warehouse), *_quarantine_differences(warehouse))
    except Exception as raised:  # noqa: BLE001 (`translate` raises what is a bug of ours)
        error = translate(raised, warehouse.table).errors[0]
        ran = False
    # Errors of the data or the query fail a test; others mean that it could not run.
    failed = ran and (error is None or error.exit_code in (DataError.exit_code, DeclarationError.exit_code))
    outcome = "passed" if error is None and not differing else "failed" if failed else "error"
    return UnitTestResult(
        table=str(test.table),
        name=test.name,
        file=test.declared_at.file,
        line=test.declared_at.line,
        description=test.description,
        outcome=outcome,  # type: ignore[arg-type]
        seconds=monotonic() - clock,
        differences=differing,
        error=error,
    )


def _not_failed(test: TableTest) -> DataError:
    return DataError(
        "test-failed",
        f"the run was expected to fail with {test.fails}, but it succeeded",
        at=test.declared_at,
        table=str(test.table),
        hint="look at the check that should have failed, or remove `fails`",
    )


def _table_differences(warehouse: UnitTestWarehouse) -> tuple[RowDifference, ...]:
    test = warehouse.test
    if test.expect is None:
        return ()
    rows = warehouse.rows(warehouse.warehouse.table(test.table))
    if rows is None:
        return differences([_written(row) for row in test.expect], [])
    stored = {name.lower(): name for name in rows.columns}
    for row in test.expect:
        for name in row.values:
            if name.lower() not in stored:
                raise DeclarationError(
                    "unknown-column",
                    f"column '{name}' is not in {test.table}",
                    at=row.at,
                    table=str(test.table),
                    hint=did_you_mean(name, rows.columns, label="columns"),
                )
    expected = _expected(warehouse, test.expect, rows, stored)
    key = [stored[name.lower()] for name in key_columns(warehouse.table.load) if name.lower() in stored]
    return differences(expected, texts(rows, rows.columns), key)


def _expected(warehouse: UnitTestWarehouse, written: Rows, rows: DataFrame, stored: Mapping[str, str]) -> list[Cells]:
    """Return the expected rows as texts of the table's types, each with the columns to compare."""
    from pyspark.sql.types import StructType

    named = [[stored[name.lower()] for name in row.values] for row in written]
    used = set(rows.columns) if warehouse.test.exactly else {name for names in named for name in names}
    compared = [name for name in rows.columns if name in used]
    if not compared:
        return [{} for _ in written]
    frame = create_frame(warehouse.own, written, StructType([rows.schema[name] for name in compared]))
    expected = texts(frame, compared)
    if warehouse.test.exactly:
        return expected
    return [{name: cells[name] for name in names} for cells, names in zip(expected, named, strict=True)]


def _quarantine_differences(warehouse: UnitTestWarehouse) -> tuple[RowDifference, ...]:
    expected = warehouse.test.quarantine
    if expected is None:
        return ()
    rows = warehouse.rows(warehouse.warehouse.quarantine(warehouse.test.table))
    columns = dict.fromkeys(name for each in expected for name in each.row.values)
    stored: list[Cells] = []
    for raw, rules in rows.select("raw", "rules").collect() if rows is not None else ():
        fields = json.loads(raw, parse_float=str)
        cells = {name: _comparable(fields.get(name)) for name in columns or fields}
        stored.append({**cells, "rules": ", ".join(sorted(rules))})
    expected_cells = [
        {**_written(each.row), **({} if each.rules is None else {"rules": ", ".join(sorted(each.rules))})}
        for each in expected
    ]
    key = [name for name in key_columns(warehouse.table.load) if name in columns]
    return differences(expected_cells, stored, key, of="quarantine")


def _written(row: Row) -> Cells:
    return {name: _comparable(_plain(value)) for name, value in row.values.items()}


def _plain(value: Value) -> object:
    match value:
        case Word():
            return value.text
        case tuple():
            return [_plain(item) for item in value]
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case _:
            return None


def _comparable(value: object) -> str | None:
    """Return a text of a rejected value, which has no type to cast to: equal numbers and times have equal texts."""
    if value is None:
        return None
    if isinstance(value, list | dict):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    try:
        number = Decimal(text)
        return f"{number.normalize():f}" if number.is_finite() else text
    except InvalidOperation:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    utc = moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    return utc.isoformat(" ")
