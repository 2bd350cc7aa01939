"""Sessions whose tasks run elsewhere, and what their code may use of a local one."""

from __future__ import annotations

import re
from pathlib import Path

from lakesmith.declare import Environment, LakeDeclaration, Settings
from lakesmith.errors import Place
from lakesmith.jvm import lake_jars
from lakesmith.jvm.lake_jars import jars_of, settings_of
from lakesmith.ports import EngineAccess, EngineName, Store

SOURCE = Path(lake_jars.__file__).parents[1]
_LOCAL_ONLY = re.compile(
    r"\._(?:jvm|jdf|jsc|jsparkSession|sc)\b|\bsparkContext\b|\bSparkContext\b|\.rdd\b|\bparallelize\("
)
_ALLOWED = ("jvm/process.py",)
"""The module that launches a local JVM, and finds out how it ended."""


def test_only_one_module_uses_what_a_connect_session_does_not_have() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{number}"
        for path in SOURCE.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _LOCAL_ONLY.search(line) and not line.lstrip().startswith(("#", '"'))
    }
    assert {place for place in found if not place.startswith(_ALLOWED)} == set()


class Reached:
    """A store with only the settings of its engines."""

    def engine(self, name: EngineName) -> EngineAccess:
        return EngineAccess("s3://lake", {"spark.hadoop.fs.s3a.bucket.lake.odd": "hush", "spark.a": "ours"})


def lake_at(warehouse: str, **spark: str) -> LakeDeclaration:
    environment = Environment(name="dev", warehouse=warehouse, landing="/lake", spark=Settings(spark))
    return LakeDeclaration(
        name="shop",
        path="/lake",
        environment=environment,
        environments=("dev",),
        tables={},
        declared_at=Place("lakesmith.yml", 1),
    )


STORE: Store = Reached()  # type: ignore[assignment]


def test_settings_of_the_warehouses_store_are_hidden_and_give_way_to_the_users() -> None:
    settings = settings_of(lake_at("s3://lake", **{"spark.a": "mine", "spark.redaction.regex": "more"}), STORE)
    assert (settings["spark.a"], settings["spark.hadoop.fs.s3a.bucket.lake.odd"]) == ("mine", "hush")
    hidden = re.compile(settings["spark.redaction.regex"])
    assert all(map(hidden.search, ("fs.s3a.bucket.lake.odd", "spark.hadoop.fs.s3a.bucket.lake.odd", "more")))
    assert not hidden.search("fs.s3a.bucket.lake2odd")


def test_credentials_are_not_sent_to_a_connect_server() -> None:
    assert dict(settings_of(lake_at("s3://lake", **{"spark.remote": "sc://h"}), STORE)) == {"spark.remote": "sc://h"}


def test_the_store_of_the_warehouse_brings_its_jars() -> None:
    found = {url: jars_of(lake_at(url)) for url in ("/lake", "s3a://lake", "abfss://c@a.dfs.core.windows.net")}
    assert list(found.values()) == [("delta",), ("delta", "s3"), ("delta", "azure")]
