"""Seals of a log: a bit that flips in it is found out, whoever wrote the file."""

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
from lakesmith.formats.delta.checksums import breaks_seal, seal_for, seal_log, seal_of
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import opened, opened_at
from lakesmith.ports import DataFile, Write

COLUMNS = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


def write(number: int) -> Write:
    return Write(flow="flow", sequence=number, note=f"note {number}")


def commit(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Version 0 by delta-rs, 1 by a link of our own, 2 a position alone."""
    place = tmp_path / "t"
    place.mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), place / "1.parquet")
    file = DataFile("1.parquet", (place / "1.parquet").stat().st_size, 1)
    Delta().add([file], COLUMNS, str(place), write(1), None)
    commit_actions(str(place), 0, write(2), ("WRITE", {}), {}, [])
    Delta().advance(str(place), write(3))
    return place


def flip(file: Path, place: int, bit: int) -> Callable[[], None]:
    """Flip a bit as a disk does that forgets: nothing else tells of it. Returns how to flip it back."""
    times, whole = file.stat(), file.read_bytes()
    damaged = bytearray(whole)
    damaged[place] ^= 1 << bit

    def put(content: bytes) -> None:
        file.write_bytes(content)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    put(bytes(damaged))
    return lambda: put(whole)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_bit_that_flips_anywhere_in_a_commit_stops_whoever_opens_the_table(table: Path, version: int) -> None:
    file = commit(table, version)
    for place in range(len(file.read_bytes())):
        mend = flip(file, place, place % 8)
        with pytest.raises(InfrastructureError) as caught:
            opened(str(table))
        assert caught.value.code == "table-unreadable"
        assert str(file) in caught.value.what
        assert caught.value.hint
        mend()
    assert opened(str(table)).version() == 2


def test_a_bit_that_flips_in_a_checkpoint_stops_whoever_opens_the_table(table: Path) -> None:
    for number in range(3, 11):
        commit_actions(str(table), number - 1, write(number + 1), ("WRITE", {}), {}, [])
    [file] = (table / "_delta_log").glob("*.checkpoint.parquet")
    assert os.path.exists(seal_of(str(file)))
    size = len(file.read_bytes())
    for place in range(0, size, size // 200):
        mend = flip(file, place, place % 8)
        with pytest.raises(InfrastructureError, match=r"checkpoint\.parquet is damaged"):
            opened(str(table))
        mend()
    assert opened(str(table)).version() == 10


def test_a_commit_that_a_checkpoint_has_summed_up_is_looked_at_where_it_is_read(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    for place in range(0, len(commit(table, 0).read_bytes()), 7):
        mend = flip(commit(table, 0), place, place % 8)
        assert opened(str(table)).version() == 2
        assert len(list(Delta().commits(str(table), after=0))) == 2
        for reading in (
            lambda: list(Delta().commits(str(table))),
            lambda: opened_at(str(table), 0),
            lambda: Delta().retyped(str(table), 0),
            lambda: Delta().arrow(str(table), 0),
            lambda: Delta().restore(str(table), 0, write(4)),
        ):
            with pytest.raises(InfrastructureError, match=f"{0:020}.json is damaged"):
                reading()
        mend()
    assert Delta().restore(str(table), 0, write(4)).version == 3


def test_every_commit_of_ours_is_sealed_whichever_way_it_was_made(table: Path) -> None:
    for version in range(3):
        path = str(commit(table, version))
        assert Path(seal_of(path)).read_bytes() == seal_for(Path(path).read_bytes())


def test_a_log_of_others_is_sealed_when_it_is_adopted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), tmp_path / "1.parquet")
    adopt_files(str(tmp_path))
    flip(commit(tmp_path, 0), 40, 0)
    with pytest.raises(InfrastructureError, match="is not what its seal says"):
        opened(str(tmp_path))


def test_what_a_writer_left_without_a_seal_is_read_and_sealed_by_the_next_commit(table: Path) -> None:
    seal = Path(seal_of(str(commit(table, 1))))
    seal.unlink()
    assert opened(str(table)).version() == 2
    Delta().advance(str(table), write(4))
    assert seal.exists()
    flip(commit(table, 1), 40, 0)
    with pytest.raises(InfrastructureError, match="is not what its seal says"):
        opened(str(table))


def test_an_empty_seal_says_nothing(table: Path) -> None:
    Path(seal_of(str(commit(table, 1)))).write_bytes(b"")
    assert opened(str(table)).version() == 2


@pytest.mark.parametrize("place", [0, 3, 4, 8, 11])
def test_a_seal_that_is_damaged_itself_is_told_with_the_way_out(table: Path, place: int) -> None:
    seal = Path(seal_of(str(commit(table, 1))))
    for bit in range(8):
        mend = flip(seal, place, bit)
        with pytest.raises(InfrastructureError, match="is not what its seal says") as caught:
            opened(str(table))
        assert seal.name in caught.value.what
        assert "remove its seal" in (caught.value.hint or "")
        mend()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
@pytest.mark.parametrize("piece", [512, 1000, 4096])
def test_a_file_is_held_to_its_seal_whatever_its_size_and_that_of_the_pieces(
    tmp_path: Path, size: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakesmith.formats.delta.checksums._PIECE", piece)
    file, content = tmp_path / "file", (b"content " * (size // 8 + 1))[:size]
    file.write_bytes(content)
    Path(seal_of(str(file))).write_bytes(seal_for(content))
    assert not breaks_seal(str(file))
    assert not breaks_seal(str(file), content)
    for other in (content + b"x", content[:-1] or b"x"):
        file.write_bytes(other)
        assert breaks_seal(str(file))
        assert breaks_seal(str(file), other)


def test_the_seal_of_a_commit_that_was_cleaned_up_goes_with_it(table: Path) -> None:
    commit(table, 0).unlink()
    log = table / "_delta_log"
    (log / ".another.crc").touch()
    seal_log(str(table))
    left = {path.name for path in log.iterdir() if path.name.startswith(".")}
    assert left == {".another.crc", *(f".{version:020}.json.crc" for version in (1, 2))}


def test_a_loser_leaves_the_seal_of_the_winner(table: Path) -> None:
    before = Path(seal_of(str(commit(table, 2)))).read_bytes()
    with pytest.raises(InfrastructureError, match="made version 2 first"):
        commit_actions(str(table), 1, write(9), ("WRITE", {}), {}, [])
    assert Path(seal_of(str(commit(table, 2)))).read_bytes() == before
    assert not list((table / "_delta_log").glob(".*.tmp"))


def test_a_seal_that_an_older_file_has_left_is_replaced(table: Path) -> None:
    Path(seal_of(str(commit(table, 3)))).write_bytes(seal_for(b"older"))
    commit_actions(str(table), 2, write(9), ("WRITE", {}), {}, [])
    assert opened(str(table)).version() == 3


def test_tables_of_others_that_nobody_sealed_are_read_as_they_are(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    assert opened(str(tmp_path / "t")).version() == 0


def test_what_delta_tells_of_a_version_beside_its_commit_is_held_to_its_seal(table: Path) -> None:
    """delta-rs believes it of the batch number: a batch could be committed twice."""
    told = table / "_delta_log" / f"{2:020}.crc"
    told.write_text(json.dumps(_state(table, sequence=3)))
    seal_log(str(table))
    assert opened(str(table)).transaction_version("flow") == 3
    told.write_text(json.dumps(_state(table, sequence=1)))
    assert DeltaTable(str(table)).transaction_version("flow") == 1, "delta-rs does not look at it any more"
    with pytest.raises(InfrastructureError, match=f"{2:020}.crc is damaged"):
        opened(str(table))


def _state(table: Path, sequence: int) -> dict[str, object]:
    """A version as Delta sums it up in a file of its own."""
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


def test_damage_is_not_summed_up(table: Path) -> None:
    flip(commit(table, 0), commit(table, 0).read_bytes().index(b"numRecords") + len(b'numRecords\\":'), 1)
    for number in range(3, 11):
        commit_actions(str(table), number - 1, write(number + 1), ("WRITE", {}), {}, [])
    assert not list((table / "_delta_log").glob("*.checkpoint.parquet"))
    with pytest.raises(InfrastructureError, match=f"{0:020}.json is damaged"):
        opened(str(table))


def test_a_part_of_a_checkpoint_does_not_stand_for_the_commits_before_it(table: Path) -> None:
    (table / "_delta_log" / f"{2:020}.checkpoint.0000000001.0000000002.parquet").write_bytes(b"half")
    flip(commit(table, 1), 40, 0)
    with pytest.raises(InfrastructureError, match=f"{1:020}.json is damaged"):
        opened(str(table))


def test_a_rollback_that_a_flipped_bit_hides_is_not_passed_over(table: Path) -> None:
    Delta().restore(str(table), 0, write(4))
    DeltaTable(str(table)).create_checkpoint()
    flip(commit(table, 3), commit(table, 3).read_bytes().index(b"RESTORE"), 0)
    with pytest.raises(InfrastructureError, match=f"{3:020}.json is damaged"):
        refuse_if_rolled_back(DeltaTable(str(table)), str(table), replace(write(5), since=2))


@pytest.mark.parametrize("kept", [0, 2])
def test_a_log_whose_seals_outlived_its_commits_takes_new_ones(table: Path, kept: int) -> None:
    for version in range(kept, 3):
        commit(table, version).unlink()
    if kept:
        Delta().advance(str(table), write(3))
    else:
        Delta().add([], COLUMNS, str(table), write(1), None)
    assert opened(str(table)).version() == kept


def test_a_commit_that_is_cut_short_beside_an_old_seal_can_be_read(table: Path) -> None:
    Path(seal_of(str(commit(table, 3)))).write_bytes(seal_for(b"older"))

    class Killed(BaseException):
        pass

    def kill(place: str, _: str) -> None:
        if place == "log.linked":
            raise Killed

    watch(kill)
    try:
        with pytest.raises(Killed):
            commit_actions(str(table), 2, write(9), ("WRITE", {}), {}, [])
    finally:
        watch(None)
    assert opened(str(table)).version() == 3


def test_a_commit_to_a_table_that_was_dropped_since_is_told_as_lost(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError) as caught:
        Delta().committed(str(tmp_path / "gone"), write(1))
    assert caught.value.code == "commit-lost"


def test_what_killed_writers_left_is_taken_away_once_nobody_can_come_back_for_it(table: Path) -> None:
    log = table / "_delta_log"
    for name in (".old.tmp", "..old.tmp.crc", ".young.tmp"):
        (log / name).touch()
        if "old" in name:
            os.utime(log / name, (1, 1))
    seal_log(str(table))
    assert {file.name for file in log.glob(".*tmp*")} == {".young.tmp"}


def test_a_checkpoint_meets_no_seal_of_an_older_one(table: Path) -> None:
    for number in range(3, 10):
        commit_actions(str(table), number - 1, write(number + 1), ("WRITE", {}), {}, [])
    for kind in ("crc", "checkpoint.parquet"):
        (table / "_delta_log" / f".{10:020}.{kind}.crc").write_bytes(seal_for(b"older"))
    commit_actions(str(table), 9, write(11), ("WRITE", {}), {}, [])
    assert list((table / "_delta_log").glob("*.checkpoint.parquet"))
    assert opened(str(table)).version() == 10


def test_a_pointer_to_a_checkpoint_that_is_lost_is_named_also_where_delta_tells_of_the_version(table: Path) -> None:
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / f"{2:020}.checkpoint.parquet").unlink()
    (table / "_delta_log" / f"{2:020}.crc").write_text(json.dumps(_state(table, sequence=3)))
    with pytest.raises(InfrastructureError, match="_last_checkpoint names a checkpoint that is not there"):
        opened(str(table))


def test_a_log_that_cannot_be_listed_is_named(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: str) -> list[str]:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr("lakesmith.formats.delta.names.os.listdir", failing)
    with pytest.raises(InfrastructureError) as caught:
        opened(str(table))
    assert caught.value.code == "disk-failed"
    assert str(table / "_delta_log") in caught.value.what
