"""Export and import contracts in the formats of other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from lakesmith.declare.table import Table
from lakesmith.exchange.avro import avro_text
from lakesmith.exchange.imports import import_contract, read_document
from lakesmith.exchange.json_schema import json_schema_text
from lakesmith.exchange.odcs import odcs_text
from lakesmith.exchange.request import ImportRequest, ImportResult

__all__ = [
    "FORMATS",
    "Format",
    "ImportRequest",
    "ImportResult",
    "export_contract",
    "import_contract",
    "read_document",
]

Format = Literal["odcs", "avro", "json-schema"]
FORMATS: Mapping[Format, Callable[[Table, str], str]] = {
    "odcs": lambda table, lake: odcs_text(table, lake=lake),
    "avro": lambda table, _: avro_text(table),
    "json-schema": lambda table, _: json_schema_text(table),
}


def export_contract(table: Table, format: Format, *, lake: str) -> str:
    """Return the table's contract as a document in another format."""
    return FORMATS[format](table, lake)
