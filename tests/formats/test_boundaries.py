"""The adapter of a format reaches files through a store, and the format's own names stay in its adapter."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lakesmith

SOURCE = Path(lakesmith.__file__).parent
ADAPTER = SOURCE / "formats/delta"
FILE_MODULES = {"os", "pathlib", "shutil"}
DELTA = re.compile(r"_delta_log|\bdeltalake\b|[\"'`(]delta\.[a-z]")
OUTSIDE = {
    "jvm/setup.py": "checks that Spark writes a Delta table",
    "ledger/batches.py": "names a lost commit in an error",
    "run/failures.py": "recognises errors of delta-rs by name",
    "run/unit_tests/warehouse.py": "makes the inputs of unit tests",
    "sources/tables.py": "reads Delta tables of others as sources",
    "spark/ingest/other_tables.py": "reads Delta tables of others as sources",
}
"""Modules outside of the adapter that name Delta, and why."""


def file_accesses(source: str) -> Iterator[str]:
    """Yield the imports of file modules that run, and the calls of `open`."""
    tree = ast.parse(source)
    for_types = {
        id(statement)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if id(node) not in for_types:
                yield from (each.name for each in names if each.name.partition(".")[0] in FILE_MODULES)
            case ast.ImportFrom(module=str(module)) if id(node) not in for_types and module in FILE_MODULES:
                yield module
            case ast.Call(func=ast.Name(id="open")):
                yield "open"


def test_the_adapter_opens_no_file_of_the_local_disk() -> None:
    found = {path.name: list(file_accesses(path.read_text())) for path in sorted(ADAPTER.glob("*.py"))}
    assert not {name: accesses for name, accesses in found.items() if accesses}


def test_an_access_to_a_local_file_is_found() -> None:
    source = "import os.path\nfrom pathlib import Path\nif TYPE_CHECKING:\n    from pathlib import Path\nopen('x')\n"
    assert sorted(file_accesses(source)) == ["open", "os.path", "pathlib"]


def test_names_of_delta_stay_in_its_adapter() -> None:
    others = [path for path in SOURCE.rglob("*.py") if not path.is_relative_to(ADAPTER)]
    named = {str(path.relative_to(SOURCE)) for path in others if DELTA.search(path.read_text())}
    assert named == OUTSIDE.keys()
