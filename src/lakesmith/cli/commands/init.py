"""`lakesmith init`."""

from __future__ import annotations

import os
import re
import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from lakesmith.cli.call import LAKE_FILE, Call, Command
from lakesmith.cli.output import Styled, page
from lakesmith.errors import UsageError

_SCHEMA_FOLDER = ".lakesmith/schema"
_RENAMED = {"gitignore": ".gitignore"}
"""A .gitignore in the template would apply to our own repository."""


@click.command("init", cls=Command, shared=())
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--name", help="The lake's name [default: the folder's].")
def init(_: Call, path: Path, name: str | None) -> None:
    """Create a small working lake to start from.

    It has a bronze, a silver and a gold table and a few input rows, one of them invalid on purpose. Existing
    files are never overwritten.
    """
    lake_name = _checked(name) if name else _name_of(path)
    contents = {
        target: text.replace("{{name}}", lake_name)
        for target, text in (*_texts(files("lakesmith.cli") / "template"), *_schemas())
    }
    existing = [target for target in contents if os.path.exists(path / target)]
    if existing:
        raise UsageError(
            "would-overwrite",
            f"{path} already has {', '.join(existing[:5])}; nothing was written",
            hint="name another folder: lakesmith init PATH",
        )
    try:
        for target, text in contents.items():
            (path / target).parent.mkdir(parents=True, exist_ok=True)
            (path / target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            "not-writable", f"{error.filename or path}: {error.strerror}", hint="name another folder"
        ) from None
    out = page()
    out.line(Styled(lake_name, "strong"), f" is in {path}:")
    for target in contents:
        if not target.startswith(_SCHEMA_FOLDER):
            out.line("  ", target)
    out.line("next:")
    if path.resolve() != Path.cwd():
        out.line(Styled(f"  cd {shlex.quote(str(path))}", "strong"))
    for command in ("validate", "test", "run", "status", 'query "FROM gold.daily_sales"'):
        out.line(Styled(f"  lakesmith {command}", "strong"))


def _texts(folder: Traversable, prefix: str = "") -> list[tuple[str, str]]:
    """Every file of the template with its place in the lake; lakesmith.yml first."""
    texts: list[tuple[str, str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: (entry.name != LAKE_FILE, entry.is_dir(), entry.name)):
        if entry.is_dir():
            texts += _texts(entry, f"{prefix}{entry.name}/")
        else:
            target = prefix + _RENAMED.get(entry.name, entry.name)
            texts.append((target, entry.read_text(encoding="utf-8")))
    return texts


def _schemas() -> list[tuple[str, str]]:
    """The JSON Schemas that editors complete the YAML with."""
    return [
        (f"{_SCHEMA_FOLDER}/{entry.name}", entry.read_text(encoding="utf-8"))
        for entry in sorted((files("lakesmith") / "schema").iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".json")
    ]


def _name_of(path: Path) -> str:
    """The folder's name as a lake's name: lower case letters, digits and underscores."""
    name = re.sub(r"[^a-z0-9]+", "_", path.resolve().name.lower()).strip("_")
    return name[:40] if name[:1].isalpha() else f"lake_{name}"[:40].rstrip("_")


def _checked(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name):
        raise UsageError(
            "bad-name", f"'{name}' is not a lake's name", hint="lower case letters, digits and underscores"
        )
    return name
