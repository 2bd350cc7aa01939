"""Python declarations: invalid ones are reported, valid ones load without Spark and leave no modules."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakesmith.declare import LakeDeclaration, PythonQuery, TableName
from lakesmith.errors import LakesmithError
from lakesmith.load import import_function

Load = Callable[..., LakeDeclaration]
Reject = Callable[..., list[LakesmithError]]

TOP = "import lakesmith as lake\n"
BODY = '@lake.gold()\ndef sales(orders=lake.ref("silver.orders")):\n    return orders\n'

BAD = {
    "it raises": (TOP + "x = 1\ny = x / 0\n" + BODY, "python-raised", 3, "move the work into the function"),
    "it does not parse": (TOP + "def sales(:\n", "python-syntax", 2, "py_compile"),
    "it returns at the top": (TOP + "return 1\n", "python-syntax", 2, "py_compile"),
    "it exits": (TOP + "import sys\nsys.exit(0)\n" + BODY, "python-raised", 3, "only declares"),
    "it recurses for ever": (TOP + "def f():\n    f()\nf()\n" + BODY, "python-raised", 3, "move the work"),
    "it imports what is not there": (TOP + "import no_such_thing\n" + BODY, "python-raised", 2, "install"),
    "it gives an unknown argument": (
        TOP + BODY.replace("gold()", 'gold(ownr="a")'),
        "python-raised",
        2,
        "keys",
    ),
    "it builds a session": (
        TOP + "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n" + BODY,
        "spark-while-loading",
        3,
        "move it into the function",
    ),
    "it uses a column": (
        TOP + "from pyspark.sql import functions as F\nprice = F.col('price')\n" + BODY,
        "spark-while-loading",
        3,
        "move it into the function",
    ),
    "it uses a column after a star import": (
        TOP + "from pyspark.sql.functions import *\nprice = col('price')\n" + BODY,
        "spark-while-loading",
        3,
        "move it into the function",
    ),
    "it uses a window": (
        TOP + "from pyspark.sql.window import Window\n\nw = Window.partitionBy('a')\n" + BODY,
        "spark-while-loading",
        4,
        "move it into the function",
    ),
    "it walks through a schema": (
        TOP + "from pyspark.sql.types import *\nnames = [f.name for f in StructType([])]\n" + BODY,
        "spark-while-loading",
        3,
        "move it into the function",
    ),
    "it opens a Delta table": (
        TOP + "from delta.tables import DeltaTable\nt = DeltaTable.forName(None, 'a')\n" + BODY,
        "spark-while-loading",
        3,
        "move it into the function",
    ),
    "it declares nothing": (TOP, "no-tables", 1, "@lake.gold"),
    "it declares another layer": (
        TOP + BODY.replace("lake.gold", "lake.silver"),
        "wrong-layer",
        2,
        "silver/",
    ),
    "it says the layer wrong": (
        TOP + BODY.replace("lake.gold()", 'lake.table(layer="silver")'),
        "wrong-layer",
        2,
        "@lake.gold",
    ),
    "it has a parameter without a table": (
        TOP + "@lake.gold()\ndef sales(orders):\n    return orders\n",
        "missing-ref",
        2,
        'orders=lake.ref("silver.orders")',
    ),
    "it refers to no table": (
        TOP + BODY.replace("silver.orders", "orders"),
        "bad-identifier",
        3,
        "layer.table",
    ),
    "it takes any argument": (
        TOP + "@lake.gold()\ndef sales(*orders):\n    return orders\n",
        "wrong-type",
        2,
        "without async",
    ),
    "it is a generator": (
        TOP + "@lake.gold()\ndef sales():\n    yield 1\n",
        "wrong-type",
        2,
        "without async",
    ),
    "it forgets the brackets": (TOP + BODY.replace("gold()", "gold"), "no-query", 2, "with parentheses"),
    "it forgets the function": (TOP + 'lake.gold("sales")\n', "no-query", 2, "gold/sales.sql or .py"),
    "its name is no name": (
        TOP + BODY.replace("gold()", 'gold("My Sales")'),
        "bad-identifier",
        2,
        "lower-case",
    ),
    "it has a source outside of bronze": (
        TOP + 'lake.gold("sales", source=lake.files("a.json"))\n',
        "source-outside-bronze",
        2,
        "bronze",
    ),
    "its column has no type": (
        TOP + BODY.replace("gold()", 'gold(\n  columns=[\n    lake.column("a", "integre"),\n  ],\n)'),
        "bad-type",
        4,
        "did you mean 'integer'?",
    ),
    "its column is there twice": (
        TOP + BODY.replace("gold()", 'gold(\n  columns=[lake.column("a"),\n    lake.column("a")])'),
        "duplicate-key",
        4,
        "remove one",
    ),
    "its check is on rows and batch": (
        TOP + BODY.replace("gold()", 'gold(checks=[\n  lake.check("a", {"sql": "b"}, expect="c")])'),
        "one-of",
        3,
        "where",
    ),
    "its owner is a number": (TOP + BODY.replace("gold()", "gold(owner=5)"), "needs-quotes", 2, '"5"'),
    "its owner is a function": (TOP + BODY.replace("gold()", "gold(owner=print)"), "wrong-type", 2, "owner"),
    "its key is SQL": (
        TOP + BODY.replace("gold()", 'gold(load=lake.merge(key="a b", order_by="c"))'),
        "bad-identifier",
        2,
        "letters",
    ),
    "its load is no load": (
        TOP + BODY.replace("gold()", 'gold(load="apend")'),
        "unknown-word",
        2,
        "'append'",
    ),
}


@pytest.mark.parametrize(("text", "code", "line", "hint"), BAD.values(), ids=BAD)
def test_a_bad_python_file_is_reported_with_line_and_hint(
    reject: Reject, text: str, code: str, line: int, hint: str
) -> None:
    (error,) = reject({"gold/sales.py": text})
    assert (error.code, str(error.at)) == (code, f"gold/sales.py:{line}"), str(error)
    assert hint in (error.hint or "")


def test_an_error_in_a_shared_module_is_reported_at_its_own_line(reject: Reject) -> None:
    (error,) = reject({"shared/a.py": "x = 1\n\nraise ValueError('no')\n", "gold/sales.py": "import shared.a\n"})
    assert (error.code, str(error.at)) == ("python-raised", "shared/a.py:3")


def test_a_syntax_error_in_a_shared_module_is_reported_at_its_own_line(reject: Reject) -> None:
    (error,) = reject({"shared/a.py": "x = 1\nx = = 2\n", "gold/sales.py": "import shared.a\n"})
    assert (error.code, str(error.at)) == ("python-raised", "shared/a.py:2")


def test_a_keyboard_interrupt_is_not_an_error_of_the_file(load: Load) -> None:
    with pytest.raises(KeyboardInterrupt):
        load({"gold/sales.py": "raise KeyboardInterrupt\n"})


def test_common_code_at_the_top_of_a_file_works(load: Load) -> None:
    text = """
