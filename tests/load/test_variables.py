"""Variables are replaced where they are used; secrets are read at the moment of use."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from lakesmith.declare import Files, LakeDeclaration, SqlQuery, TableName
from lakesmith.errors import LakesmithError

Load = Callable[..., LakeDeclaration]
Reject = Callable[..., list[LakesmithError]]

LAKE = """\
name: shop
variables: {place: landing, top: 3, strict: "false"}
environments:
  dev: {}
  prod: {variables: {place: incoming}, warehouse: "/data/${place}", jobs: "${top}"}
"""
FILES = {
    "lakesmith.yml": LAKE,
    "bronze/orders.yml": "source: {files: '${place}/*.json'}\nenabled: ${strict}\n",
    "gold/top.sql": "/* lakesmith owner: 'team ${place}' */\nSELECT '$${x}', /* ${not_this} */ 1\nLIMIT ${ top }",
}


def parts(lake: LakeDeclaration) -> tuple[str, bool, str | None, str]:
    orders, top = lake.tables[TableName("bronze", "orders")], lake.tables[TableName("gold", "top")]
    assert isinstance(orders.origin, Files)
    assert isinstance(top.origin, SqlQuery)
    return orders.origin.files, orders.enabled, top.owner, top.origin.text


def test_variables_are_filled_into_yaml_values_headers_and_sql(load: Load) -> None:
    text = "SELECT '${x}', /* ${not_this} */ 1\nLIMIT 3"
    assert parts(load(FILES)) == ("landing/*.json", False, "team landing", text)


def test_an_environment_overrides_a_variable(load: Load) -> None:
    lake = load(FILES, environment="prod")
    assert parts(lake)[0] == "incoming/*.json"
    assert (lake.environment.warehouse, lake.environment.jobs) == ("/data/incoming", 3)


def test_a_passed_value_overrides_the_environment(load: Load) -> None:
    assert parts(load(FILES, environment="prod", variables={"place": "here"}))[0] == "here/*.json"


def test_a_value_for_an_unknown_variable_is_reported(reject: Reject) -> None:
    (error,) = reject(FILES, variables={"plaec": "here"})
    assert error.code == "unknown-variable"
    assert "did you mean 'place'?" in (error.hint or "")


def test_a_missing_value_is_reported_where_it_is_used(reject: Reject) -> None:
    files = {
        "lakesmith.yml": "name: shop\nvariables: {day: }\n",
        "gold/a.sql": "SELECT 1\nWHERE d = '${day}'",
    }
    (error,) = reject(files)
    assert (error.code, str(error.at)) == ("missing-variable", "gold/a.sql:2")


def test_a_missing_value_can_be_passed(load: Load) -> None:
    files = {"lakesmith.yml": "name: shop\nvariables: {day: }\n", "gold/a.sql": "SELECT '${day}'"}
    (table,) = load(files, variables={"day": "2026-01-01"}).tables.values()
    assert isinstance(table.origin, SqlQuery)
    assert table.origin.text == "SELECT '2026-01-01'"


def test_all_unknown_variables_of_a_query_are_reported(reject: Reject) -> None:
    errors = reject({"gold/a.sql": "SELECT ${a},\n ${b}"})
    assert [str(error.at) for error in errors] == ["gold/a.sql:1", "gold/a.sql:2"]


def test_variables_of_other_environments_are_not_required(load: Load) -> None:
    files = {"lakesmith.yml": "name: s\nvariables: {b: }\nenvironments:\n  dev: {}\n  p: {warehouse: 'x/${b}'}\n"}
    assert load(files, environment="dev").environment.name == "dev"


SECRETS = """\
name: shop
variables: {token: env:SHOP_TOKEN}
environments:
  dev:
    spark:
      a.direct: env:SHOP_TOKEN
      a.inside: "Bearer ${token}"
      a.file: file:secrets/key
      a.url: "file:///not/a/secret"
