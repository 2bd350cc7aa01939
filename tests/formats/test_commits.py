"""The commits of a log, whoever made them and whatever they say of themselves. No JVM."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.faults.foreign import ODD, cleaned_by_others, commits_by_others, compacted_by_others, says

from lakesmith.errors import InfrastructureError
from lakesmith.formats import Delta
from lakesmith.formats.delta.checksums import seal_log
from lakesmith.ports import CommitFact, DataFile, Write, find_commit

FLOW = "lakesmith.bronze.orders"
COLUMNS = '{"type":"struct","fields":[{"name":"name","type":"string","nullable":true,"metadata":{}}]}'


def write(sequence: int) -> Write:
    return Write(flow=FLOW, sequence=sequence, note=f"lakesmith batch {sequence}.1 run r")


def add(table: Path, sequence: int) -> None:
    """Commit one row as a batch, as the workers of a run do."""
    import pyarrow.parquet as pq

    table.mkdir(exist_ok=True)
    path = table / f"{sequence}.parquet"
    pq.write_table(pa.table({"name": [f"row {sequence}"]}), path)
    facts = Delta().facts(str(table), FLOW)
    file = DataFile(path.name, path.stat().st_size, 1)
    Delta().add([file], COLUMNS, str(table), write(sequence), facts.table_id if facts else None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three batches of one row each."""
    for sequence in (1, 2, 3):
        add(tmp_path / "t", sequence)
    return tmp_path / "t"


@pytest.mark.parametrize("others", [0, 19, 25, 130])
def test_a_commit_is_read_back_however_many_others_have_come_since(table: Path, others: int) -> None:
    commits_by_others(table, others)
    assert Delta().committed(str(table), write(3)).version == 2
    assert Delta().committed(str(table), write(1)).version == 0
    assert Delta().added_by(str(table), 2, "name") == {"row 3": 1}


def test_the_files_of_a_commit_cannot_be_counted_when_others_have_deleted_them(table: Path) -> None:
    compacted_by_others(table)
    assert Delta().added_by(str(table), 2, "name") is None


def test_a_commit_that_was_cleaned_up_is_not_taken_for_another(table: Path) -> None:
    cleaned_by_others(table)
    assert Delta().added_by(str(table), 2, "name") is None
    with pytest.raises(InfrastructureError, match="was committed by another run first"):
        Delta().committed(str(table), write(3))
    facts = Delta().facts(str(table), FLOW)
    assert facts is not None
    assert (facts.sequence, facts.oldest, facts.rows) == (3, 3, 3)


def test_a_checkpoint_that_others_make_again_is_read_once_its_checksum_file_is_removed(table: Path) -> None:
    import pyarrow.parquet as pq

    DeltaTable(str(table)).create_checkpoint()
    seal_log(str(table))
    [checkpoint] = (table / "_delta_log").glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(checkpoint), checkpoint, compression="zstd")
    with pytest.raises(InfrastructureError) as caught:
        Delta().facts(str(table), FLOW)
    assert caught.value.code == "table-unreadable"
    assert "remove its seal" in str(caught.value.hint)
    checkpoint.with_name(f".{checkpoint.name}.crc").unlink()
    facts = Delta().facts(str(table), FLOW)
    assert facts is not None
    assert (facts.rows, facts.sequence) == (3, 3)
    add(table, 4)
    assert Delta().committed(str(table), write(4)).version == 3


def test_commits_are_read_no_further_back_than_they_are_asked_for(table: Path) -> None:
    commits_by_others(table, 3)
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{1:020}.json").write_text("damaged")
    assert [commit.version for commit in Delta().commits(str(table), after=3)] == [5, 4]