from __future__ import annotations
from dataclasses import dataclass
from typing import Callable, Optional

import lakesmith as lake
import pyspark.sql.functions as F
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql.types import *

SCHEMA = StructType([StructField("a", StringType(), True), StructField("b", ArrayType(LongType()))])
WIDER = SCHEMA.add("c", DecimalType(12, 2))
KEEP = StorageLevel.MEMORY_ONLY
Step = Callable[[DataFrame], DataFrame]
Perhaps = Optional[DataFrame]
Either = DataFrame | None

@dataclass
class Rate:
    value: float

class Money(UserDefinedType if False else StructType):
    pass

@F.udf
def plain(a): return a

@F.udf("string")
def typed(a): return a

@F.pandas_udf(LongType())
def vector(a): return a

short = F.udf(lambda a: a, StringType())

@lake.gold()
def sales(orders: DataFrame = lake.ref("silver.orders"), factor: int = 2) -> DataFrame:
    return orders.withColumn("x", short(F.col("a"))).over(Window.partitionBy("a"))
"""
    lake = load({"gold/sales.py": text})
    origin = lake.tables[TableName("gold", "sales")].origin
    assert isinstance(origin, PythonQuery)
    assert origin.refs == (("orders", TableName("silver", "orders")),)


def test_several_tables_in_one_file_are_all_declared(load: Load) -> None:
    text = TOP + BODY + BODY.replace("sales", "returns") + BODY.replace("sales", "f").replace("()", '("named")', 1)
    assert [str(name) for name in load({"gold/many.py": text}).tables] == [
        "gold.named",
        "gold.returns",
        "gold.sales",
    ]


def test_tables_made_in_a_loop_each_get_their_own_function(load: Load) -> None:
    text = TOP + (
        "def make(country):\n"
        '    @lake.gold(f"sales_{country}")\n'
        '    def sales(orders=lake.ref("silver.orders")):\n'
        "        return country\n"
        'for country in ("de", "fr"):\n'
        "    make(country)\n"
    )
    lake = load({"gold/many.py": text})
    answers = [
        import_function(table.origin)(None) for table in lake.tables.values() if isinstance(table.origin, PythonQuery)
    ]
    assert answers == ["de", "fr"]


def test_output_of_a_file_does_not_reach_standard_output(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load({"gold/sales.py": "print('hello')\n" + TOP + BODY})
    assert capsys.readouterr().out == ""


def test_pyspark_stays_out_of_sys_modules(load: Load, tmp_path: Path) -> None:
    load({"gold/sales.py": "from pyspark.sql import functions as F\nimport delta.tables\n" + TOP + BODY})
    script = (
        "import sys; from lakesmith.load import load_lake; lake = load_lake(sys.argv[1]);"
        "assert len(lake.tables) == 1;"
        "print({'pyspark', 'delta', 'py4j', 'sqlglot'} & {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"


@pytest.fixture
def real_spark() -> Iterator[types.ModuleType]:
    """A module instead of pyspark, as during a run."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "pyspark"}
    module = types.ModuleType("pyspark")
    for name in before:
        del sys.modules[name]
    sys.modules["pyspark"] = module
    yield module
    del sys.modules["pyspark"]
    sys.modules.update(before)


