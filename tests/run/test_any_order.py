"""Every load against its model: for any split, repetition, delay and order of its input, the table matches the model
after every batch.

Many histories share each run, each with its own keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import cycle
from typing import Any

import pytest
from tests.models.cases import LOADS, NEVER_NULL, Load, never_null
from tests.models.differences import first_difference
from tests.models.draws import TIMES
from tests.models.histories import History, histories, pack
from tests.models.rows import Row
from tests.run.lakes import Written

from lakesmith.spark import batch_counts, write
from lakesmith.spark.loads.merge_input import MergeInput

pytestmark = pytest.mark.spark

EACH = 165
RUNS, SAMPLE_RUNS = (0, 1, 2, 3, 4), (0, 1, 2, 4)
"""The batches after which the lake is run; other batches are ingested with the next one."""
MANY = 2
"""From this run on, batches count as many rows: Spark writes them."""
LARGE = 3
"""From this run on, tables count as large."""
SEED = 5
SAMPLE = {
    "rows": ("append", "replace_partitions", "dedup_within", "keyed"),
    "keys": ("merge_delete", "merge_update", "scd2_track"),
    "changes": ("changes_all", "snapshot_scd2_track"),
}
"""The loads of `make test`: of loads with the same code, the one with the most options. `make verify` has all loads."""
SAME_CODE = {"dedup", "scd2_ignore", "changes_moves", "changes_amounts", "snapshot_scd2_ignore", "snapshot_scd2_track"}
"""Loads without a code path of their own: other loads have their options and more."""
DERIVED = {
    "label": "coalesce(name, '?')",
    "shop": "'main'",
    "named": "CASE WHEN name IS NULL THEN false ELSE true END",
    "parts": "named_struct('label', coalesce(name, '?'), 'tags', array('a', 'b'), 'sizes', map('k', 1))",
}
"""Columns that Spark knows are never NULL at some depth, while the table's columns are nullable. They depend only on
`name`, so that no load treats a row differently."""
NULLABILITY = "LAKESMITH_TEST_NULLABILITY"


def sources(seed: int, each: int, names: Sequence[str] = ()) -> dict[str, tuple[list[Load], list[History]]]:
    """Group loads by their rows: loads with the same rows share a bronze table."""
    found: dict[str, tuple[list[Load], list[History]]] = {}
    for load in (LOADS[name] for name in names or LOADS if name not in SAME_CODE):
        drawn = histories(load, seed, each)
        drawn_text = json.dumps([list(load.columns), [history.batches for history in drawn]], default=str)
        for loads, same in found.values():
            if drawn_text == json.dumps([list(loads[0].columns), [history.batches for history in same]], default=str):
                loads.append(load)
                break
        else:
            found[f"rows{len(found)}"] = ([load], drawn)
    return found


@pytest.mark.parametrize("sample", SAMPLE)
def test_a_sample_of_loads_matches_its_models_after_every_batch(
    written: Written, monkeypatch: pytest.MonkeyPatch, sample: str
) -> None:
    _run_and_compare(written, sources(SEED, EACH, SAMPLE[sample]), monkeypatch, runs=SAMPLE_RUNS)


@pytest.mark.verify
@pytest.mark.timeout(900)
def test_every_load_matches_its_model_after_every_batch(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    given = sources(SEED, EACH)
    assert sum(len(loads) * len(drawn) for loads, drawn in given.values()) >= 2_000
    _run_and_compare(written, given, monkeypatch)


@pytest.mark.verify
def test_extracts_in_order_continue_from_the_table(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MergeInput, "recompute", None)
    loads = [LOADS["snapshot_merge"], LOADS["snapshot_scd2_track"]]
    drawn = [_by_time(history) for history in histories(loads[0], SEED, EACH)]
    _run_and_compare(written, {"rows": (loads, drawn)}, monkeypatch)


@pytest.mark.verify
@pytest.mark.timeout(900)
def test_every_load_accepts_columns_that_become_nullable(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: ([never_null(load) for load in loads], drawn) for name, (loads, drawn) in sources(SEED, 20).items()}
    _run_and_compare(written, given, monkeypatch, _as_python)


def _by_time(history: History) -> History:
    """Put each extract into a separate batch; rows without a time are in the first."""
    rows = [row for batch in history.batches for row in batch]
    return replace(
        history, batches=tuple(tuple(row for row in rows if (row["taken"] or TIMES[0]) == at) for at in TIMES)
    )


def _as_sql(load: Load, source: str) -> dict[str, str]:
    """Return the table with the columns of its load and those of DERIVED."""
    selected = ", ".join([*load.columns, *(f"{sql} AS {name}" for name, sql in DERIVED.items())])
    header = f"load: {json.dumps(load.declaration)}\ncolumns: {{label: {{type: string, required: true}}}}"
    return {f"silver/{load.name}.sql": f"/* lakesmith\n{header}\n*/\nSELECT {selected} FROM bronze.{source}\n"}


def _as_python(load: Load, source: str) -> dict[str, str]:
    """Return the table with columns whose nullability depends on the environment; their values do not."""
    filled = {name: name if name in load.keeps_null else NEVER_NULL[name] for name in load.columns}
    required = [f"{sql} AS {name}" for name, sql in filled.items()]
    nullable = [f"nullif({sql}, CAST(NULL AS {load.columns[name]})) AS {name}" for name, sql in filled.items()]
    match load.declaration:
        case str(word):
            how = repr(word)
        case {"replace_partitions": str(column)}:
            how = f"lake.replace_partitions({column!r}, same_as='bronze.{source}.{column}')"
        case other:
            ((word, options),) = other.items()
            how = f"lake.{word}(**{options!r})"
    text = (
        "import os\n\nimport lakesmith as lake\n\n\n"
        f"@lake.silver(load={how}, rowwise=True)\n"
        f"def {load.name}(rows=lake.ref('bronze.{source}')):\n"
        f"    columns = {{'required': {required!r}, 'nullable': {nullable!r}}}\n"
        f"    return rows.selectExpr(*columns[os.environ['{NULLABILITY}']])\n"
    )
    return {f"silver/{load.name}.py": text}


def _run_and_compare(
    written: Written,
    given: dict[str, tuple[list[Load], list[History]]],
    monkeypatch: pytest.MonkeyPatch,
    declared: Callable[[Load, str], dict[str, str]] = _as_sql,
    runs: Sequence[int] = RUNS,
) -> None:
    for name, (loads, _) in given.items():
        columns = "".join(f"  {column}: {type}\n" for column, type in loads[0].columns.items())
        written.declare({f"bronze/{name}.yml": f'source: {{files: "landing/{name}/*.json"}}\ncolumns:\n{columns}'})
        for load in loads:
            written.declare(declared(load, name))
    packed = {name: pack(drawn) for name, (_, drawn) in given.items()}
    after = -1
    for upto, nullability in zip(runs, cycle(("required", "nullable"))):
        monkeypatch.setenv(NULLABILITY, nullability)
        for name, batches in packed.items():
            written.land(
                f"{name}/{upto}.json", *(_as_json(row) for batch in batches[after + 1 : upto + 1] for row in batch)
            )
        after = upto
        if upto >= MANY:
            monkeypatch.setattr(batch_counts, "FEW_ROWS", -1)
        if upto >= LARGE:
            monkeypatch.setattr(write, "_DV_MERGE_BYTES", 0)
        written.run()
        for load, drawn in ((load, drawn) for loads, drawn in given.values() for load in loads):
            table = _table(written, load)
            wrong = first_difference(load, drawn, upto, table)
            assert wrong is None, wrong
            if declared is _as_sql:
                assert [row for row in table if row["label"] != ("?" if row["name"] is None else row["name"])] == []


def _table(written: Written, load: Load) -> Sequence[Row]:
    location = f"{written.folder}/.lakesmith/warehouse/silver/{load.name}"
    return [row.asDict() for row in written.spark.read.format("delta").load(location).collect()]


def _as_json(row: Row) -> dict[str, object]:
    return {column: _plain(value) for column, value in row.items() if value is not None}


def _plain(value: Any) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return value
