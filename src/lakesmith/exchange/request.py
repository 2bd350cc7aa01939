"""The request and the result of an import, and what all readers need to produce a declaration."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesmith.declare.names import TableName, is_table_identifier
from lakesmith.errors import DeclarationError, LakesmithError, Place, UsageError
from lakesmith.exchange.declaration_keys import Keys
from lakesmith.load.check_models import ContractBlock
from lakesmith.load.checks import read_check, read_terms
from lakesmith.load.decode import Decoder
from lakesmith.load.models import TableBlock
from lakesmith.load.problems import ProblemList
from lakesmith.load.variables import Variables
from lakesmith.load.yaml_text import read_yaml
from lakesmith.load.yaml_writer import yaml_table
from lakesmith.sql import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """The document to import, and the table to import it as."""

    file: str
    """The document's name, for messages."""
    layer: str | None = None
    name: str | None = None
    part: str | None = None
    """The object to import, when the document describes several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """A declaration, with warnings for what was not imported."""

    text: str
    warnings: tuple[str, ...] = ()
    file: str = ""
    """The file in a lake that the declaration belongs to, such as `bronze/orders.yml`."""
    complete: bool = True
    """Whether the text is a whole table. Otherwise it is a part to paste into a declaration."""


def declaration_file(name: TableName, keys: Keys, warnings: list[str]) -> ImportResult:
    """Return the file of a table. Its source or query is a guess, because a contract has none."""
    if name.layer == "bronze":
        source = {"files": f"landing/{name.name}/*.json"}
        warnings.append(f"source: a contract has none; {source['files']} is a guess")
        text, ending = yaml_table({"source": source, **keys}), "yml"
    else:
        columns = ",\n".join(f"  {quoted(column)}" for column in keys.get("columns", {})) or "  *"
        warnings.append(f"query: a contract has none; SELECT … FROM bronze.{name.name} is a guess")
        # A text in the header must not end the comment.
        header = yaml_table(keys).replace("*/", "*\\x2f")
        text, ending = f"/* lakesmith\n{header}*/\nSELECT\n{columns}\nFROM bronze.{name.name}\n", "sql"
    return ImportResult(text=text, warnings=tuple(warnings), file=f"{name.layer}/{name.name}.{ending}")


def loader_problems(keys: Keys) -> list[LakesmithError]:
    """Return the loader's errors for a part of a table."""
    problems = ProblemList()
    node = read_yaml(yaml_table(keys), "the document")
    assert node is not None
    block = Decoder(variables=Variables(folder=""), problems=problems).block(TableBlock, node, "the table")
    if block is not None:
        for check, item in block.checks.items():
            # The document does not contain Python functions, so the lake checks them when it is loaded.
            if item.python is None:
                read_check(check, item, "", problems)
        if isinstance(block.contract, ContractBlock):
            read_terms(TableName("bronze", "imported"), "additive", block.contract, problems)
    return problems


def table_name(request: ImportRequest, *candidates: object, warnings: list[str]) -> TableName:
    """Return the requested name, else the first candidate that can be made a table name."""
    parsed = (TableName.parse(str(each)) for each in candidates if each)
    full = next((name for name in parsed if name), None)
    if request.name is not None:
        if not is_table_identifier(request.name):
            hint = "lower-case letters, digits and underscores, starting with a letter"
            raise UsageError("bad-name", f"'{request.name}' is not a valid table name", hint=hint)
        return TableName(request.layer or (full.layer if full else "bronze"), request.name)
    if full:
        return TableName(request.layer or full.layer, full.name)
    for each in candidates:
        name = re.sub(r"[^a-z0-9_]+", "_", str(each or "").lower()).strip("_")[:63]
        if is_table_identifier(name):
            if name != each:
                warnings.append(f"name: '{each}' became '{name}'")
            return TableName(request.layer or "bronze", name)
    raise DeclarationError(
        "bad-name", "the document has no name for the table", at=Place(request.file), hint="pass one with --name"
    )


def identifier(text: str) -> str:
    """Return the text with underscores for all characters that names do not allow; it may be empty."""
    word = re.sub(r"\W+", "_", text).strip("_")
    return f"_{word}" if word[:1].isdigit() else word
