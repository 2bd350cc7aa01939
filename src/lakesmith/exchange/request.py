"""What is asked of an import, and what it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakesmith.declare.names import TableName, is_table_identifier
from lakesmith.errors import DeclarationError, LakesmithError, Place, UsageError
from lakesmith.exchange.spelling import Keys, yaml_text
from lakesmith.load.check_models import ContractBlock
from lakesmith.load.checks import read_check, read_terms
from lakesmith.load.decode import Decoder
from lakesmith.load.models import TableBlock
from lakesmith.load.variables import Variables
from lakesmith.load.yaml_text import read_yaml
from lakesmith.sql import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which table a document is to become."""

    file: str
    """The document's name, for messages."""
    layer: str | None = None
    name: str | None = None
    part: str | None = None
    """Which of the tables, where the document has several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A declaration, and what of the document is not in it."""

    text: str
    warnings: tuple[str, ...] = ()
    file: str = ""
    """Where the declaration belongs in a lake, such as `bronze/orders.yml`."""
    complete: bool = True
    """It is a table that loads; else it is a part of one, to be pasted into its declaration."""


def declared(name: TableName, keys: Keys, warnings: list[str]) -> Imported:
    """The file of a table. Its rows have to come from somewhere, and no contract says from where."""
    if name.layer == "bronze":
        source = {"files": f"landing/{name.name}/*.json"}
        warnings.append(f"source: a contract does not tell it; {source['files']} is a guess")
        text, ending = yaml_text({"source": source, **keys}), "yml"
    else:
        columns = ",\n".join(f"  {quoted(column)}" for column in keys.get("columns", {})) or "  *"
        warnings.append(f"query: a contract does not tell it; SELECT … FROM bronze.{name.name} is a guess")
        # The header is a comment, which a text in it must not end.
        header = yaml_text(keys).replace("*/", "*\\x2f")
        text, ending = f"/* lakesmith\n{header}*/\nSELECT\n{columns}\nFROM bronze.{name.name}\n", "sql"
    return Imported(text=text, warnings=tuple(warnings), file=f"{name.layer}/{name.name}.{ending}")


def problems_of(keys: Keys) -> list[LakesmithError]:
    """What the loader would object to in a part of a table."""
    problems: list[LakesmithError] = []
    node = read_yaml(yaml_text(keys), "the document")
    assert node is not None
    block = Decoder(variables=Variables(folder=""), problems=problems).block(TableBlock, node, "the table")
    if block is not None:
        for check, item in block.checks.items():
            # A function of a check is not in the document; whether the lake has it is told when it is loaded.
            if item.python is None:
                read_check(check, item, "", problems)
        if isinstance(block.contract, ContractBlock):
            read_terms(TableName("bronze", "imported"), "additive", block.contract, problems)
    return problems


def table_name(wanted: Wanted, *told: object, warnings: list[str]) -> TableName:
    """The table's name: what is wanted, else the first thing that the document tells and that can be made one."""
    if wanted.name is not None:
        if not is_table_identifier(wanted.name):
            hint = "lower-case letters, digits and underscores, starting with a letter"
            raise UsageError("bad-name", f"'{wanted.name}' is not a table's name", hint=hint)
        return TableName(wanted.layer or _layer(told) or "bronze", wanted.name)
    for each in told:
        found = TableName.parse(str(each)) if each else None
        if found:
            return TableName(wanted.layer or found.layer, found.name)
    for each in told:
        name = re.sub(r"[^a-z0-9_]+", "_", str(each or "").lower()).strip("_")[:63]
        if is_table_identifier(name):
            if name != each:
                warnings.append(f"name: '{each}' became '{name}'")
            return TableName(wanted.layer or "bronze", name)
    raise DeclarationError(
        "bad-name", "the document does not tell a name for the table", at=Place(wanted.file), hint="give one: --name"
    )


def _layer(told: tuple[object, ...]) -> str | None:
    found = [TableName.parse(str(each)) for each in told if each]
    return next((name.layer for name in found if name), None)