def test_the_real_pyspark_is_restored_after_loading(load: Load, real_spark: types.ModuleType) -> None:
    load({"gold/sales.py": "from pyspark.sql import DataFrame\n" + TOP + BODY})
    assert sys.modules["pyspark"] is real_spark
    assert "pyspark.sql" not in sys.modules


def test_a_module_that_imported_a_fake_is_unloaded(
    load: Load, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path_factory.mktemp("packages")
    (packages / "third_party_of_test.py").write_text("from pyspark.sql import functions as F\n")
    monkeypatch.syspath_prepend(packages)
    load({"gold/sales.py": "import third_party_of_test\n" + TOP + BODY})
    assert "third_party_of_test" not in sys.modules


def test_modules_of_the_lake_are_imported_and_unloaded(load: Load) -> None:
    files = {"shared/__init__.py": "", "shared/dates.py": "first = 'day'\n"}
    load(
        {
            **files,
            "gold/sales.py": "from shared.dates import first\n" + TOP + BODY.replace("gold()", "gold(owner=first)"),
        }
    )
    assert not [name for name in sys.modules if name.startswith(("shared", "lakesmith_declaration"))]


def test_two_lakes_with_modules_of_one_name_each_get_their_own(tmp_path: Path) -> None:
    from lakesmith.load import load_lake

    owners = []
    for owner in ("one", "two"):
        folder = tmp_path / owner
        (folder / "gold").mkdir(parents=True)
        (folder / "lakesmith.yml").write_text(f"name: {owner}\n")
        (folder / "whose.py").write_text(f"owner = {owner!r}\n")
        (folder / "gold" / "sales.py").write_text(
            "from whose import owner\n" + TOP + BODY.replace("gold()", "gold(owner=owner)")
        )
        owners += [table.owner for table in load_lake(folder).tables.values()]
    assert owners == ["one", "two"]


def test_an_imported_function_is_undecorated(load: Load) -> None:
    lake = load(
        {
            "shared/a.py": "word = 'from shared'\n",
            "gold/sales.py": "from shared.a import word\n" + TOP + BODY.replace("return orders", "return orders, word"),
        }
    )
    origin = lake.tables[TableName("gold", "sales")].origin
    assert isinstance(origin, PythonQuery)
    assert import_function(origin)(orders="rows") == ("rows", "from shared")
    assert "shared.a" not in sys.modules


def test_a_table_removed_from_its_file_is_reported(load: Load, tmp_path: Path) -> None:
    lake = load({"gold/sales.py": TOP + BODY})
    (tmp_path / "gold" / "sales.py").write_text(TOP)
    origin = lake.tables[TableName("gold", "sales")].origin
    assert isinstance(origin, PythonQuery)
    with pytest.raises(LakesmithError) as caught:
        import_function(origin)
    assert caught.value.code == "python-changed"


def source(load: Load, **files: str) -> str:
    names = {"sales": "gold/sales.py", "shared": "shared/a.py"}
    origin = load({names[name]: text for name, text in files.items()}).tables[TableName("gold", "sales")].origin
    assert isinstance(origin, PythonQuery)
    return origin.source


def test_the_source_changes_with_what_the_function_uses(load: Load) -> None:
    text = (
        "from shared.a import x\nRATE = 2\ndef tax(a): return a * RATE\nOTHER = 1\n"
        + TOP
        + BODY.replace("return orders", "return tax(orders), x")
    )
    first = source(load, sales=text, shared="x = 1\n")
    assert source(load, sales=text.replace("RATE = 2", "RATE = 3")) != first
    assert source(load, sales=text, shared="x = 2\n") != first


def test_the_source_does_not_change_with_the_rest_of_the_file(load: Load) -> None:
    text = "import os, sys\nOTHER = 1\n" + TOP + BODY.replace("return orders", "return sys.path")
    changed = (
        text.replace("OTHER = 1", "OTHER = 2")
        .replace("import os, sys", "import json, sys")
        .replace("gold()", 'gold(owner="me")')
    )
    assert source(load, sales=text) == source(load, sales=changed)
