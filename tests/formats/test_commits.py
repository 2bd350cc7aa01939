"""The commits of a log, for any writer and any `commitInfo`. No JVM."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.faults.foreign import ODD, cleaned_by_others, commits_by_others, compacted_by_others, set_commit_info

from lakesmith.errors import InfrastructureError
from lakesmith.formats import Delta
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.commit_results import batch_result
from lakesmith.ports import CommitFact, DataFile, Write, find_commit
from lakesmith.store import folder_at

FLOW = "lakesmith.bronze.orders"
COLUMNS = '{"type":"struct","fields":[{"name":"name","type":"string","nullable":true,"metadata":{}}]}'


def write(sequence: int) -> Write:
    return Write(flow=FLOW, sequence=sequence, note=f"lakesmith batch {sequence}.1 run r")


def add(table: Path, sequence: int) -> None:
    """Commit one row as a batch, like the workers of a run."""
    import pyarrow.parquet as pq

    table.mkdir(exist_ok=True)
    path = table / f"{sequence}.parquet"
    pq.write_table(pa.table({"name": [f"row {sequence}"]}), path)
    facts = Delta().facts(folder_at(str(table)), FLOW)
    file = DataFile(path.name, path.stat().st_size, 1)
    Delta().add([file], COLUMNS, folder_at(str(table)), write(sequence), facts.table_id if facts else None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Create a table with three batches of one row each."""
    for sequence in (1, 2, 3):
        add(tmp_path / "t", sequence)
    return tmp_path / "t"


@pytest.mark.parametrize("others", [0, 19, 25, 130])
def test_a_commit_is_found_below_any_number_of_others(table: Path, others: int) -> None:
    commits_by_others(table, others)
    assert batch_result(folder_at(str(table)), write(3)).version == 2
    assert batch_result(folder_at(str(table)), write(1)).version == 0
    assert Delta().rows_added_by(folder_at(str(table)), 2, "name") == {"row 3": 1}


def test_the_files_of_a_commit_cannot_be_counted_when_others_have_deleted_them(table: Path) -> None:
    compacted_by_others(table)
    assert Delta().rows_added_by(folder_at(str(table)), 2, "name") is None


def test_a_cleaned_up_commit_is_not_confused_with_another(table: Path) -> None:
    cleaned_by_others(table)
    assert Delta().rows_added_by(folder_at(str(table)), 2, "name") is None
    with pytest.raises(InfrastructureError, match="another run committed batch 3 of"):
        batch_result(folder_at(str(table)), write(3))
    facts = Delta().facts(folder_at(str(table)), FLOW)
    assert facts is not None
    assert (facts.sequence, facts.oldest, facts.rows) == (3, 3, 3)


def test_a_checkpoint_that_others_make_again_is_read_once_its_checksum_file_is_removed(table: Path) -> None:
    import pyarrow.parquet as pq

    DeltaTable(str(table)).create_checkpoint()
    write_checksums(folder_at(str(table)))
    [checkpoint] = (table / "_delta_log").glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(checkpoint), checkpoint, compression="zstd")
    with pytest.raises(InfrastructureError) as caught:
        Delta().facts(folder_at(str(table)), FLOW)
    assert caught.value.code == "table-unreadable"
    assert "remove its checksum file" in str(caught.value.hint)
    checkpoint.with_name(f".{checkpoint.name}.crc").unlink()
    facts = Delta().facts(folder_at(str(table)), FLOW)
    assert facts is not None
    assert (facts.rows, facts.sequence) == (3, 3)
    add(table, 4)
    assert batch_result(folder_at(str(table)), write(4)).version == 3


def test_commits_are_read_only_as_far_back_as_requested(table: Path) -> None:
    commits_by_others(table, 3)
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{1:020}.json").write_text("corrupt")
    assert [commit.version for commit in Delta().commits(folder_at(str(table)), after=3)] == [5, 4]


