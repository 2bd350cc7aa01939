"""Declarations: frozen values that remember where they were written. Standard library only."""

from lakesmith.declare.checks import Check, Severity
from lakesmith.declare.contract import Contract
from lakesmith.declare.lake import PRIVATE, Defaults, Environment, LakeDeclaration, QueryLimits, UnrunPython
from lakesmith.declare.loads import Append, Changes, Load, Merge, Replace, ReplacePartitions, Scd2, Snapshot
from lakesmith.declare.names import LAYERS, Layer, TableName, is_identifier
from lakesmith.declare.secrets import Secret, Settings
from lakesmith.declare.sources import Files, Jdbc, Kafka, OtherTable, Source, source_text
from lakesmith.declare.table import (
    Column,
    PythonQuery,
    Query,
    SqlQuery,
    Table,
)

__all__ = [
    "LAYERS",
    "PRIVATE",
    "Append",
    "Changes",
    "Check",
    "Column",
    "Contract",
    "Defaults",
    "Environment",
    "Files",
    "Jdbc",
    "Kafka",
    "LakeDeclaration",
    "Layer",
    "Load",
    "Merge",
    "OtherTable",
    "PythonQuery",
    "Query",
    "QueryLimits",
    "Replace",
    "ReplacePartitions",
    "Scd2",
    "Secret",
    "Settings",
    "Severity",
    "Snapshot",
    "Source",
    "SqlQuery",
    "Table",
    "TableName",
    "UnrunPython",
    "is_identifier",
    "source_text",
]
