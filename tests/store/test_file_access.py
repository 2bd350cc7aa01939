"""Only the adapter of the local disk touches files of the warehouse; all other code passes a `Store`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import lakesmith

SOURCE = Path(lakesmith.__file__).parent
MODULES = ("os", "shutil", "pathlib", "tempfile", "glob", "fcntl", "mmap")
ADAPTER = ("disk.py", "store/local.py", "store/local_listing.py", "store/checksum_files.py", "store/confined.py")
WITHOUT_WAREHOUSE = ("cli", "load", "declare", "jvm", "cache.py")
"""Rooms with declarations, caches and Java's files."""
OTHER_FILES = {
    "exchange/imports.py": "files that a user imports",
    "intake/columnar.py": "a spooled copy of a landing file",
    "intake/memory.py": "the memory of the machine",
    "intake/orc.py": "a helper process and its copy of a landing file",
    "intake/protobuf_values.py": "schemas for the compiler of Protobuf",
    "intake/reader.py": "a parameter of this name",
    "lake/contracts.py": "declarations",
    "lake/lake.py": "declarations",
    "lake/landing.py": "files that a user lands",
    "lake/open_lake.py": "caches of the machine",
    "lake/planning.py": "declarations",
    "ledger/contracts.py": "a cache of the machine",
    "ledger/skipped.py": "a cache of the machine",
    "quarantine.py": "a file with corrections of a user",
    "query/limits.py": "the memory of the machine",
    "run/unit_tests/runner.py": "a temporary warehouse",
    "sources/kafka.py": "schemas in the folder of the lake",
    "spark/ingest/parts.py": "a parameter of this name",
    "store/landing.py": "files that a user lands",
    "store/object_clients.py": "the environment, and credentials in AWS's files",
    "store/stores/sftp.py": "keys of a user",
}
"""Modules that use files, but none of the warehouse."""
REMAINING = {
    "ledger/lease.py": "checks whether the holder's process runs on this machine",
    "spark/ingest/other_tables.py": "makes URLs of local paths",
}
"""Modules to convert. This list only shrinks."""


def test_only_the_local_adapter_uses_files_of_the_warehouse() -> None:
    allowed = {*ADAPTER, *OTHER_FILES, *REMAINING}
    found = {
        f"{path.relative_to(SOURCE)}:{line}: {what}"
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in WITHOUT_WAREHOUSE and str(path.relative_to(SOURCE)) not in allowed
        for line, what in _file_access(ast.parse(path.read_text()))
    }
    assert found == set()


def test_every_exception_is_needed() -> None:
    unused = {
        name
        for name in (*ADAPTER, *OTHER_FILES, *REMAINING)
        if not (SOURCE / name).exists() or not any(_file_access(ast.parse((SOURCE / name).read_text())))
    }
    assert unused == set()


def _file_access(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Imports of modules that access files, and calls of `open`, except those for types."""
    for_types = {
        id(below)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for below in ast.walk(statement)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names) if any(name.name.partition(".")[0] in MODULES for name in names):
                pass
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in MODULES:
                pass
            case ast.Call(func=ast.Name(id="open")):
                pass
            case _:
                continue
        if id(node) not in for_types:
            yield node.lineno, ast.unparse(node)
