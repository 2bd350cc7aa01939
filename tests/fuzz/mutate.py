"""Mutates valid input: by bytes, by words of its language, and by its structure."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import yaml

Mutate = Callable[[Random, bytes], bytes]

EVIL = (
    '!!python/object/apply:os.system ["touch pwned"]',
    "!!python/object/new:subprocess.Popen [[touch, pwned]]",
    "!!python/name:os.system",
    "!!python/module:antigravity",
    "{{ 7 * 7 }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% import os %}{{ os.system('touch pwned') }}",
    "${env:HOME}",
    "${file:/etc/passwd}",
    "${a${b}}",
    "$(touch pwned)",
    "`touch pwned`",
    "file:/etc/passwd",
    "env:HOME",
    "file:///etc/passwd",
    "../../../../etc/passwd",
    "__import__('os').system('touch pwned')",
    "'; DROP TABLE bronze.orders; --",
    "*/ SELECT 1 /*",
    "*/",
    "reflect('java.lang.Runtime', 'exec', 'touch pwned')",
    "java_method('java.lang.System', 'exit', 1)",
    "CREATE FUNCTION f AS 'x' USING JAR 'http://127.0.0.1:9/x.jar'",
    "SELECT * FROM json.`/etc/passwd`",
    "%s%s%n%x",
    "\x1b[2J\x1b]0;pwned\x07",
    "\\x1b[2J",
    '"\\e[2J"',
    "\u202e\u2066drow",
    "\u0000",
    "\ud800",
    "\U0001f4a9" * 40,
    "a" * 5_000,
    "9" * 5_000,
    "1e999999999",
    "-0x" + "f" * 400,
    "0001-01-01T00:00:00+99:99",
    "99999-12-31",
    "\t\t",
    "cos\nsystem\n(S'touch pwned'\ntR.",
    "\x80\x04\x95",
    "<<: *a",
    "&a [*a]",
    "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>",
    "&e;",
    "&#0;",
    "&#x110000;",
    "<![CDATA[",
    "http://127.0.0.1:9/x",
    "s3a://u:p@h/b",
)
"""Texts that would do harm or reach a limit if they were interpreted."""

_KEYS = """
source load columns checks contract owner freshness tags files format merge key order_by scd2 changes snapshot replace
append type required check where expect on_fail unique values between enabled drift name environments warehouse landing
spark variables defaults storage connections jobs previous until table given then exactly quarantine fails rules roles
grants masks row_filters
"""
_SQL = """
SELECT FROM WHERE GROUP BY JOIN ON UNION ALL WITH AS CASE WHEN THEN END OVER PARTITION LATERAL VIEW NULL true false no ~
.nan 1.10 2026-01-01 bigint decimal(38,38) struct<a:int> map<int,int> array<
"""
_MARKS = """: - [ ] { } , ' " ` | > & * ! # % @ ( ) ; -- /* */ ${ $${ } . .. / \\ = < ? --- ..."""
_SPACES = ("\n", " ", "  ", "\t", "\r", "\x85", "\u2028", "\ufeff")
WORDS = (*_KEYS.split(), *_SQL.split(), *_MARKS.split(), *_SPACES)
NUMBERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**400, 0.1, -0.0, 1e308)
NESTS = (
    ("(", ")"),
    ("[", "]"),
    ("{a: ", "}"),
    ("[[{", "}]]"),
    ("NOT ", ""),
    ("- ", ""),
    ("-", ""),
    ("abs(", ")"),
    ("CASE WHEN true THEN ", " END"),
    ("(SELECT a FROM ", ") x"),
    ("struct<a:", ">"),
    ("array<", ">"),
    ('{"a":', "}"),
    ("<a>", "</a>"),
    ("a.", ""),
    ("'", ""),
    ("/*", "*/"),
    ("x -> ", ""),
    ("a, ", ""),
    ("1 + ", ""),
    ("1 AND ", ""),
    ("a JOIN ", ""),
    ("INTERVAL ", ""),
    ("1 UNION ALL SELECT ", ""),
    ("WITH a AS (SELECT 1) ", ""),
    ("CAST(a AS array<", ">)"),
    ("a[", "]"),
    ("@", ""),
)


def by_bytes(rng: Random, data: bytes) -> bytes:
    """Flip, truncate, repeat, insert and move bytes."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(made) + 1)
        end = min(len(made), at + rng.choice((1, 2, 4, 8, 64)))
        match rng.randrange(8):
            case 0 if made:
                at = rng.randrange(len(made))
                made[at] ^= 1 << rng.randrange(8)
            case 1:
                made[at:end] = b""
            case 2:
                made[at:at] = bytes(made[at:end]) * rng.choice((1, 2, 50))
            case 3:
                made[at:at] = rng.randbytes(rng.choice((1, 2, 8)))
            case 4:
                made[at:end] = rng.choice((b"\x00", b"\xff", b"\x80", b"\x7f")) * (end - at)
            case 5:
                width = rng.choice("<BHIQ")
                size = struct.calcsize(width if width != "<" else "<q")
                number = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1))
                made[at : at + size] = (number % 256**size).to_bytes(size, rng.choice(("little", "big")))
            case 6:
                del made[at:]
            case _:
                there = rng.randrange(len(made) + 1)
                piece = bytes(made[at:end])
                made[at:end] = b""
                made[there:there] = piece
    return bytes(made)


def by_words(rng: Random, data: bytes) -> bytes:
    """Replace words by other words of the language, and by words of attacks."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 0, 1, 3, 8)))
        match rng.randrange(6):
            case 0:
                middle = rng.choice(EVIL)
            case 1 | 2:
                middle = rng.choice(WORDS)
            case 3:
                middle = str(rng.choice(NUMBERS))
            case 4:
                middle = text[start:end] * rng.choice((2, 3, 100))
            case _:
                middle = nested(rng, text[start:end])
        text = text[:start] + middle + text[end:]
    return encoded(text)


