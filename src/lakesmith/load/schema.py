"""The JSON Schema of declarations, derived from the models, for completion in editors.

The files in `lakesmith/schema` are shipped; a test fails when they are outdated, and `write_schemas` writes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, assert_never

from lakesmith.declare.forms import Form
from lakesmith.load import field_types
from lakesmith.load.field_types import Block, FieldType, keys_of
from lakesmith.load.models import LakeBlock, TableBlock
from lakesmith.load.rules import RULES

SchemaKind = Literal["lake", "table"]
MODELS: dict[SchemaKind, type[Block]] = {"lake": LakeBlock, "table": TableBlock}
FOLDER = Path(__file__).parent.parent / "schema"

_VARIABLE = {"type": "string", "pattern": r"\$\{[^{}]+\}"}


def json_schema(kind: SchemaKind) -> dict[str, Any]:
    """Return the schema of lakesmith.yml (`lake`), or of a YAML table and the header of a SQL table (`table`)."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Lakesmith: a {kind}"}
    return schema | _block(field_types.Blocks(MODELS[kind]))


def schema_text(kind: SchemaKind) -> str:
    """Return the text of the shipped file."""
    return json.dumps(json_schema(kind), indent=2, ensure_ascii=False) + "\n"


def write_schemas(folder: Path = FOLDER) -> None:
    """Write the shipped files."""
    for kind in MODELS:
        (folder / f"{kind}.json").write_text(schema_text(kind), encoding="utf-8")


def _block(kind: field_types.Blocks) -> dict[str, Any]:
    model, keys = kind.model, keys_of(kind.model)
    schema: dict[str, Any] = {
        "description": (model.__doc__ or "").strip(),
        "type": "object",
        "properties": {name: {"description": key.about} | _schema(key.kind) for name, key in keys.items()},
        "additionalProperties": False,
    }
    required = [name for name, key in keys.items() if key.required]
    if required:
        schema["required"] = required
    if kind.one_key:
        schema |= {"minProperties": 1, "maxProperties": 1}
    return schema


def _schema(kind: FieldType) -> dict[str, Any]:
    match kind:
        case Form.SETTING:
            return {"type": ["string", "integer", "boolean"]}
        case Form.NUMBER:
            return _or_variable({"type": "integer", "minimum": 1})
        case Form.SHARE:
            number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
            return {"anyOf": [number, {"type": "string", "pattern": r"^[0-9.]+\s*%$"}, _VARIABLE]}
        case Form.VALUE:
            return {"type": ["string", "number", "boolean"]}
        case Form.AMOUNT:
            return _or_variable({"type": "number"})
        case Form.LIMIT:
            return {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^[0-9.]+\s*%$"}, _VARIABLE]}
        case Form.BOOLEAN:
            return _or_variable({"type": "boolean"})
        case Form():
            return _or_variable({"type": "string", **(RULES[kind].schema if kind in RULES else {})})
        case field_types.Words():
            return _or_variable({"enum": list(kind.words)})
        case field_types.Lists():
            item = _schema(kind.item)
            return {"anyOf": [item, {"type": "array", "items": item, "minItems": 1}]}
        case field_types.Named(name=name, value=value):
            return {"type": "object", **_names(name), "additionalProperties": _schema(value)}
        case field_types.Blocks():
            block = _block(kind)
            return block if kind.short is None else {"anyOf": [_schema(keys_of(kind.model)[kind.short].kind), block]}
        case field_types.WordOrBlock():
            return {"anyOf": [_schema(kind.words), _schema(kind.block)]}
        case field_types.Optional():
            return {"anyOf": [_schema(kind.value), {"type": "null"}]}
        case field_types.Later():
            return _schema(kind.value)
        case _:
            assert_never(kind)


def _names(kind: FieldType) -> dict[str, Any]:
    match kind:
        case field_types.Words():
            return {"propertyNames": {"enum": list(kind.words)}}
        case Form() if kind in RULES:
            return {"propertyNames": dict(RULES[kind].schema)}
        case _:
            return {}


def _or_variable(schema: dict[str, Any]) -> dict[str, Any]:
    if set(schema) <= {"type", "minLength", "examples"} and schema["type"] == "string":
        return schema
    return {"anyOf": [schema, _VARIABLE]}
