"""The n-th case is a function of only the seed and n, so its number replays a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from tests.fuzz import corpus, mutate
from tests.fuzz.entries import entries_case
from tests.fuzz.findings import FOUND
from tests.fuzz.landing import landing_case
from tests.fuzz.logs import log_case
from tests.fuzz.model import Case
from tests.fuzz.mutate import Mutate


def case(seed: str, number: int) -> Case:
    """Return the case of this number. The seed `found` has the earlier findings."""
    if seed == "found":
        return FOUND[number]()
    rng = Random(f"{seed}/{number}")
    kind = rng.choices([*KINDS], [weight for weight, _ in KINDS.values()])[0]
    return KINDS[kind][1](rng)


def _mutated(rng: Random, data: bytes, ways: Mapping[Mutate, int]) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2))):
        data = rng.choices([*ways], [*ways.values()])[0](rng, data)
    return data


_YAML: dict[Mutate, int] = {mutate.yaml_structure: 5, mutate.by_words: 4, mutate.by_lines: 2, mutate.by_bytes: 2}
_SQL: dict[Mutate, int] = {mutate.header_structure: 4, mutate.by_words: 5, mutate.by_lines: 1, mutate.by_bytes: 1}
_JSON: dict[Mutate, int] = {mutate.json_structure: 5, mutate.by_words: 3, mutate.by_bytes: 2}
_TEXT: dict[Mutate, int] = {mutate.by_words: 4, mutate.by_lines: 3, mutate.by_bytes: 4, mutate.compressed: 1}


def _in_lake(kind: str, ways: Mapping[Mutate, int], fits: Callable[[str], bool]) -> Callable[[Random], Case]:
    def made(rng: Random) -> Case:
        lake = dict(rng.choice([lake for lake in corpus.lakes() if any(map(fits, lake))]))
        target = rng.choice(sorted(filter(fits, lake)))
        lake[target] = _mutated(rng, lake[target], ways)
        return Case(kind=kind, target=target, files=lake)

    return made


def _is_test(file: str) -> bool:
    return file.endswith((".test.yml", ".csv")) or file.startswith("tests/")


def _is_table(file: str) -> bool:
    return file.endswith(".yml") and not _is_test(file) and file != "lakesmith.yml"


def _access(rng: Random) -> Case:
    name = rng.choice(("access.yml", "access.yaml", "Access.yml", "ACCESS.YAML", "access/roles.yml", "access.yml"))
    data = _mutated(rng, corpus.ACCESS, _YAML)
    return Case(kind="access", target=name, files={**rng.choice(corpus.lakes()), name: data})


def _document(rng: Random) -> Case:
    document, kind = rng.choice(((corpus.ODCS, "odcs.yaml"), (corpus.ODCS, "odcs.json"), (corpus.SUITE, "suite.json")))
    ways = _YAML if kind.endswith("yaml") else _JSON
    options = {"layer": rng.choice((None, None, "gold")), "name": rng.choice((None, "x", "../x", "a b"))}
    data = _mutated(rng, json.dumps(document, indent=1).encode(), ways)
    return Case(kind="document", target=kind, files={kind: data}, options=options)


_BATCH = {
    "newest_extract": '{"taken":"2026-01-01"}',
    "sequence": 3,
    "attempt": 1,
    "parent": 2,
    "run_id": "r",
    "pinned_at": 1_767_225_600_000,
    "definition": "d",
    "inputs": {"bronze.orders": {"table_id": "t", "version": 4}},
    "backfill": {"span": {"start": "2026-01-01", "end": "2026-01-31"}, "days": 7, "done": None},
    "lookups": {"bronze.customers": {"table_id": "c", "version": 2}},
    "contract": "1.0.0",
    "approval": {"by": "ann", "why": "looked at", "run_id": "q", "rows": 3, "rejected": 1},
    "base_version": 1,
}
"""All fields of any batch at once."""
_SINCE = {"since": {"bronze.orders": 3}}
CONTENTS: dict[str, dict[str, Any]] = {
    "files": {
        "files": [["orders/1.json", 10, 1_767_225_600_000]],
        "rejected": {"orders/1.json": "it is truncated"},
        "seen": {"pattern": "orders/*.json", "day": "2026-01-01", "upto": "orders/1.json", "greatest": "orders/1.json"},
    },
    "slice": {"slice": {"since": {"0": 1}, "until": {"0": 5}}},
    "full": {},
    "changes": _SINCE,
    "sums": _SINCE,
    "keys": _SINCE,
    "partitions": _SINCE,
    "days": {"days": {"start": "2026-01-01", "end": "2026-01-31"}},
    "replay": {
        "replay": {
            "chosen": {"ids": ["a", "b"], "rule": "floor", "reason": "x", "batch": 1, "older_than": 3600.0},
            "by": "ann",
            "why": "fixed",
            "discard": False,
            "set": {"amount": "abs(amount)"},
            "edits": {"a": {"amount": "1", "note": None}},
            "version": 2,
            "moment": 1_767_225_600_000,
        }
    },
    "vacuum": {},
    "move_bookmarks": {},
    "restore": {"rollback": {"version": 1, "head": 2, "quarantine": 0, "decisions": -1}},
}
"""All fields of a batch, by mode."""
_DONE = {
    "newest_extract": '{"taken":"2026-01-02"}',
    "sequence": 3,
    "attempt": 1,
    "version": 2,
    "run_id": "r",
    "rows_in": 1,
    "rows_written": 1,
    "rows_quarantined": 0,
    "rows_deduplicated": 0,
    "rows_discarded": 0,
}


def batch_files(changes: Mapping[str, Mapping[str, object]]) -> Case:
    """Return the batch records of a table with three batches, some of them mutated."""
    files: dict[str, dict[str, Any]] = {}
    for number in (1, 2, 3):
        own = {"sequence": number, "parent": number - 1, "mode": "files", "content": CONTENTS["files"]}
        files[f"{number:08}.01.json"] = _BATCH | own
        files[f"{number:08}.done.json"] = {**_DONE, "sequence": number, "version": number - 1}
    texts = {name: json.dumps({**values, **changes.get(name, {})}).encode() for name, values in files.items()}
    texts["taken"] = json.dumps([["orders/1.json", 10, 1]]).encode()
    return Case(kind="batch", target=next(iter(changes), ""), files=texts, options={"version": 2})


def _batch(rng: Random) -> Case:
    mode = rng.choice(sorted(CONTENTS))
    files = dict(batch_files({"00000003.01.json": {"mode": mode, "content": CONTENTS[mode]}}).files)
    target = rng.choice(sorted(files))
    files[target] = _mutated(rng, files[target], _JSON)
    return Case(kind="batch", target=target, files=files, options={"version": rng.choice((2, 2, 5))})


_COMMANDS = (
    ("validate",),
    ("validate", "--json"),
    ("plan",),
    ("plan", "+silver.orders", "--json"),
    ("plan", "silver.orders", "--from", "2026-01-01", "--to", "2026-01-31", "--chunk", "3"),
    ("plan", "--full-refresh", "tag:daily,layer:silver", "--exclude", "gold.daily"),
    ("status", "--json"),
    ("history", "silver.orders", "--limit", "3"),
    ("history", "--json"),
    ("lineage", "silver.orders"),
    ("lineage", "silver.orders.amount", "--json"),
    ("query", "SELECT order_id, amount FROM bronze.orders WHERE amount > 1"),
    ("query", "SELECT 1 AS a", "--format", "csv"),
    ("query", "SELECT * FROM silver.orders", "--at", "silver.orders=3"),
    ("profile", "silver.orders", "--rows", "10"),
    ("contract", "export", "silver.orders", "--format", "avro"),
    ("contract", "diff", "silver.orders"),
    ("contract", "check"),
    ("contract", "import", "lakesmith.yml", "--layer", "silver", "--name", "x"),
    ("quarantine",),
    ("quarantine", "show", "silver.orders"),
    ("approve",),
    ("land", "lakesmith.yml", "--to", "bronze.orders", "--as", "a.csv"),
    ("init", "new", "--name", "lake"),
    ("completion", "zsh"),
    ("run", "--dry-run"),
    ("run", "silver.orders"),
    ("test", "silver.orders"),
    ("adopt", "bronze.orders"),
    ("--env", "prod", "plan"),
    ("--var", "team=x", "validate"),
    ("--lake", ".", "status"),
    ("--help",),
)


def _command(rng: Random) -> Case:
    words = list(rng.choice(_COMMANDS))
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at = rng.randrange(len(words) + 1)
        match rng.randrange(6):
            case 0 if len(words) > 1:
                del words[min(at, len(words) - 1)]
            case 1:
                words.insert(at, rng.choice(rng.choice(_COMMANDS)))
            case 2:
                words.insert(at, rng.choice(mutate.EVIL))
            case 3 if at < len(words):
                words[at] = rng.choice((*mutate.EVIL, *mutate.WORDS, *map(str, mutate.NUMBERS)))
            case 4 if at < len(words):
                words[at] = mutate.by_words(rng, mutate.encoded(words[at])).decode("utf-8", "replace")
            case _:
                words.insert(at, rng.choice(("--json", "--force", "-o", "--select", "--", "-", "--at", "x", "")))
    # A command line has no null character, and the system limits its length.
    words = [word.replace("\x00", "\\0")[:100_000] for word in words]
    return Case(kind="command", target="lakesmith.yml", files=corpus.WIDE_LAKE, options={"words": words})


def _data(*formats: str) -> Callable[[Random], Case]:
    def made(rng: Random) -> Case:
        file = rng.choice([each for each in corpus.data_files() if each.format in formats])
        data = _damaged(rng, file)
        options: dict[str, Any] = {
            "format": file.format,
            "source": dict(file.source),
            "surveyed": rng.random() < 0.7,
            "widening": rng.random() < 0.3,
            "columns": rng.choice(("all", "all", "few", "texts", "none")),
            "folder": rng.choice(("in", "in", "in", "day=2026-01-01/id=7", "place=__HIVE_DEFAULT_PARTITION__/%2e=%zz")),
            "held": rng.choice((64 << 20, 64 << 20, 100)),
        }
        if file.format in ("csv", "text") and rng.random() < 0.1:
            options["source"]["encoding"] = rng.choice(("utf-16", "utf-7", "cp037", "shift_jis", "utf-32", "idna"))
        return Case(kind=file.format, target=file.name, files={"data": data}, options=options)

    return made


def _damaged(rng: Random, file: corpus.DataFile) -> bytes:
    data = file.data
    match file.format:
        case "avro":
            return _avro(rng, data)
        case "parquet" | "orc":
            return _footed(rng, data, file.format)
        case "xml" if rng.random() < 0.25:
            return _xml_attack(rng)
        case "json" if rng.random() < 0.25 and file.name in ("lines", "array", "pretty", "debezium"):
            return _mutated(rng, data, _JSON)
        case _:
            return _mutated(rng, data, _TEXT)


def _avro(rng: Random, data: bytes) -> bytes:
    schema: Any = json.loads(json.dumps(corpus.AVRO))
    match rng.randrange(8):
        case 0 | 1 | 2:
            return mutate.by_bytes(rng, data)
        case 3 | 4:
            for _ in range(rng.choice((1, 2, 4))):
                schema = mutate.by_structure(rng, schema, words=_AVRO_WORDS)
            start = data.index(b"S" * 16) + 16
            return corpus.avro_with(mutate.encoded(_json(schema)), b"null", data[start:])
        case 5:
            size = rng.choice((0, 5, -1, 2**31, 2**62))
            block = corpus.avro_block(rng.choice((1, 10**6, 2**31, -5, 2**62)), size, rng.randbytes(5))
            empty = {"type": "record", "name": "E", "fields": []}
            mutated = rng.choice((schema, empty, {**empty, "fields": [{"name": "n", "type": "null"}]}))
            return corpus.avro_with(json.dumps(mutated).encode(), b"null", block)
        case 6:
            return corpus.avro_with(_bomb(rng).encode(), b"null", corpus.avro_block(1, 2, b"\x00\x00"))
        case _:
            codec = rng.choice((b"deflate", b"bzip2", b"zstandard", b"xz", b"snappy", b"evil", b"\xff"))
            body = rng.choice((mutate.compressed(rng, data), rng.randbytes(30), b"\xff" * 40))
            return corpus.avro_with(json.dumps(schema).encode(), codec, corpus.avro_block(1, len(body), body))


_WORDS = """
null boolean int long float double bytes string record enum array map fixed union error Order Place decimal date
time-millis timestamp-micros uuid duration type name fields symbols items values size logicalType precision scale
namespace aliases default order doc a.b 1x
"""
_AVRO_WORDS = tuple(_WORDS.split())


def _json(value: Any) -> str:
    try:
        return json.dumps(value, default=str)
    except RecursionError:
        return "[" * 5_000


def _bomb(rng: Random) -> str:
    """Return a schema that expands to far more than its length."""
    match rng.randrange(4):
        case 0:
            fields: list[Any] = [{"name": "f0", "type": rng.choice(("int", "null"))}]
            made: Any = {"type": "record", "name": "R0", "fields": fields}
            for level in range(1, rng.choice((5, 12, 40))):
                uses = [{"name": "a", "type": made}, *({"name": f"b{n}", "type": f"R{level - 1}"} for n in range(3))]
                made = {"type": "record", "name": f"R{level}", "fields": uses}
            return json.dumps(made)
        case 1:
            deep = rng.choice((50, 300, 5_000, 100_000))
            inner = '{"type": "array", "items": ' * deep + '"int"' + "}" * deep
            return f'{{"type": "record", "name": "R", "fields": [{{"name": "a", "type": {inner}}}]}}'
        case 2:
            many = [{"name": f"c{n}", "type": ["null", "int"]} for n in range(rng.choice((1_000, 10_000)))]
            return json.dumps({"type": "record", "name": "R", "fields": many})
        case _:
            size = rng.choice((2**20, 2**31, 2**62, -1))
            fixed = {"type": "fixed", "name": "F", "size": size}
            return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": fixed}]})


def _footed(rng: Random, data: bytes, format: str) -> bytes:
    """Mutate the footer more often than the rows, because its bytes decide how much is read."""
    footer = int.from_bytes(data[-8:-4], "little") + 8 if format == "parquet" else min(len(data), 300)
    match rng.randrange(6):
        case 0:
            return mutate.by_bytes(rng, data)
        case 1 if format == "parquet":
            length = rng.choice((0, 1, footer, 2**31 - 1, 2**32 - 1, len(data)))
            return data[:-8] + length.to_bytes(4, "little") + data[-4:]
        case 2:
            made = bytearray(data)
            for _ in range(rng.choice((1, 3, 10))):
                at = len(data) - footer + rng.randrange(footer)
                made[at : at + 5] = rng.choice((b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x1f", b"\x80" * 5))
            return bytes(made[: len(data)])
        case _:
            made = bytearray(data)
            first = len(data) - footer if rng.random() < 0.6 else 4
            for _ in range(rng.choice((1, 1, 2, 5))):
                at = first + rng.randrange(len(data) - first)
                made[at] = rng.choice((made[at] ^ (1 << rng.randrange(8)), 0, 0xFF, 0x7F, rng.randrange(256)))
            return bytes(made)


def _xml_attack(rng: Random) -> bytes:
    many = rng.choice((3, 9, 20))
    laughs = "".join(f"<!ENTITY l{n} '{10 * _entity(n - 1)}'>" for n in range(1, many))
    deep = rng.choice((50, 250, 5_000, 100_000))
    attributes = " ".join(f"a{n}='{n}'" for n in range(deep % 20_000))
    children = "".join(f"<a{n}/>" for n in range(deep % 20_000))
    encoding = rng.choice(("utf-7", "idna", "rot13", "hex", "zip", "x" * 99))
    return rng.choice(
        (
            f'<!DOCTYPE r [<!ENTITY l0 "ha">{laughs}]><r><row>&l{many - 1};</row></r>',
            '<!DOCTYPE r SYSTEM "file:///etc/passwd"><r><row/></r>',
            '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]><r><row>&e;</row></r>',
            '<!DOCTYPE r [<!ENTITY % e SYSTEM "http://127.0.0.1:9/x"> %e;]><r><row/></r>',
            '<r xmlns:xi="http://www.w3.org/2001/XInclude"><row><xi:include href="/etc/passwd"/></row></r>',
            f"<r><row>{'<a>' * deep}{'</a>' * deep}</row></r>",
            f"{'<row>' * deep}{'</row>' * deep}",
            f"<r><row {attributes}/></r>",
            f"<r><row>{children}</row></r>",
            f'<?xml version="1.0" encoding="{encoding}"?><row/>',
        )
    ).encode()


def _entity(number: int) -> str:
    return f"&l{number};"


def _message(rng: Random) -> Case:
    values = rng.choice(("avro", "protobuf", "json", "text"))
    options = {
        "values": values,
        "envelope": rng.choice((None, None, "debezium")),
        "surveyed": rng.random() < 0.5,
        "mutations": rng.randrange(2**32),
        "schema": _message_schema(rng) if values == "avro" else None,
    }
    return Case(kind="message", target=values, options=options)


def _message_schema(rng: Random) -> str:
    schema: Any = json.loads(json.dumps(corpus.AVRO))
    match rng.randrange(4):
        case 0:
            schema = mutate.by_structure(rng, schema, words=_AVRO_WORDS)
        case 1:
            return _bomb(rng)
    return _json(schema)


KINDS: Mapping[str, tuple[int, Callable[[Random], Case]]] = {
    "table": (18, _in_lake("table", _YAML, _is_table)),
    "sql": (20, _in_lake("sql", _SQL, lambda file: file.endswith(".sql"))),
    "lake": (8, _in_lake("lake", _YAML, lambda file: file == "lakesmith.yml")),
    "test": (6, _in_lake("test", _YAML, _is_test)),
    "access": (1, _access),
    "document": (8, _document),
    "batch": (7, _batch),
    "command": (6, _command),
    "json": (6, _data("json")),
    "csv": (4, _data("csv", "text")),
    "xml": (3, _data("xml")),
    "avro": (5, _data("avro")),
    "parquet": (6, _data("parquet")),
    "orc": (3, _data("orc")),
    "message": (4, _message),
    "landing": (6, landing_case),
    "log": (4, log_case),
    "entries": (5, entries_case),
}
"""By kind, its frequency and the function that creates a case."""
