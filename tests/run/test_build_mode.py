"""The build mode for inputs that other writers have changed. No JVM."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.faults.foreign import commits_by_others, set_commit_info

from lakesmith.formats import Delta
from lakesmith.run.build_mode import _rewrite
from lakesmith.store import folder_at


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "amount": [1, 2]}))
    return tmp_path


def rewrite(table: Path, since: int = 0, upto: int | None = None) -> str | None:
    facts = Delta().facts(folder_at(str(table)), "")
    assert facts is not None
    seen = facts if upto is None else replace(facts, version=upto)
    return _rewrite(Delta(), seen, since)


def test_rows_merged_by_another_writer_are_not_read_as_new_rows(table: Path) -> None:
    source = pa.table({"id": [2, 3], "amount": [20, 30]})
    merge = DeltaTable(str(table)).merge(source, "s.id = t.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert rewrite(table) == "MERGE"
    set_commit_info(table, 1, None)
    assert rewrite(table) == "unknown"


def test_appends_and_compactions_of_another_writer_are_read_incrementally(table: Path) -> None:
    write_deltalake(table, pa.table({"id": [3], "amount": [3]}), mode="append")
    DeltaTable(str(table)).optimize.compact()
    commits_by_others(table, 30)
    for version in (1, 2):
        set_commit_info(table, version, {"operation": "DELETE of nothing"})
    assert rewrite(table) is None


def test_commits_after_the_plan_do_not_hide_earlier_ones(table: Path) -> None:
    DeltaTable(str(table)).delete("id = 1")
    commits_by_others(table, 30)
    assert rewrite(table, upto=1) == "DELETE"
    assert rewrite(table, since=1, upto=2) is None
