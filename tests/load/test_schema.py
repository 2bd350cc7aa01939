"""The shipped JSON Schema matches the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError

from lakesmith.load import json_schema
from lakesmith.load.schema import FOLDER, MODELS, SchemaKind, schema_text
from lakesmith.load.sql_text import read_sql
from lakesmith.load.tests import is_test_file
from lakesmith.load.variables import Variables

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "shop"

TABLES = [
    "source: {files: landing/orders/*.json}\ncontract: additive\nowner: sales\nfreshness: 1h\n",
    """
load: {merge: {key: order_id, order_by: updated_at}}
columns:
  order_id: {type: bigint, required: true}
  email: {type: string, tags: [pii]}
  amount: {type: "decimal(12,2)", check: "amount >= 0"}
  note: string
checks:
  known_currency: {where: "currency in ('EUR','USD')", on_fail: quarantine}
  enough_rows: {expect: "count(*) > 0", on_fail: fail}
""",
    "load: {replace_partitions: {by: day, same_as: silver.orders.day}}\ntags: daily\n",
    "load: {replace_partitions: day}\nenabled: '${switch}'\n",
    "load: append\n",
    "load: {append: {dedup: [id], by: at, within: 7d}}\n",
    "load: {merge: {key: id}}\n",
    "load: {merge: {key: id, order_by: at, delete: gone, soft_delete: is_gone}}\n",
    "load: {scd2: {key: id, order_by: [at, n], delete: gone, track: [a]}}\n",
    "load: {changes: {key: id, order_by: at, op: op, amounts: a, previous_key: {id: old_id}}}\n",
    "load: {snapshot: {key: id, taken: at, into: scd2, ignore: a, max_shrink: 20%}}\n",
    "load: {snapshot: {key: id, taken: at, max_shrink: 0.2}}\n",
]
LAKE = """
name: shop
default_environment: dev
environments:
  dev: {warehouse: ./.lake, spark: {spark.sql.shuffle.partitions: 8}, jobs: 2}
  prod: {warehouse: env:WAREHOUSE, landing: "s3a://landing", variables: {day: x}}
variables: {day: , top: 3}
defaults: {all: {owner: data}, silver: {contract: strict, tags: [clean], freshness: 1h}}
"""


def validate(kind: SchemaKind, text: str) -> Any:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(yaml.safe_load(text))


@pytest.mark.parametrize("kind", MODELS)
def test_the_shipped_schema_is_generated_from_the_models(kind: SchemaKind) -> None:
    assert (FOLDER / f"{kind}.json").read_text(encoding="utf-8") == schema_text(kind)


@pytest.mark.parametrize("text", TABLES)
def test_a_valid_table_matches_the_schema(text: str) -> None:
    validate("table", text)


def example_tables() -> Iterator[tuple[str, str]]:
    for path in sorted(EXAMPLE.glob("*/*")):
        if is_test_file(path.name):
            continue
        text = path.read_text(encoding="utf-8") if path.suffix in (".yml", ".yaml", ".sql") else ""
        if path.suffix == ".sql":
            text = read_sql(text, path.name, Variables(folder="", strict=False)).header or ""
        if text:
            yield f"{path.parent.name}/{path.name}", text


def test_the_tables_of_the_example_match_the_schema() -> None:
    tables = dict(example_tables())
    assert tables
    for text in tables.values():
        validate("table", text)


def test_the_lake_of_the_example_matches_the_schema() -> None:
    validate("lake", (EXAMPLE / "lakesmith.yml").read_text(encoding="utf-8"))


def test_a_valid_lake_matches_the_schema() -> None:
    validate("lake", LAKE)


@pytest.mark.parametrize(
    "text",
    [
        "ownr: me",
        "load: upsert",
        "load: {}",
        "load: {append: {time: at}}",
        "load: {scd2: {key: id}}",
        "load: {changes: {key: id, order_by: at, op: op, previous_key: old_id}}",
        "load: {snapshot: {key: id, taken: at, into: append}}",
        "load: {snapshot: {key: id, taken: at, max_shrink: 20}}",
        "load: {snapshot: {key: id, taken: at, max_shrink: much}}",
        "source: {files: a/*.json, format: jsn}",
        "freshness: soon",
        "enabled: maybe",
        "columns: {a b: int}",
        "checks: {a: {where: b, on_fail: shout}}",
    ],
)
def test_an_invalid_table_does_not_match_the_schema(text: str) -> None:
    with pytest.raises(ValidationError):
        validate("table", text)


def test_every_key_is_described() -> None:
    def undescribed(schema: Any) -> list[str]:
        if isinstance(schema, list):
            return [name for item in schema for name in undescribed(item)]
        if not isinstance(schema, dict):
            return []
        own = [name for name, key in schema.get("properties", {}).items() if not key.get("description")]
        return own + [name for item in schema.values() for name in undescribed(item)]

    assert [undescribed(json_schema(kind)) for kind in MODELS] == [[], []]
