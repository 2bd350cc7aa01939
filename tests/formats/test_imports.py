"""Several threads work on tables, and each can be the first to import delta-rs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lakesmith

MODULES = sorted(Path(lakesmith.__file__).parent.rglob("*.py"))


def _imported(node: ast.AST) -> list[str]:
    """Return the modules of delta-rs that a function imports at run time, in order."""
    found = []
    for statement in ast.iter_child_nodes(node):
        if isinstance(statement, ast.ImportFrom):
            found.append(statement.module or "")
        elif isinstance(statement, ast.Import):
            found += [each.name for each in statement.names]
        elif not isinstance(statement, ast.FunctionDef):
            found += _imported(statement)
    return [name for name in found if name.partition(".")[0] == "deltalake"]


@pytest.mark.parametrize("path", [path for path in MODULES if "deltalake" in path.read_text()], ids=lambda p: p.stem)
def test_delta_rs_is_imported_completely_before_its_parts(path: Path) -> None:
    """Python waits for a package that another thread imports, but not for the parent package of a module: the thread
    would see a part of it and fail."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert _imported(node)[:1] in ([], ["deltalake"]), f"{path}:{node.lineno} {node.name}"