"""


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SHOP_TOKEN", "hush-hush")
    return "hush-hush"


def test_secrets_are_revealed_when_a_setting_is_looked_up(load: Load, secret: str) -> None:
    spark = load({"lakesmith.yml": SECRETS, "secrets/key": f"{secret}\n"}).environment.spark
    assert dict(spark) == {
        "a.direct": secret,
        "a.inside": f"Bearer {secret}",
        "a.file": secret,
        "a.url": "file:///not/a/secret",
    }


def test_secrets_are_never_shown(load: Load, secret: str) -> None:
    lake = load({"lakesmith.yml": SECRETS, "secrets/key": secret})
    shown = repr(lake) + str(lake.environment.spark) + json.dumps(dataclasses.asdict(lake.environment), default=str)
    assert secret not in shown
    assert "env:SHOP_TOKEN" in shown


def test_a_text_is_masked_with_the_names_of_the_secrets_in_it(load: Load, secret: str) -> None:
    environment = load({"lakesmith.yml": SECRETS, "secrets/key": "other-value"}).environment
    assert environment.masked(f"no {secret}, no other-value") == "no <env:SHOP_TOKEN>, no <file:secrets/key>"
    assert environment.secret_variables == {"SHOP_TOKEN"}


def test_a_part_of_a_secret_in_a_shortened_text_is_masked(load: Load, secret: str) -> None:
    key = "-----BEGIN KEY-----\nc2VjcmV0\n-----END KEY-----"
    environment = load({"lakesmith.yml": SECRETS, "secrets/key": key}).environment
    assert environment.masked(f"denied: {secret}"[:14]) == "denied: <env:SHOP_TOKEN>"
    assert environment.masked(f"denied: {secret}"[:11]) == "denied: hus"
    assert environment.masked("the key c2VjcmV0 was denied") == "the key <file:secrets/key> was denied"


def test_a_value_as_short_as_a_word_is_not_masked(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "a")
    environment = load({"lakesmith.yml": SECRETS, "secrets/key": ""}).environment
    assert environment.masked("a cat") == "a cat"


def test_secrets_stay_secrets_when_merged_with_defaults(load: Load, secret: str) -> None:
    spark = load({"lakesmith.yml": SECRETS, "secrets/key": secret}).environment.spark
    merged = spark.over({"a.direct": "below", "b": "1"}, without=("a.url",))
    assert dict(merged) == {"a.direct": secret, "b": "1", "a.inside": f"Bearer {secret}", "a.file": secret}
    assert set(merged.secrets) == {"a.direct", "a.inside", "a.file"}


@pytest.mark.parametrize("key", ["spark.driver.extraJavaOptions", "spark.executor.defaultJavaOptions"])
def test_a_secret_for_a_command_line_option_is_rejected(reject: Reject, secret: str, key: str) -> None:
    environments = f"environments: {{dev: {{spark: {{{key}: '-Da=${{token}}'}}}}}}\n"
    (error,) = reject({"lakesmith.yml": f"name: shop\nvariables: {{token: env:SHOP_TOKEN}}\n{environments}"})
    assert (error.code, str(error.at)) == ("secret-on-command-line", "lakesmith.yml:3")
    assert "-Da=<env:SHOP_TOKEN>" in error.what
    assert secret not in str(error)


@pytest.mark.parametrize("key", ["spark.delta.logStore.file.impl", "spark.hadoop.fs.s3a.endpoint", "master"])
def test_a_setting_that_a_connect_server_ignores_is_rejected(reject: Reject, key: str) -> None:
    (error,) = reject(
        {"lakesmith.yml": f"name: shop\nenvironments: {{dev: {{spark: {{remote: 'sc://h', {key}: x}}}}}}\n"}
    )
    assert (error.code, str(error.at)) == ("setting-of-server", "lakesmith.yml:2")
    assert key in error.what


def test_master_and_remote_are_settings_of_spark(load: Load) -> None:
    spark = load(
        {"lakesmith.yml": "name: shop\nenvironments: {dev: {spark: {master: 'local[2]'}}}\n"}
    ).environment.spark
    assert dict(spark) == {"spark.master": "local[2]"}


def test_a_secret_that_disappears_is_reported_by_its_name(
    load: Load, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = load({"lakesmith.yml": SECRETS, "secrets/key": "x"}).environment.spark
    monkeypatch.delenv("SHOP_TOKEN")
    with pytest.raises(LakesmithError) as caught:
        spark["a.direct"]
    assert caught.value.code == "missing-secret"
    assert "SHOP_TOKEN" in caught.value.what


def test_a_secret_in_a_stored_text_is_rejected(reject: Reject, secret: str) -> None:
    (error,) = reject({"lakesmith.yml": SECRETS, "secrets/key": "x", "gold/a.sql": "SELECT '${token}'"})
    assert (error.code, str(error.at)) == ("secret-in-text", "gold/a.sql:1")
    assert secret not in str(error)


def test_a_bad_warehouse_from_a_secret_is_reported_without_its_value(
    reject: Reject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PLACE", "../hidden-place")
    (error,) = reject({"lakesmith.yml": "name: shop\nenvironments: {dev: {warehouse: env:SHOP_PLACE}}\n"})
    assert error.code == "path-escapes"
    assert "env:SHOP_PLACE" in error.what
    assert "hidden-place" not in str(error)


def test_a_password_in_a_warehouse_url_is_reported_without_it(reject: Reject) -> None:
    (error,) = reject({"lakesmith.yml": "name: shop\nenvironments: {dev: {warehouse: 's3a://k:hush@b/x'}}\n"})
    assert error.code == "credentials-in-url"
    assert "hush" not in str(error)


def test_a_secret_written_in_the_wrong_place_is_not_repeated(reject: Reject) -> None:
    errors = reject({"lakesmith.yml": "name: shop\nenvironments: {dev: {spark: {a.b: env:pa$$word, c.d: 12:34:56}}}\n"})
    assert [error.code for error in errors] == ["bad-secret", "needs-quotes"]
    assert not [error for error in errors if "pa$$word" in str(error) or "12:34:56" in str(error)]
