"""Logs of tables that any writer may have written: every question about the lake gets an answer or an error."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tests.faults.foreign import ODD
from tests.faults.prebuilt_lake import BRONZE
from tests.fuzz import mutate
from tests.fuzz.model import Case
from tests.ledger.completed import done

from lakesmith.errors import LakesmithError
from lakesmith.lake import Lake
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches, flow
from lakesmith.ledger.content import NewFiles
from lakesmith.plan.fingerprint import definition
from lakesmith.ports import FileFact
from lakesmith.store import LocalStore

_TIME = 1_767_225_600_000
_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {}},
    ],
}
_LAKE: Mapping[str, str] = {
    "lakesmith.yml": "name: shop\n",
    "bronze/orders.yml": "source: {files: landing/*.json}\n",
    "bronze/adopted.yml": "source: {adopt: adopted}\n",
    "silver/orders.sql": "/* lakesmith\nload: {merge: {key: id, order_by: day}}\n*/\n"
    "SELECT id, day FROM bronze.orders\n",
    "gold/days.sql": "SELECT day, count(*) AS orders FROM bronze.adopted GROUP BY day\n",
}
_NAMES = """
add remove cdc metaData protocol txn commitInfo domainMetadata checkpointMetadata sidecar path partitionValues size
modificationTime dataChange stats tags deletionVector storageType pathOrInlineDv offset sizeInBytes cardinality
numRecords minValues maxValues nullCount tightBounds minReaderVersion minWriterVersion readerFeatures writerFeatures
deletionVectors typeWidening columnMapping timestampNtz v2Checkpoint schemaString partitionColumns configuration id
format provider createdTime delta.columnMapping.mode delta.appendOnly delta.logRetentionDuration appId version
lastUpdated timestamp inCommitTimestamp operation operationParameters operationMetrics userMetadata RESTORE OPTIMIZE
VACUUM MERGE DELETE WRITE CREATE part-0.parquet ../secret.parquet /etc/passwd s3://x/y part-9.parquet a%2 day=x
"""
_WORDS = tuple(_NAMES.split())
_FAR = ("+12345-01-01", "-0044-03-15", "12345-01-01", "9999-12-31", "x", "")


@cache
def _row(number: int) -> bytes:
    rows = io.BytesIO()
    day = pa.array([20_000 + number], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "day": day}), rows)
    return rows.getvalue()


def _add(number: int, **values: object) -> dict[str, Any]:
    stats = {"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
    added: dict[str, Any] = {"path": f"part-{number}.parquet", "partitionValues": {}}
    added |= {"size": len(_row(number)), "dataChange": True}
    return {"add": {**added, "modificationTime": _TIME, "stats": json.dumps(stats), **values}}


def _remove(number: int) -> dict[str, Any]:
    return {"remove": {"path": f"part-{number}.parquet", "deletionTimestamp": _TIME, "dataChange": True}}


def _info(version: int, operation: str, note: str | None = None) -> dict[str, Any]:
    info = {"timestamp": _TIME + version, "operation": operation, "operationParameters": {}, "operationMetrics": {}}
    return {"commitInfo": {**info, **({"userMetadata": note} if note else {})}}


def _commits() -> list[list[dict[str, Any]]]:
    """Three batches of Lakesmith, then a compaction and a deletion by another writer."""
    batches = [
        [
            _info(number - 1, "WRITE", f"lakesmith batch {number}.1 run run"),
            {"txn": {"appId": flow(BRONZE), "version": number, "lastUpdated": _TIME}},
            _add(number),
        ]
        for number in (1, 2, 3)
    ]
    metadata: dict[str, Any] = {"id": "t"}
    metadata |= {"format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(_SCHEMA)}
    metadata |= {"partitionColumns": [], "configuration": {}, "createdTime": _TIME}
    batches[0][1:1] = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    compacted = [_info(3, "OPTIMIZE"), _remove(1), _remove(2), _add(4, dataChange=False)]
    return [*batches, compacted, [_info(4, "DELETE"), _remove(3)]]


def log_case(rng: Random) -> Case:
    """A log of which some commits are changed."""
    commits = _commits()
    texts: list[bytes | None] = []
    chosen = {rng.randrange(len(commits)) for _ in range(rng.choice((1, 1, 2)))}
    for version, actions in enumerate(commits):
        text = "".join(json.dumps(action) + "\n" for action in actions).encode()
        texts.append(_changed(rng, actions, text) if version in chosen else text)
    files = {f"{version:020}.json": text for version, text in enumerate(texts) if text is not None}
    if rng.random() < 0.1:
        name = rng.choice(("_last_checkpoint", f"{4:020}.crc", f".{4:020}.json.crc", f"{4:020}.checkpoint.parquet"))
        files[name] = rng.choice((b"", b"{}", b'{"version":2,"size":1}', rng.randbytes(20)))
    return Case(kind="log", target=str(sorted(chosen)), files=files)


def valid_log(changes: Mapping[str, bytes] | None = None) -> Case:
    """The log before it is changed, or with these files."""
    texts = ("".join(json.dumps(action) + "\n" for action in actions) for actions in _commits())
    files = {f"{version:020}.json": text.encode() for version, text in enumerate(texts)}
    return Case(kind="log", target="", files={**files, **(changes or {})})


def _changed(rng: Random, actions: list[dict[str, Any]], text: bytes) -> bytes | None:
    match rng.randrange(10):
        case 0 | 1:
            info = rng.choice((*ODD.values(), mutate.by_structure(rng, actions[0]["commitInfo"], words=_WORDS)))
            actions[0:1] = [] if info is None else [{"commitInfo": info}]
        case 2 | 3 | 4:
            actions = mutate.by_structure(rng, actions, words=_WORDS)
        case 5:
            added = next((action["add"] for action in actions if "add" in action), None)
            if added is not None:
                bounds = {"id": rng.choice(mutate.NUMBERS), "day": rng.choice(_FAR)}
                added["stats"] = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds})
        case 6:
            return mutate.by_lines(rng, text)
        case 7:
            return mutate.by_words(rng, text)
        case 8:
            return mutate.by_bytes(rng, text)
        case _:
            return rng.choice((None, b"", b"\n", b"{}\n", text + text))
    lines = actions if isinstance(actions, list) else [actions]
    return mutate.encoded("".join(json.dumps(action, default=str) + "\n" for action in lines))


def try_log(case: Case, folder: Path, check_error: Callable[[LakesmithError], tuple[str, ...]]) -> tuple[str, ...]:
    """Ask everything about a lake with this log, in a table of its own and in one that it adopts."""
    for name, text in _LAKE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for table in (folder / ".lakesmith/warehouse/bronze/orders", folder / "adopted"):
        (table / "_delta_log").mkdir(parents=True)
        for number in (1, 2, 3, 4):
            (table / f"part-{number}.parquet").write_bytes(_row(number))
        for name, data in case.files.items():
            (table / "_delta_log" / name).write_bytes(data)
            os.utime(table / "_delta_log" / name, (_TIME / 1000, _TIME / 1000))
    _pin(folder)
    codes: dict[str, None] = {}
    for ask in _questions(folder):
        try:
            answered = ask()
        except LakesmithError as error:
            codes |= dict.fromkeys(check_error(error))
        else:
            for problem in getattr(answered, "problems", ()):
                codes |= dict.fromkeys(check_error(problem))
    return tuple(codes)


def _pin(folder: Path) -> None:
    """The batches of the own table."""
    batches = Batches(LocalStore(folder / ".lakesmith/warehouse"), BRONZE)
    declared = definition(Lake.open(folder).tables[BRONZE])
    (folder / "landing").mkdir()
    for number in (1, 2, 3):
        landed = folder / f"landing/{number}.json"
        landed.write_text(f'{{"id": {number}}}\n')
        os.utime(landed, (_TIME / 1000, _TIME / 1000))
        pinned = batches.pin(
            Batch(
                sequence=number,
                attempt=0,
                parent=number - 1,
                run_id="run",
                pinned_at=_TIME,
                definition=declared,
                content=NewFiles(files=(FileFact(f"landing/{number}.json", landed.stat().st_size, _TIME),)),
            )
        )
        if number < 3:
            batches.finish(done(pinned, number - 1))


def _questions(folder: Path) -> Iterator[Callable[[], object]]:
    def lake() -> Lake:
        return Lake.open(folder)

    yield lambda: lake().status()
    yield lambda: lake().plan()
    yield lambda: lake().plan(full_refresh=True)
    yield lambda: lake().plan_compact()
    yield lambda: lake().plan_vacuum(older_than=0, force=True)
    yield lambda: lake().plan_restore("bronze.orders", 1)
    for name in ("bronze.orders", "bronze.adopted"):
        yield partial(lake().history, name)
        yield partial(lake().query, f"SELECT * FROM {name} WHERE id > 0 OR day < '2030-01-01'")
        for at in ("1", "2026-01-01 00:00:00.003"):
            yield partial(lake().query, f"SELECT count(*) FROM {name}", at=[f"{name}={at}"])
        yield partial(lake().profile, name)
