"""What the user wants: frozen values that remember where they were written. Standard library only."""

from lakesmith.declare.lake import Defaults, Environment, LakeDeclaration
from lakesmith.declare.loads import Append, Load, Merge, Replace, ReplacePartitions
from lakesmith.declare.names import LAYERS, Layer, TableName, is_identifier
from lakesmith.declare.secrets import Secret, Settings
from lakesmith.declare.table import (
    Check,
    Column,
    Contract,
    Files,
    PythonQuery,
    Query,
    Severity,
    SqlQuery,
    Table,
)

__all__ = [
    "LAYERS",
    "Append",
    "Check",
    "Column",
    "Contract",
    "Defaults",
    "Environment",
    "Files",
    "LakeDeclaration",
    "Layer",
    "Load",
    "Merge",
    "PythonQuery",
    "Query",
    "Replace",
    "ReplacePartitions",
    "Secret",
    "Settings",
    "Severity",
    "SqlQuery",
    "Table",
    "TableName",
    "is_identifier",
]
