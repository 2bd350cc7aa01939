"""Export and import contracts in the formats of other tools."""

from __future__ import annotations

from typing import Literal, assert_never

from lakesmith.declare.table import Table
from lakesmith.exchange.avro import avro_text
from lakesmith.exchange.imports import import_contract, read_document
from lakesmith.exchange.json_schema import json_schema_text
from lakesmith.exchange.odcs import odcs_text
from lakesmith.exchange.request import ImportRequest, ImportResult

__all__ = [
    "Format",
    "ImportRequest",
    "ImportResult",
    "export_contract",
    "import_contract",
    "read_document",
]

Format = Literal["odcs", "avro", "json-schema"]


def export_contract(table: Table, format: Format, *, lake: str) -> str:
    """Return the table's contract as a document in another format."""
    match format:
        case "odcs":
            return odcs_text(table, lake=lake)
        case "avro":
            return avro_text(table)
        case "json-schema":
            return json_schema_text(table)
        case _:
            assert_never(format)
