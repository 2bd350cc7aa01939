"""Builds a lakehouse from declarations: plans it, runs it on Spark, checks it and queries it.

These are the public names: what a Python declaration is written with, and `Lake`, which runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakesmith.declare.python import (
    adopt,
    append,
    bronze,
    changes,
    check,
    column,
    files,
    gold,
    jdbc,
    kafka,
    merge,
    other_table,
    ref,
    replace,
    replace_partitions,
    scd2,
    silver,
    snapshot,
    table,
)
from lakesmith.errors import (
    DataError,
    DeclarationError,
    InfrastructureError,
    LakesmithError,
    Place,
    Problems,
    UsageError,
)

if TYPE_CHECKING:
    from lakesmith.lake import Lake

__version__ = "0.1.0a1"

__all__ = [
    "DataError",
    "DeclarationError",
    "InfrastructureError",
    "Lake",
    "LakesmithError",
    "Place",
    "Problems",
    "UsageError",
    "adopt",
    "append",
    "bronze",
    "changes",
    "check",
    "column",
    "files",
    "gold",
    "jdbc",
    "kafka",
    "merge",
    "other_table",
    "ref",
    "replace",
    "replace_partitions",
    "scd2",
    "silver",
    "snapshot",
    "table",
]


def __getattr__(name: str) -> Any:
    # Declaration files import this module too, and must not pay for the readers of tables behind `Lake`.
    if name == "Lake":
        from lakesmith.lake import Lake

        return Lake
    raise AttributeError(f"module 'lakesmith' has no attribute '{name}'")
