"""Checksum files of a log detect a flipped bit in a file of any writer."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakesmith.errors import InfrastructureError
from lakesmith.failpoints import watch
from lakesmith.formats.delta import Delta
from lakesmith.formats.delta.actions import commit_actions
from lakesmith.formats.delta.adopt import adopt_files
from lakesmith.formats.delta.checksums import write_checksums
from lakesmith.formats.delta.commit_results import batch_result
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import open_snapshot, open_snapshot_at
from lakesmith.ports import DataFile, Write
from lakesmith.store import folder_at
from lakesmith.store.checksum_files import checksum_path, checksums_of, is_corrupt

COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def write(number: int) -> Write:
    return Write(flow="flow", sequence=number, note=f"note {number}")


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Create a table: version 0 by delta-rs, 1 by a commit of Lakesmith, 2 with only a sequence number."""
    place = tmp_path / "t"
    place.mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), place / "1.parquet")
    file = DataFile("1.parquet", (place / "1.parquet").stat().st_size, 1)
    Delta().add([file], COLUMNS, folder_at(str(place)), write(1), None)
    commit_actions(folder_at(str(place)), 0, write(2), ("WRITE", {}), {}, [])
    Delta().advance(folder_at(str(place)), write(3))
    return place


def flip(file: Path, place: int, bit: int) -> Callable[[], None]:
    """Flip a bit like a failing disk, without any other trace. Returns a function that flips it back."""
    times, original = file.stat(), file.read_bytes()
    corrupt = bytearray(original)
    corrupt[place] ^= 1 << bit

    def put(content: bytes) -> None:
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    put(bytes(corrupt))
    return lambda: put(original)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_flipped_bit_anywhere_in_a_commit_is_an_error_for_readers(table: Path, version: int) -> None:
    file = commit(table, version)
    for place in range(len(file.read_bytes())):
        undo = flip(file, place, place % 8)
        with pytest.raises(InfrastructureError) as caught:
            open_snapshot(folder_at(str(table)))
        assert caught.value.code == "table-unreadable"
        assert str(file) in caught.value.what
        assert caught.value.hint
        undo()
    assert open_snapshot(folder_at(str(table))).version() == 2


