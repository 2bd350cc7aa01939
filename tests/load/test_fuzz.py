"""Loading any file quickly gives a lake or a LakesmithError."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lakesmith.errors import LakesmithError
from lakesmith.load import load_lake

SEEDS = [
    "source: {files: landing/orders/*.json, format: csv, delimiter: ';'}\nfreshness: 1h\nenabled: true\n",
    "load: {merge: {key: [a, b], order_by: c}}\ncolumns:\n  a: {type: 'struct<a: int>', required: true, tags: [x]}\n",
    "load: {snapshot: {key: a, taken: t, into: scd2, track: [b], max_shrink: 20%}}\n",
    "load: {changes: {key: [a], order_by: t, op: o, amounts: [b], previous_key: {a: c}}}\n",
    "checks:\n  a: &a {where: \"x in ('a')\", on_fail: warn}\n  b: *a\nowner: ${team}\n",
    "name: shop\nvariables: {a: env:X, b: }\nenvironments: {dev: {warehouse: '${a}', spark: {a: file:x}, jobs: 3}}\n",
    "/* lakesmith\nowner: me\ntags: [a]\n*/\nWITH a AS (SELECT ';' AS `b`) SELECT * FROM a -- done\n;",
]
PIECES = [
    "\t",
    "\n",
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "&a ",
    "*a",
    "!!x ",
    "'",
    '"',
    "${",
    "}",
    "/*",
    "*/",
    "--",
    ";",
]
PIECES += [
    "no",
    "1.10",
    "~",
    "<<: ",
    "?",
    "|",
    ">",
    "%",
    "@",
    "\x00",
    "\x85",
    "\u2028",
    "\ud800",
    "é",
    "😀",
    "#",
    "---\n",
]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 8)))
        middle = draw(st.sampled_from(PIECES) | st.text(max_size=5) | st.just(text[start:end] * 3))
        text = text[:start] + middle + text[end:]
    return text


@settings(max_examples=300, deadline=2000)
@given(mutated(), st.sampled_from(["lakesmith.yml", "bronze/a.yml", "silver/a.sql"]))
def test_only_lakesmith_errors_are_raised(text: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.parent.mkdir(exist_ok=True)
        (Path(folder) / "lakesmith.yml").write_text("name: shop\nvariables: {team: a}\n")
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        with contextlib.suppress(LakesmithError):
            load_lake(folder)
