"""Gives a case to its reader, and checks the result."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, NoReturn

import fastavro
import pyarrow as pa
from tests.docs.codes import codes
from tests.docs.markdown import DOCS
from tests.fuzz import corpus, mutate
from tests.fuzz.cases import case as case
from tests.fuzz.declared import fits
from tests.fuzz.entries import try_entries
from tests.fuzz.findings import data_case
from tests.fuzz.landing import Broke, try_landing
from tests.fuzz.logs import try_log, valid_log
from tests.fuzz.model import Case

from lakesmith.columns import CORRUPT, ERROR_CODE, FILE_END
from lakesmith.declare import Files, TableName
from lakesmith.errors import DeclarationError, InfrastructureError, LakesmithError, Problems
from lakesmith.intake import avro as avro_files
from lakesmith.intake.avro_values import avro_schema
from lakesmith.intake.protobuf_values import ProtobufSchema
from lakesmith.intake.reader import Reader, Task, survey
from lakesmith.intake.rows import Abort, Target
from lakesmith.intake.shapes import arrow_type, null_types_as_text, schema_of, spark_type, with_new_fields
from lakesmith.intake.values import JsonSchema, ValueDecoder, WriterSchema
from lakesmith.lake import Lake
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches
from lakesmith.ports import CommitFact, TableFacts
from lakesmith.store import LocalStore, folder_at

LONGEST = 7_000
"""The maximum characters of one error, because people read it."""
_BREAK = re.compile("\\r\\n|[\\n\\r\\x85\\u2028\\u2029]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

Rejections = tuple[str, ...]
"""The codes of the errors; none for a valid case."""


def try_case(case: Case, folder: Path) -> Rejections:
    """Read the case in an empty folder. Return the codes of its errors; raise for a broken promise."""
    return _SUBJECTS[case.kind](case, folder)


def warm() -> None:
    """Import the modules that readers import on first use."""
    known_codes()
    _data_codes()
    _protobuf()
    for made in _valid():
        with tempfile.TemporaryDirectory() as folder:
            try_case(made, Path(folder))


def _valid() -> Iterator[Case]:
    """Return a valid case of each kind."""
    yield Case(kind="table", target="", files=corpus.WIDE_LAKE)
    for name, document in (("odcs.yaml", corpus.ODCS), ("suite.json", corpus.SUITE)):
        options = {"layer": None, "name": None}
        yield Case(kind="document", target=name, files={name: json.dumps(document).encode()}, options=options)
    for words in (["plan"], ["query", "SELECT 1 AS a"], ["status", "--json"], ["run"], ["test"]):
        yield Case(kind="command", target="", files=corpus.WIDE_LAKE, options={"words": words})
    yield from map(data_case, corpus.data_files())
    yield valid_log()


# Declarations


def _lake(case: Case, folder: Path) -> Rejections:
    _write(case, folder)
    try:
        lake = Lake.open(folder)
        if _lands_here(lake):
            lake.validate()
        if _is_here(lake):
            lake.plan()
    except LakesmithError as error:
        return checked_error(error, folder)
    return ()


def _guarded_lake(case: Case, folder: Path) -> Rejections:
    rejected = _lake(case, folder)
    if not rejected:
        raise Broke(f"{case.target} is not read, and no error is reported")
    return rejected


def _is_here(lake: Lake) -> bool:
    """Return whether a plan reads only the sandbox, and no servers or other folders."""
    patterns = [table.origin.files for table in lake.tables.values() if isinstance(table.origin, Files)]
    landing, inside = str(lake.declaration.environment.landing or ""), _lands_here(lake)
    outside = any("://" in each or (each.startswith("/") and not inside) for each in (*patterns, landing))
    elsewhere = any(
        table.origin is not None and type(table.origin).__name__ in ("Kafka", "Jdbc", "OtherTable")
        for table in lake.tables.values()
    )
    return inside and not outside and not elsewhere


def _lands_here(lake: Lake) -> bool:
    """Return whether files land only in the sandbox."""
    landing = str(lake.declaration.environment.landing or "").removeprefix("file://")
    return not landing.startswith("/") or landing.startswith(lake.declaration.path)


def checked_error(error: LakesmithError, folder: Path, *, has_place: bool = True) -> Rejections:
    """Return the codes of an error. Each error must be documented, have a place and a hint, and be short."""
    errors = error.errors if isinstance(error, Problems) else (error,)
    lines: dict[str, int] = {}
    for each in errors:
        what = f"{each.code}: {each.what[:200]!r}"
        if each.code not in known_codes():
            raise Broke(f"the code is not documented: {what}")
        if not each.hint:
            raise Broke(f"there is no hint: {what}")
        if len(str(each)) > LONGEST:
            raise Broke(f"the error has {len(str(each)):,} characters: {what}")
        if found := _CONTROL.search(str(each)):
            raise Broke(f"the error has the control character {found[0]!r}: {what}")
        if has_place and isinstance(each, DeclarationError):
            _check_place(each, folder, lines, what)
    return tuple(each.code for each in errors)


def _check_place(error: DeclarationError, folder: Path, lines: dict[str, int], what: str) -> None:
    if error.at is None:
        raise Broke(f"the error has no place: {what}")
    file = error.at.file
    if file not in lines:
        path = folder / file
        if not os.path.lexists(path):
            raise Broke(f"the error is in {file}, which there is not: {what}")
        # YAML has more line ends than line feeds.
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        lines[file] = len(_BREAK.findall(text)) + 1
    if not 1 <= error.at.line <= lines[file]:
        raise Broke(f"the error is in line {error.at.line} of {file}, which has {lines[file]}: {what}")


@cache
def known_codes() -> frozenset[str]:
    return frozenset(codes())


# Documents of others


def _document(case: Case, folder: Path) -> Rejections:
    _write(case, folder)
    try:
        found = Lake.import_contract(
            folder / case.target, layer=case.options["layer"], name=case.options["name"], part=None
        )
    except LakesmithError as error:
        return checked_error(error, folder, has_place=False)
    if not re.fullmatch(r"(bronze|silver|gold)/\w+\.(yml|sql)", found.file):
        raise Broke(f"the declaration would be written to {found.file!r}")
    lake = folder / "lake"
    (lake / found.file).parent.mkdir(parents=True)
    (lake / "lakesmith.yml").write_text("name: shop\n", encoding="utf-8")
    source = "" if found.complete else "source: {files: landing/*.json}\n"
    (lake / found.file).write_text(source + found.text, encoding="utf-8")
    try:
        Lake.open(lake)
    except LakesmithError as error:
        # Users complete an import, and its warnings name the places.
        return checked_error(error, lake)
    return ()


# The ledger


def _batch(case: Case, folder: Path) -> Rejections:
    name = TableName("silver", "orders")
    for file, data in case.files.items():
        key = f"_lakesmith/batches/{name}/{file}" if file != "taken" else f"_lakesmith/ingested/{name}/00000002.01.json"
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    commits = [
        CommitFact(version=n, committed_at=start, operation="WRITE", parameters={}, metrics={}, note=f"n {n}")
        for n in range(case.options["version"], -1, -1)
    ]
    facts = TableFacts(
        folder=folder_at("x"),
        version=case.options["version"],
        table_id="t",
        columns=(),
        partition_by=(),
        rows=1,
        bytes=1,
        files=1,
        committed_at=start,
        oldest=0,
        sequence=3,
    )
    try:
        progress = Batches(LocalStore(folder), name).progress(facts, lambda: commits)
        _held(isinstance(progress.head, int), "the head is a number")
        _held(all(isinstance(file.size, int) for file in progress.ingested.values()), "sizes are numbers")
        _held(all(isinstance(each.version, int) for each in progress.positions.values()), "versions are numbers")
        chain = Batches(LocalStore(folder), name).ancestors(3, lambda: commits)
        _held(all(fits(batch, Batch) for batch in chain.values()), "all of a batch is of its declared type")
        if progress.backfill is not None:
            _held(len(list(progress.backfill.chunks())) < 10_000, "a backfill ends")
    except LakesmithError as error:
        return checked_error(error, folder)
    return ()


# Commands


def _command(case: Case, folder: Path) -> Rejections:
    import lakesmith.lake.open_lake
    import lakesmith.run.unit_tests.session
    from lakesmith.cli import app

    def no_java(*_: object, **__: object) -> NoReturn:
        raise InfrastructureError("no-java", "here ends what is tried", hint="nothing")

    _write(case, folder)
    lakesmith.lake.open_lake.OpenLake.start_session = no_java  # type: ignore[method-assign]
    lakesmith.run.unit_tests.session.open_session = no_java  # type: ignore[attr-defined]
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        with contextlib.chdir(folder):
            app.main(list(case.options["words"]), prog_name="lakesmith")
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.stdout, sys.stderr = before
    output = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in _flushed(out, err)]  # type: ignore[attr-defined]
    if code not in (0, 1, 2, 4) or "Traceback" in output[1]:
        raise Broke(f"lakesmith ended with {code}: {output[1][-600:]}")
    if code and not any(output):
        raise Broke(f"lakesmith ended with {code} and said nothing")
    if found := _CONTROL.search(output[1]):
        raise Broke(f"the control character {found[0]!r} is printed: {output[1][:200]!r}")
    return (f"exit-{code}",) if code else ()


def _flushed(*streams: io.TextIOWrapper) -> Iterator[io.TextIOWrapper]:
    for stream in streams:
        stream.flush()
        yield stream


# Data


def _data(case: Case, folder: Path) -> Rejections:
    path = folder / "data"
    path.write_bytes(case.files["data"])
    options = case.options
    source = Files(files="in/*", format=options["format"], **options["source"])
    task = Task(0, f"{options['folder']}/data", len(case.files["data"]))

    def opened(_: str) -> BinaryIO:
        return path.open("rb")

    known = schema_of(_columns(options["columns"]))
    if options["surveyed"]:
        seen = survey(source, opened, known.names, task)
        if seen.passing:
            raise Broke(f"the file is left for later, though nothing happens to it: {seen.why}")
        # As it is sent to and from Spark's workers.
        found = arrow_type(str(spark_type(null_types_as_text(seen.shape)))) if len(seen.shape) else seen.shape
        known = pa.schema(list(with_new_fields(pa.struct(list(known)), found)))
        if seen.why is not None:
            task = Task(0, task.path, task.size, seen.why)
    widening = frozenset(known.names) if options["widening"] else frozenset[str]()
    target = Target(schema=known, surveyed=options["surveyed"], widening=widening)
    reader = Reader(source=source, target=target, open=opened, held=options["held"])
    rejected: dict[str, None] = {}
    rows = bad = 0
    closing: list[Mapping[str, Any]] = []
    try:
        for batch in reader.read([task]):
            batch.validate(full=True)
            _held(batch.schema == reader.output, "batches have the declared columns")
            closing += [end for end in batch.column(FILE_END).to_pylist() if end is not None]
            for code in filter(None, batch.column(ERROR_CODE).to_pylist()):
                rejected[code.partition(": ")[0]] = None
            _held(
                batch.column(ERROR_CODE).null_count == batch.column(CORRUPT).null_count, "what has a code has its text"
            )
            rows += len(batch)
            bad += len(batch) - batch.column(ERROR_CODE).null_count
    except Abort as abort:
        _held(Abort.in_text(str(abort)) is not None, "an abort can be read from its text")
        if abort.kind == "left-out":
            raise Broke(f"the file is left for later, though nothing happens to it: {abort.detail}") from None
        return _documented([f"abort-{abort.kind}"])
    _held(len(closing) == 1, "a file has one end")
    (end,) = closing
    _held(end["bytes"] == task.size, "all bytes were read")
    _held(end["rejected"] == bad, "rejected rows are counted")
    _held(end["rows"] == (rows - 1 if end["code"] is None else 1), "rows are counted")
    return _documented(rejected)


def _columns(which: str) -> dict[str, str]:
    match which:
        case "all":
            return corpus.COLUMNS
        case "few":
            return {"id": "int", "place": "string"}
        case "texts":
            return dict.fromkeys([*corpus.COLUMNS, "value"], "string")
        case _:
            return {}


def _documented(found: Mapping[str, None] | Sequence[str]) -> Rejections:
    for code in found:
        if code not in _data_codes():
            raise Broke(f"the code {code!r} of a record or file is not documented")
    return tuple(found)


@cache
def _data_codes() -> frozenset[str]:
    """Return the documented codes; Avro codes are documented as a group."""
    pages = "".join((DOCS / f"concepts/{name}.md").read_text(encoding="utf-8") for name in ("files", "kafka"))
    avro = re.findall(r'"(avro-[a-z-]+)"', Path(avro_files.__file__).read_text(encoding="utf-8"))
    return frozenset(re.findall(r"`([a-z0-9-]+)`", pages)) | {"abort-new-fields", "abort-broken"} | {*avro}


# Kafka


def _message(case: Case, _folder: Path) -> Rejections:
    options = case.options
    rng = Random(options["mutations"])
    schemas: dict[int, WriterSchema] = {5: JsonSchema()}
    try:
        schemas[7] = avro_schema(options["schema"]) if options["values"] == "avro" else _protobuf()
    except ValueError:
        return ("bad-schema",)
    decoder = ValueDecoder(
        values=options["values"], envelope=options["envelope"], schemas=schemas, surveyed=options["surveyed"]
    )
    values = [_message_value(rng, options["values"]) for _ in range(8)]
    keys = [rng.choice((None, b'{"id": 1}', mutate.by_bytes(rng, b'{"id": 1}'))) for _ in values]
    target = Target(schema=schema_of(corpus.COLUMNS), surveyed=options["surveyed"])
    try:
        shape = decoder.shape(values, keys)
        if len(shape):
            spark_type(null_types_as_text(shape))
        rows = decoder.rows(values, keys, target)
    except Abort as abort:
        return _documented([f"abort-{abort.kind}"])
    except LakesmithError as error:
        return checked_error(error, Path())
    rows.validate(full=True)
    _held(len(rows) == len(values), "each message is a row")
    return _documented({code.partition(": ")[0]: None for code in filter(None, rows.column(ERROR_CODE).to_pylist())})


def _message_value(rng: Random, values: str) -> bytes | None:
    match values:
        case "avro":
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, _avro_schema(), {**corpus.ROWS[1], "either": "x", "kind": "A"})
            body = b"\x00\x00\x00\x00\x07" + stream.getvalue()
        case "protobuf":
            body = b"\x00\x00\x00\x00\x07\x00" + b"\x08\x01\x12\x03abc\x1a\x02\x08\x05\x22\x03\x01\x02\x03"
        case "json":
            body = rng.choice((b"", b"\x00\x00\x00\x00\x05")) + b'{"id": 1, "name": "a", "payload": {"op": "c"}}'
        case _:
            body = "text é".encode()
    match rng.randrange(6):
        case 0:
            return None
        case 1:
            return body
        case 2 if values == "json":
            return mutate.by_words(rng, body)
        case 3:
            return body[:5] + mutate.by_bytes(rng, body[5:])
        case _:
            return mutate.by_bytes(rng, body)


@cache
def _avro_schema() -> Any:
    return fastavro.parse_schema(corpus.AVRO)


@cache
def _protobuf() -> ProtobufSchema:
    """Create a recursive message without a compiler."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

    file = FileDescriptorProto(name="a.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    kinds = (
        ("id", FieldDescriptorProto.TYPE_INT64, FieldDescriptorProto.LABEL_OPTIONAL),
        ("name", FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.LABEL_OPTIONAL),
        ("next", FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.LABEL_OPTIONAL),
        ("counts", FieldDescriptorProto.TYPE_INT32, FieldDescriptorProto.LABEL_REPEATED),
    )
    for number, (name, type, label) in enumerate(kinds, start=1):
        added = message.field.add(name=name, number=number, type=type, label=label)
        if type == FieldDescriptorProto.TYPE_MESSAGE:
            added.type_name = ".Order"
    return ProtobufSchema(FileDescriptorSet(file=[file]).SerializeToString())


# Landing folders


def _landing(case: Case, folder: Path) -> Rejections:
    try:
        return try_landing(case, folder)
    except LakesmithError as error:
        return checked_error(error, folder)


# Logs of tables


def _log(case: Case, folder: Path) -> Rejections:
    return try_log(case, folder, lambda error: checked_error(error, folder))


# Entries of all kinds


def _entries(case: Case, folder: Path) -> Rejections:
    return try_entries(case, folder, lambda error: checked_error(error, folder))


def _held(promise: bool, output: str) -> None:
    if not promise:
        raise Broke(f"it does not hold that {output}")


def _write(case: Case, folder: Path) -> None:
    for name, data in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


_SUBJECTS: Mapping[str, Callable[[Case, Path], Rejections]] = {
    **dict.fromkeys(("table", "sql", "lake", "test"), _lake),
    "access": _guarded_lake,
    "document": _document,
    "batch": _batch,
    "command": _command,
    **dict.fromkeys(("json", "csv", "text", "xml", "avro", "parquet", "orc"), _data),
    "message": _message,
    "landing": _landing,
    "log": _log,
    "entries": _entries,
}
LENIENT = ("command",)
"""Kinds in which the user types paths."""