def by_lines(rng: Random, data: bytes) -> bytes:
    """Drop, duplicate, swap and indent lines."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                lines[at] = b""
            case 1:
                lines.insert(other, lines[at])
            case 2:
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = rng.choice((b"  ", b" ", b"\t", b"- ", b"# ")) + lines[at]
            case 4:
                lines[at] = lines[at].lstrip()
            case _:
                lines[at : at + 1] = [lines[at]] * rng.choice((2, 20, 500))
    return b"\n".join(lines)


def nested(rng: Random, inner: str) -> str:
    """Nest a text in many layers of brackets or other nesting."""
    before, after = rng.choice(NESTS)
    depth = rng.choice((2, 8, 30, 150, 1_500, 20_000))
    return before * depth + (inner or "1") + after * depth


def by_structure(rng: Random, value: Any, *, words: Sequence[str] = WORDS) -> Any:
    """Replace, rename, duplicate, move or remove one part of a tree of lists and mappings."""
    places = list(_places(value))
    if not places:
        return _odd(rng, words)
    holder, key = rng.choice(places)
    found = holder[key]
    match rng.randrange(9):
        case 0:
            del holder[key]
        case 1 | 2:
            holder[key] = _odd(rng, words)
        case 3:
            holder[key] = [found, found]
        case 4:
            holder[key] = {rng.choice(words): found}
        case 5 if isinstance(holder, dict):
            holder[rng.choice(words)] = holder.pop(key)
        case 6:
            other, place = rng.choice(places)
            holder[key] = _copied(other[place])
        case 7:
            for _ in range(rng.choice((3, 25, 300))):
                found = {"a": found} if rng.random() < 0.5 else [found]
            holder[key] = found
        case _:
            holder[key] = str(found)
    return value


def _copied(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, default=str))
    except (RecursionError, ValueError):
        return "deep"


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list):
            keys = list(each) if isinstance(each, dict) else range(len(each))
            found += [(each, key) for key in keys]
            waiting += [each[key] for key in keys]
    return found


def _odd(rng: Random, words: Sequence[str]) -> Any:
    return rng.choice(
        (
            rng.choice(words),
            rng.choice(EVIL),
            rng.choice(NUMBERS),
            None,
            True,
            [],
            {},
            "",
            [rng.choice(words)],
            {rng.choice(words): rng.choice(words)},
            ["x"] * 500,
            {f"k{number}": number for number in range(300)},
        )
    )


def yaml_structure(rng: Random, data: bytes) -> bytes:
    """Mutate by the structure of YAML, or by lines if it has none."""
    try:
        value = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError):
        return by_lines(rng, data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        value = by_structure(rng, value)
    try:
        if rng.random() < 0.2:
            return encoded(json.dumps(value, default=str, ensure_ascii=rng.random() < 0.5))
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=rng.random() < 0.2)
    except (RecursionError, yaml.YAMLError):
        return by_lines(rng, data)
    return encoded(text)


def json_structure(rng: Random, data: bytes) -> bytes:
    """Mutate by the structure of JSON or JSON lines, or by words if it has none."""
    try:
        lines = [json.loads(data)]
    except (ValueError, RecursionError):
        try:
            lines = [json.loads(line) for line in data.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            return by_words(rng, data)
    if lines:
        at = rng.randrange(len(lines))
        lines[at] = by_structure(rng, lines[at])
    try:
        texts = [json.dumps(line, default=str, ensure_ascii=rng.random() < 0.5) for line in lines]
    except RecursionError:
        return by_words(rng, data)
    return encoded("\n".join(texts))


def header_structure(rng: Random, data: bytes) -> bytes:
    """Mutate the header of a SQL file by its structure, or its query by words."""
    head, middle, rest = data.partition(b"/* lakesmith")
    header, end, query = rest.partition(b"*/")
    if not middle or not end or rng.random() < 0.4:
        return by_words(rng, data)
    return head + middle + b"\n" + yaml_structure(rng, header) + end + query


def compressed(rng: Random, data: bytes) -> bytes:
    """Compress the data, and truncate, corrupt or repeat it, or make a bomb of it."""
    packed = gzip.compress(data, mtime=0)
    match rng.randrange(6):
        case 0:
            return by_bytes(rng, packed)
        case 1:
            return packed + packed
        case 2:
            return packed + b"trailing"
        case 3:
            return gzip.compress(packed, mtime=0)
        case 4:
            return gzip.compress(b"0" * rng.choice((10**5, 10**7, 6 * 10**7)), 1, mtime=0)
        case _:
            return packed


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass" if "\ud800" in text else "surrogateescape")
