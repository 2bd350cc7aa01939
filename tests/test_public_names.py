"""The list of public names: adding or removing one is a deliberate change."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lakesmith

NAMES = """
DataError DeclarationError InfrastructureError Lake LakesmithError Place Problems UsageError
adopt append bronze changes check column files gold jdbc kafka merge other_table ref replace replace_partitions scd2
silver snapshot table
"""


def test_the_public_names_are_pinned() -> None:
    assert sorted(lakesmith.__all__) == sorted(NAMES.split())


def test_every_public_name_is_there() -> None:
    assert [name for name in lakesmith.__all__ if not hasattr(lakesmith, name)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lake_of_dreams'"):
        lakesmith.lake_of_dreams  # noqa: B018


def test_the_version_is_the_one_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    assert lakesmith.__version__ == project["project"]["version"]


def test_importing_lakesmith_imports_nothing_heavy() -> None:
    script = (
        "import sys, lakesmith;"
        "heavy = {'pyspark', 'delta', 'deltalake', 'duckdb', 'pyarrow', 'sqlglot', 'rich', 'click', 'yaml'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
