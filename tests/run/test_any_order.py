"""Every load against its model: however its input is cut, repeated, delayed and shuffled, the table is what the model
says, after every batch. Many histories share each run, each with keys of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from tests.models.cases import LOADS, Load
from tests.models.differences import first_difference
from tests.models.draws import TIMES
from tests.models.histories import History, histories, pack
from tests.models.rows import Row
from tests.run.lakes import Written

from lakesmith.spark import write
from lakesmith.spark.loads.enter import Entering

pytestmark = pytest.mark.spark

EACH = 165
RUNS = (0, 1, 3, 4)
"""The batches after which the lake is run; others are taken in together with the next."""
LARGE = 3
"""From this run on, tables are treated as large ones."""
SEED = 5
SAME_CODE = {"dedup", "scd2_ignore", "changes_moves", "changes_amounts", "snapshot_scd2_ignore", "snapshot_scd2_track"}
"""Loads that take no way of their own: others have their options and more."""


def sources(seed: int, each: int) -> dict[str, tuple[list[Load], list[History]]]:
    """The loads by what they read: those with the same rows share a bronze table."""
    found: dict[str, tuple[list[Load], list[History]]] = {}
    for load in (load for load in LOADS.values() if load.name not in SAME_CODE):
        drawn = histories(load, seed, each)
        told = json.dumps([list(load.columns), [history.batches for history in drawn]], default=str)
        for loads, same in found.values():
            if told == json.dumps([list(loads[0].columns), [history.batches for history in same]], default=str):
                loads.append(load)
                break
        else:
            found[f"rows{len(found)}"] = ([load], drawn)
    return found


@pytest.mark.timeout(900)
def test_every_load_is_what_its_model_says_after_every_batch(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    given = sources(SEED, EACH)
    assert sum(len(loads) * len(drawn) for loads, drawn in given.values()) >= 2_000
    _run_and_compare(written, given, monkeypatch)


def test_extracts_in_their_order_go_on_from_the_table(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Entering, "recomputed", None)
    loads = [LOADS["snapshot_merge"], LOADS["snapshot_scd2_track"]]
    drawn = [_by_time(history) for history in histories(loads[0], SEED, EACH)]
    _run_and_compare(written, {"rows": (loads, drawn)}, monkeypatch)


def _by_time(history: History) -> History:
    """Each extract in a batch of its own; rows without a time come with the first."""
    rows = [row for batch in history.batches for row in batch]
    return replace(
        history, batches=tuple(tuple(row for row in rows if (row["taken"] or TIMES[0]) == at) for at in TIMES)
    )


def _run_and_compare(
    written: Written, given: dict[str, tuple[list[Load], list[History]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (loads, _) in given.items():
        columns = "".join(f"  {column}: {type}\n" for column, type in loads[0].columns.items())
        written.declare({f"bronze/{name}.yml": f'source: {{files: "landing/{name}/*.json"}}\ncolumns:\n{columns}'})
        for load in loads:
            selected = ", ".join(load.columns)
            header = f"/* lakesmith\nload: {json.dumps(load.declaration)}\n*/\n"
            written.declare({f"silver/{load.name}.sql": f"{header}SELECT {selected} FROM bronze.{name}\n"})
    packed = {name: pack(drawn) for name, (_, drawn) in given.items()}
    after = -1
    for upto in RUNS:
        for name, batches in packed.items():
            written.land(
                f"{name}/{upto}.json", *(_as_json(row) for batch in batches[after + 1 : upto + 1] for row in batch)
            )
        after = upto
        if upto >= LARGE:
            monkeypatch.setattr(write, "_VECTORS", 0)
        written.run()
        for load, drawn in ((load, drawn) for loads, drawn in given.values() for load in loads):
            wrong = first_difference(load, drawn, upto, _table(written, load))
            assert wrong is None, wrong


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