def test_a_flipped_bit_in_a_checkpoint_is_an_error_for_readers(table: Path) -> None:
    for number in range(3, 11):
        commit_actions(folder_at(str(table)), number - 1, write(number + 1), ("WRITE", {}), {}, [])
    [file] = (table / "_delta_log").glob("*.checkpoint.parquet")
    assert os.path.exists(checksum_path(str(file)))
    size = len(file.read_bytes())
    for place in range(0, size, size // 200):
        undo = flip(file, place, place % 8)
        with pytest.raises(InfrastructureError, match=r"checkpoint\.parquet is corrupt"):
            open_snapshot(folder_at(str(table)))
        undo()
    assert open_snapshot(folder_at(str(table))).version() == 10


def test_a_commit_below_a_checkpoint_is_verified_when_it_is_read(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    for place in range(0, len(commit(table, 0).read_bytes()), 7):
        undo = flip(commit(table, 0), place, place % 8)
        assert open_snapshot(folder_at(str(table))).version() == 2
        assert len(list(Delta().commits(folder_at(str(table)), after=0))) == 2
        for reading in (
            lambda: list(Delta().commits(folder_at(str(table)))),
            lambda: open_snapshot_at(folder_at(str(table)), 0),
            lambda: Delta().changed_types(folder_at(str(table)), 0),
            lambda: Delta().arrow(folder_at(str(table)), 0),
            lambda: Delta().restore(folder_at(str(table)), 0, write(4)),
        ):
            with pytest.raises(InfrastructureError, match=f"{0:020}.json is corrupt"):
                reading()
        undo()
    assert Delta().restore(folder_at(str(table)), 0, write(4)).version == 3


def test_every_commit_of_lakesmith_has_checksums(table: Path) -> None:
    for version in range(3):
        path = str(commit(table, version))
        assert Path(checksum_path(path)).read_bytes() == checksums_of(Path(path).read_bytes())


def test_an_adopted_log_gets_checksums(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    adopt_files(folder_at(str(tmp_path)))
    flip(commit(tmp_path, 0), 40, 0)
    with pytest.raises(InfrastructureError, match="does not match its checksum file"):
        open_snapshot(folder_at(str(tmp_path)))


def test_a_commit_without_checksums_is_read_and_gets_them_with_the_next_commit(table: Path) -> None:
    checksums = Path(checksum_path(str(commit(table, 1))))
    checksums.unlink()
    assert open_snapshot(folder_at(str(table))).version() == 2
    Delta().advance(folder_at(str(table)), write(4))
    assert checksums.exists()
    flip(commit(table, 1), 40, 0)
    with pytest.raises(InfrastructureError, match="does not match its checksum file"):
        open_snapshot(folder_at(str(table)))


def test_an_empty_checksum_file_is_ignored(table: Path) -> None:
    Path(checksum_path(str(commit(table, 1)))).write_bytes(b"")
    assert open_snapshot(folder_at(str(table))).version() == 2


@pytest.mark.parametrize("place", [0, 3, 4, 8, 11])
def test_a_corrupt_checksum_file_is_an_error_with_a_hint(table: Path, place: int) -> None:
    checksums = Path(checksum_path(str(commit(table, 1))))
    for bit in range(8):
        undo = flip(checksums, place, bit)
        with pytest.raises(InfrastructureError, match="does not match its checksum file") as caught:
            open_snapshot(folder_at(str(table)))
        assert checksums.name in caught.value.what
        assert "remove its checksum file" in (caught.value.hint or "")
        undo()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
@pytest.mark.parametrize("chunk", [512, 1000, 4096])
def test_a_file_of_any_size_and_chunk_size_is_verified(
    tmp_path: Path, size: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesmith.store.checksum_files._CHUNK", chunk)
    file, content = tmp_path / "file", (b"content " * (size // 8 + 1))[:size]
    file.write_bytes(content)
    Path(checksum_path(str(file))).write_bytes(checksums_of(content))
    assert not is_corrupt(str(file))
    assert not is_corrupt(str(file), content)
    for other in (content + b"x", content[:-1] or b"x"):
        file.write_bytes(other)
        assert is_corrupt(str(file))
        assert is_corrupt(str(file), other)


def test_checksums_of_a_cleaned_up_commit_are_removed(table: Path) -> None:
    commit(table, 0).unlink()
    log = table / "_delta_log"
    (log / ".another.crc").touch()
    write_checksums(folder_at(str(table)))
    left = {path.name for path in log.iterdir() if path.name.startswith(".")}
    assert left == {".another.crc", *(f".{version:020}.json.crc" for version in (1, 2))}


def test_the_loser_of_a_version_leaves_the_checksums_of_the_winner(table: Path) -> None:
    before = Path(checksum_path(str(commit(table, 2)))).read_bytes()
    with pytest.raises(InfrastructureError, match="committed version 2 first"):
        commit_actions(folder_at(str(table)), 1, write(9), ("WRITE", {}), {}, [])
    assert Path(checksum_path(str(commit(table, 2)))).read_bytes() == before
    assert not list((table / "_delta_log").glob(".*.tmp"))


def test_stale_checksums_of_an_older_file_are_replaced(table: Path) -> None:
    Path(checksum_path(str(commit(table, 3)))).write_bytes(checksums_of(b"older"))
    commit_actions(folder_at(str(table)), 2, write(9), ("WRITE", {}), {}, [])
    assert open_snapshot(folder_at(str(table))).version() == 3


def test_foreign_tables_without_checksums_are_read(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    assert open_snapshot(folder_at(str(tmp_path / "t"))).version() == 0


def test_a_version_checksum_file_of_delta_is_verified(table: Path) -> None:
    """delta-rs reads the sequence number from it, so a wrong one could commit a batch twice."""
    state = table / "_delta_log" / f"{2:020}.crc"
    state.write_text(json.dumps(_state(table, sequence=3)))
    write_checksums(folder_at(str(table)))
    assert open_snapshot(folder_at(str(table))).transaction_version("flow") == 3
    state.write_text(json.dumps(_state(table, sequence=1)))
    assert DeltaTable(str(table)).transaction_version("flow") == 1, "delta-rs does not read it any more"
    with pytest.raises(InfrastructureError, match=f"{2:020}.crc is corrupt"):
        open_snapshot(folder_at(str(table)))


def _state(table: Path, sequence: int) -> dict[str, object]:
    """Return the content of Delta's version checksum file."""
    actions = [json.loads(line) for line in commit(table, 0).read_text().splitlines()]
    found = {name: action[name] for action in actions for name in ("protocol", "metaData") if name in action}
    return {
        "tableSizeBytes": 1,
        "numFiles": 1,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [{"appId": "flow", "version": sequence}],
        "domainMetadata": [],
        "metadata": found["metaData"],
        "protocol": found["protocol"],
    }


def test_a_corrupt_commit_never_enters_a_checkpoint(table: Path) -> None:
    flip(commit(table, 0), commit(table, 0).read_bytes().index(b"numRecords") + len(b'numRecords\\":'), 1)
    for number in range(3, 11):
        commit_actions(folder_at(str(table)), number - 1, write(number + 1), ("WRITE", {}), {}, [])
    assert not list((table / "_delta_log").glob("*.checkpoint.parquet"))
    with pytest.raises(InfrastructureError, match=f"{0:020}.json is corrupt"):
        open_snapshot(folder_at(str(table)))


def test_a_part_of_a_checkpoint_does_not_replace_earlier_commits(table: Path) -> None:
    (table / "_delta_log" / f"{2:020}.checkpoint.0000000001.0000000002.parquet").write_bytes(b"half")
    flip(commit(table, 1), 40, 0)
    with pytest.raises(InfrastructureError, match=f"{1:020}.json is corrupt"):
        open_snapshot(folder_at(str(table)))


def test_a_rollback_hidden_by_a_flipped_bit_is_an_error(table: Path) -> None:
    Delta().restore(folder_at(str(table)), 0, write(4))
    DeltaTable(str(table)).create_checkpoint()
    flip(commit(table, 3), commit(table, 3).read_bytes().index(b"RESTORE"), 0)
    with pytest.raises(InfrastructureError, match=f"{3:020}.json is corrupt"):
        refuse_if_rolled_back(DeltaTable(str(table)), folder_at(str(table)), replace(write(5), based_on=2))


@pytest.mark.parametrize("commits", [0, 2])
def test_checksums_of_lost_commits_do_not_block_new_commits(table: Path, commits: int) -> None:
    for version in range(commits, 3):
        commit(table, version).unlink()
    if commits:
        Delta().advance(folder_at(str(table)), write(3))
    else:
        Delta().add([], COLUMNS, folder_at(str(table)), write(1), None)
    assert open_snapshot(folder_at(str(table))).version() == commits


def test_a_commit_of_a_killed_writer_beside_stale_checksums_is_readable(table: Path) -> None:
    Path(checksum_path(str(commit(table, 3)))).write_bytes(checksums_of(b"older"))

    class Killed(BaseException):
        pass

    def kill(place: str, _: str) -> None:
        if place == "log.linked":
            raise Killed

    watch(kill)
    try:
        with pytest.raises(Killed):
            commit_actions(folder_at(str(table)), 2, write(9), ("WRITE", {}), {}, [])
    finally:
        watch(None)
    assert open_snapshot(folder_at(str(table))).version() == 3


def test_a_commit_to_a_dropped_table_is_reported_as_lost(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError) as caught:
        batch_result(folder_at(str(tmp_path / "gone")), write(1))
    assert caught.value.code == "commit-lost"


def test_old_leftovers_of_killed_writers_are_removed(table: Path) -> None:
    log = table / "_delta_log"
    for name in (".old.tmp", "..old.tmp.crc", ".young.tmp"):
        (log / name).touch()
        if "old" in name:
            os.utime(log / name, (1, 1))
    write_checksums(folder_at(str(table)))
    assert {file.name for file in log.glob(".*tmp*")} == {".young.tmp"}


def test_a_checkpoint_is_not_compared_with_stale_checksums(table: Path) -> None:
    for number in range(3, 10):
        commit_actions(folder_at(str(table)), number - 1, write(number + 1), ("WRITE", {}), {}, [])
    for kind in ("crc", "checkpoint.parquet"):
        (table / "_delta_log" / f".{10:020}.{kind}.crc").write_bytes(checksums_of(b"older"))
    commit_actions(folder_at(str(table)), 9, write(11), ("WRITE", {}), {}, [])
    assert list((table / "_delta_log").glob("*.checkpoint.parquet"))
    assert open_snapshot(folder_at(str(table))).version() == 10


def test_a_pointer_to_a_lost_checkpoint_is_named_beside_a_version_checksum_file(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{2:020}.checkpoint.parquet").unlink()
    (table / "_delta_log" / f"{2:020}.crc").write_text(json.dumps(_state(table, sequence=3)))
    with pytest.raises(InfrastructureError, match="_last_checkpoint names a checkpoint that does not exist"):
        open_snapshot(folder_at(str(table)))


def test_the_error_for_an_unlistable_log_names_it(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: str) -> list[str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr("lakesmith.store.local.os.scandir", failing)
    with pytest.raises(InfrastructureError) as caught:
        open_snapshot(folder_at(str(table)))
    assert caught.value.code == "disk-failed"
    assert str(table / "_delta_log") in caught.value.what
