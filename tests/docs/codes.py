"""Finds the error codes in the source, with the exit code of each."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.docs.markdown import ROOT

EXITS = {
    "DeclarationError": 2,
    "UsageError": 2,
    "DataError": 1,
    "InfrastructureError": 4,
    "JvmDied": 4,
    "LakesmithError": 70,
    # Values with a code that the load and plan packages turn into a DeclarationError.
    "InvalidText": 2,
    "Fault": 2,
    "_problem": 2,
    "add_error": 2,
    # A context that turns exceptions of Spark into an InfrastructureError.
    "_described_as": 4,
}
_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def codes() -> dict[str, set[int]]:
    """Return every code with its exit codes."""
    found: dict[str, set[int]] = defaultdict(set)
    for file in sorted((ROOT / "src").rglob("*.py")):
        for code, exit_code in _codes(file):
            found[code].add(exit_code)
    return dict(found)


def _codes(file: Path) -> Iterator[tuple[str, int]]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in EXITS:
                named = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
                for argument in [*named, *node.args]:
                    code = _code(argument)
                    if code is not None:
                        yield code, EXITS[name]
                        break
            # `Problems` is a LakesmithError without its own exit code: it has the highest one of its errors.
            case ast.ClassDef(bases=[ast.Name(id=base)]) if base in EXITS and base != "LakesmithError":
                yield from ((code, EXITS[base]) for code in _given_to_super(node))
            case ast.FunctionDef(name="path_problem"):
                yield from ((code, 2) for code in _returned_first(node))


def _code(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
        return node.value
    return None


def _given_to_super(node: ast.ClassDef) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__" and call.args:
            code = _code(call.args[0])
            if code is not None:
                yield code


def _returned_first(node: ast.FunctionDef) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Return) and isinstance(part.value, ast.Tuple):
            code = _code(part.value.elts[0])
            if code is not None:
                yield code