@pytest.mark.parametrize("info", ODD.values(), ids=ODD)
@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_has_its_own_version_whatever_it_says(table: Path, version: int, info: object) -> None:
    says(table, version, info)
    modified = datetime(2026, 5, 4, tzinfo=UTC)
    os.utime(table / "_delta_log" / f"{version:020}.json", (modified.timestamp(), modified.timestamp()))
    format = Delta()
    commits = {commit.version: commit for commit in format.commits(str(table))}
    assert list(commits) == [2, 1, 0]
    assert commits[version].committed_at == modified
    assert commits[0].note == write(1).note
    assert isinstance(commits[version].operation, str)
    assert commits[version].sequences == {FLOW: version + 1}
    assert not commits[version].removes_rows
    assert format.written(commits[version]).version == version
    facts = format.facts(str(table), FLOW)
    assert facts is not None
    assert (facts.version, facts.rows, facts.sequence) == (2, 3, 3)
    assert version != 2 or facts.committed_at == modified
    assert format.version_at(str(table), datetime.now(UTC)) == 2
    assert format.arrow(str(table), 2).to_table().num_rows == 3


def test_the_time_of_a_commit_is_that_of_the_log_where_the_table_has_it(table: Path) -> None:
    says(table, 2, {"inCommitTimestamp": 1_700_000_000_000, "timestamp": 5})
    assert next(iter(Delta().commits(str(table)))).committed_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_rows_that_a_commit_takes_away_are_known_from_its_files(table: Path) -> None:
    DeltaTable(str(table)).delete("name = 'row 1'")
    DeltaTable(str(table)).optimize.compact()
    for version in (3, 4):
        says(table, version, None)
    assert [commit.removes_rows for commit in Delta().commits(str(table))] == [False, True, False, False, False]


def test_an_operation_of_that_name_that_moves_rows_is_no_maintenance(table: Path) -> None:
    DeltaTable(str(table)).optimize.compact()
    facts = Delta().facts(str(table), FLOW)
    assert facts is not None
    assert facts.changed == 2
    write_deltalake(str(table), pa.table({"name": ["row 4"]}), mode="append")
    says(table, 4, {"operation": "OPTIMIZE"})
    facts = Delta().facts(str(table), FLOW)
    assert facts is not None
    assert facts.changed == 4


def test_a_commit_whose_own_account_is_torn_is_damage_that_names_the_file(table: Path) -> None:
    commit = table / "_delta_log" / f"{1:020}.json"
    lines = commit.read_text().splitlines()
    told = next(at for at, line in enumerate(lines) if "commitInfo" in line)
    lines[told] = lines[told][:30]
    commit.write_text("\n".join(lines) + "\n")
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    with pytest.raises(InfrastructureError, match=r"0001\.json is damaged: line \d is not JSON"):
        list(Delta().commits(str(table)))


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


def test_a_commit_is_looked_for_back_to_the_one_before_it_and_no_further() -> None:
    def commits(*newest: CommitFact) -> Iterator[CommitFact]:
        yield from newest
        raise AssertionError("commits before the batch were read")

    others = [commit(number, "nightly") for number in range(90, 50, -1)]
    own = commit(50, "batch 7.1", ours=7)
    assert find_commit(commits(*others, own), "ours", 7, "batch 7.1") is own
    assert find_commit(commits(*others, commit(50, "batch 7.2", ours=7)), "ours", 7, "batch 7.1") is None
    assert find_commit(commits(*others, commit(50, "batch 6.1", ours=6)), "ours", 7, "batch 7.1") is None
    assert find_commit([*others, commit(50, None, theirs=7)], "ours", 7, "batch 7.1") is None


def test_json_of_a_commit_is_read_as_it_is_spaced(table: Path) -> None:
    DeltaTable(str(table)).delete("name = 'row 1'")
    path = table / "_delta_log" / f"{3:020}.json"
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(f" {json.dumps(action, indent=None, separators=(' , ', ' : '))}\n" for action in actions))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    newest = next(iter(Delta().commits(str(table))))
    assert (newest.removes_rows, newest.operation) == (True, "DELETE")