@pytest.mark.parametrize("info", ODD.values(), ids=ODD)
@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_has_its_version_with_any_commit_info(table: Path, version: int, info: object) -> None:
    set_commit_info(table, version, info)
    modified = datetime(2026, 5, 4, tzinfo=UTC)
    os.utime(table / "_delta_log" / f"{version:020}.json", (modified.timestamp(), modified.timestamp()))
    format = Delta()
    commits = {commit.version: commit for commit in format.commits(folder_at(str(table)))}
    assert list(commits) == [2, 1, 0]
    assert commits[version].committed_at == modified
    assert commits[0].note == write(1).note
    assert isinstance(commits[version].operation, str)
    assert commits[version].sequences == {FLOW: version + 1}
    assert not commits[version].removes_rows
    assert format.commit_result(commits[version]).version == version
    facts = format.facts(folder_at(str(table)), FLOW)
    assert facts is not None
    assert (facts.version, facts.rows, facts.sequence) == (2, 3, 3)
    assert version != 2 or facts.committed_at == modified
    assert format.version_at(folder_at(str(table)), datetime.now(UTC)) == 2
    assert format.arrow(folder_at(str(table)), 2).to_table().num_rows == 3


def test_an_in_commit_timestamp_is_the_time_of_a_commit(table: Path) -> None:
    set_commit_info(table, 2, {"inCommitTimestamp": 1_700_000_000_000, "timestamp": 5})
    assert next(iter(Delta().commits(folder_at(str(table))))).committed_at == datetime(
        2023, 11, 14, 22, 13, 20, tzinfo=UTC
    )


def test_file_actions_show_whether_a_commit_removes_rows(table: Path) -> None:
    DeltaTable(str(table)).delete("name = 'row 1'")
    DeltaTable(str(table)).optimize.compact()
    for version in (3, 4):
        set_commit_info(table, version, None)
    assert [commit.removes_rows for commit in Delta().commits(folder_at(str(table)))] == [
        False,
        True,
        False,
        False,
        False,
    ]


def test_a_maintenance_operation_that_changes_rows_is_not_maintenance(table: Path) -> None:
    DeltaTable(str(table)).optimize.compact()
    facts = Delta().facts(folder_at(str(table)), FLOW)
    assert facts is not None
    assert facts.changed == 2
    write_deltalake(str(table), pa.table({"name": ["row 4"]}), mode="append")
    set_commit_info(table, 4, {"operation": "OPTIMIZE"})
    facts = Delta().facts(folder_at(str(table)), FLOW)
    assert facts is not None
    assert facts.changed == 4


def test_the_error_for_corrupt_commit_info_names_the_file(table: Path) -> None:
    commit = table / "_delta_log" / f"{1:020}.json"
    lines = commit.read_text().splitlines()
    torn = next(at for at, line in enumerate(lines) if "commitInfo" in line)
    lines[torn] = lines[torn][:30]
    commit.write_text("\n".join(lines) + "\n")
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    with pytest.raises(InfrastructureError, match=r"0001\.json is corrupt: line \d is not JSON"):
        list(Delta().commits(folder_at(str(table))))


def commit(version: int, note: str | None = None, **sequences: int) -> CommitFact:
    return CommitFact(
        version=version,
        committed_at=datetime.now(UTC),
        operation="WRITE",
        parameters={},
        metrics={},
        note=note,
        sequences=sequences,
    )


def test_the_search_for_a_commit_ends_at_the_batch_before_it() -> None:
    def commits(*newest: CommitFact) -> Iterator[CommitFact]:
        yield from newest
        raise AssertionError("commits before the batch were read")

    others = [commit(number, "nightly") for number in range(90, 50, -1)]
    own = commit(50, "batch 7.1", ours=7)
    assert find_commit(commits(*others, own), "ours", 7, "batch 7.1") is own
    assert find_commit(commits(*others, commit(50, "batch 7.2", ours=7)), "ours", 7, "batch 7.1") is None
    assert find_commit(commits(*others, commit(50, "batch 6.1", ours=6)), "ours", 7, "batch 7.1") is None
    assert find_commit([*others, commit(50, None, theirs=7)], "ours", 7, "batch 7.1") is None


def test_commits_are_read_with_any_json_spacing(table: Path) -> None:
    DeltaTable(str(table)).delete("name = 'row 1'")
    path = table / "_delta_log" / f"{3:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(f" {json.dumps(action, indent=None, separators=(' , ', ' : '))}\n" for action in actions))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    newest = next(iter(Delta().commits(folder_at(str(table)))))
    assert (newest.removes_rows, newest.operation) == (True, "DELETE")
