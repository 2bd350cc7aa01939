"""Python files are read and not executed: literal values are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lakesmith.cli import app
from lakesmith.cli.call import Call
from lakesmith.declare import LakeDeclaration, PythonQuery, TableName
from lakesmith.errors import LakesmithError, Place, Problems
from lakesmith.lake import Lake
from lakesmith.load import load_lake
from lakesmith.reports import Validation

TOP = "import lakesmith as lake\n"
LAKE: Mapping[str, str] = {
    "lakesmith.yml": "name: shop\n",
    "bronze/orders.yml": "source: {files: landing/orders/*.json}\n",
    "silver/orders.sql": "SELECT id, day FROM bronze.orders\n",
}


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for file, text in {**LAKE, **files}.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def static(folder: Path, files: Mapping[str, str]) -> LakeDeclaration:
    return load_lake(written(folder, files), run_python=False)


def reviewed(folder: Path, files: Mapping[str, str]) -> Validation:
    return Lake.review(written(folder, files))


def problems(folder: Path, files: Mapping[str, str]) -> list[tuple[str, Place | None]]:
    with pytest.raises(LakesmithError) as raised:
        reviewed(folder, files)
    errors = raised.value.errors if isinstance(raised.value, Problems) else (raised.value,)
    return [(error.code, error.at) for error in errors]


WRITTEN_OUT = {
    "a function": TOP + '@lake.gold()\ndef sales(orders=lake.ref("silver.orders")):\n    return orders\n',
    "keys of all kinds": TOP
    + "import pyspark.sql.functions as F\n"
    + 'KEY = ["id"]\n'
    + "WHERE = {'range': {'column': 'id', 'min': -1.5}}\n"
    + "@lake.gold(\n"
    + '    "sales",\n'
    + "    load=lake.merge(key=KEY, order_by='day'),\n"
    + '    columns=[lake.column("id", "bigint", required=True), lake.column("day", "date")],\n'
    + '    checks=[lake.check("few", WHERE, on_fail="warn")],\n'
    + "    tags=('a', 'b'),\n"
    + ")\n"
    + 'def anything(orders=lake.ref("silver.orders"), *, factor=2.0):\n    return orders\n',
    "imported names": "from lakesmith import gold, ref as table_of\n"
    '@gold(owner="x")\ndef sales(orders=table_of("silver.orders")):\n    return orders\n',
    "another alias": "import lakesmith\n"
    '@lakesmith.table("sales", layer="gold")\ndef f(orders=lakesmith.ref("silver.orders")):\n    return orders\n',
    "helpers beside": TOP
    + "from pyspark.sql.types import StructType\n"
    + "SCHEMA = StructType([])\n"
    + "class Shape:\n    size = 1\n"
    + "def helper(x):\n    return x\n"
    + "if SCHEMA:\n    print(SCHEMA)\n"
    + '@lake.gold()\ndef sales(orders=lake.ref("silver.orders")):\n    return helper(orders)\n',
}


@pytest.mark.parametrize("text", WRITTEN_OUT.values(), ids=WRITTEN_OUT)
def test_a_literal_declaration_is_read_as_when_the_file_runs(text: str, tmp_path: Path) -> None:
    read = static(tmp_path, {"gold/sales.py": text})
    run = load_lake(tmp_path)
    name = TableName("gold", "sales")
    mine, theirs = read.tables[name], run.tables[name]
    assert isinstance(mine.origin, PythonQuery)
    assert isinstance(theirs.origin, PythonQuery)
    assert (mine.origin.refs, mine.origin.function) == (theirs.origin.refs, theirs.origin.function)
    for part in ("load", "columns", "checks", "contract", "tags", "owner", "declared_at"):
        assert getattr(mine, part) == getattr(theirs, part), part
    assert [check.declared_at for check in mine.checks] == [check.declared_at for check in theirs.checks]
    assert read.unrun.files == ("gold/sales.py",)
    assert (dict(read.unrun.tables), read.unrun.layers) == ({}, frozenset())


def test_a_literal_source_is_read(tmp_path: Path) -> None:
    text = TOP + 'lake.bronze("a", source=lake.files("landing/a/*.csv", delimiter=";"))\n'
    text += 'B = lake.bronze("b", source=lake.kafka("t", connection="c"))\n'
    read = static(tmp_path, {"bronze/more.py": text})
    assert {str(name) for name in read.tables} == {"bronze.orders", "bronze.a", "bronze.b", "silver.orders"}
    assert read.tables[TableName("bronze", "a")] == load_lake(tmp_path).tables[TableName("bronze", "a")]


COMPUTED = {
    "a name from a module": (
        "from os import sep\n" + TOP + "@lake.gold(owner=sep)\ndef sales(): ...\n",
        {"gold.sales"},
        False,
    ),
    "two decorators": (
        TOP + "from functools import cache\n@lake.gold()\n@cache\ndef sales(): ...\n",
        {"gold.sales"},
        True,
    ),
    "no brackets": (TOP + "@lake.gold\ndef sales(): ...\n", {"gold.sales"}, False),
    "keys of a dict": (TOP + "K = dict()\n@lake.gold('sales', **K)\ndef f(): ...\n", {"gold.sales"}, False),
    "a computed name": (TOP + "@lake.gold('sa' + 'les')\ndef f(): ...\n", set(), True),
    "a loop": (TOP + "for n in 'ab':\n    @lake.gold(n)\n    def f(): ...\n", set(), True),
    "a helper": (TOP + "def make(n):\n    lake.gold(n)(lambda: 1)\nmake('sales')\n", set(), True),
    "a lambda": (TOP + "sales = lake.gold('sales')(lambda: 1)\n", set(), True),
    "a name that is bound again": (TOP + "lake = object()\n@lake.gold()\ndef sales(): ...\n", {"gold.sales"}, True),
    "a constant that is changed": (
        TOP + "K = 'a'\nK = 'b'\n@lake.gold(owner=K)\ndef sales(): ...\n",
        {"gold.sales"},
        False,
    ),
    "a constant of itself": (TOP + "K = [K]\n@lake.gold(owner=K)\ndef sales(): ...\n", {"gold.sales"}, False),
    "a computed reference": (
        TOP + "@lake.gold()\ndef sales(x=lake.ref('silver.' + 'x')): ...\n",
        {"gold.sales"},
        False,
    ),
    "a star": ("from lakesmith import *\n@gold()\ndef sales(): ...\n", set(), True),
    "exec": (TOP + "exec(\"lake.gold('x')\", {'lake': lake})\n", set(), True),
}


@pytest.mark.parametrize(("text", "opaque", "is_open"), COMPUTED.values(), ids=COMPUTED)
def test_computed_values_are_not_guessed_and_cause_no_false_error(
    text: str, opaque: set[str], is_open: bool, tmp_path: Path
) -> None:
    reader = "SELECT id FROM gold.sales\n"
    read = static(tmp_path, {"gold/other.py": text, "gold/reader.sql": reader})
    assert {str(name) for name in read.unrun.tables} - {"gold.f"} == opaque
    assert ("gold" in read.unrun.layers) is is_open
    found = reviewed(tmp_path, {"gold/other.py": text, "gold/reader.sql": reader})
    assert found.not_run == ("gold/other.py",)
    assert any("gold" in left_out for left_out in found.not_checked)


def test_tests_and_checks_can_name_a_computed_table(tmp_path: Path) -> None:
    header = (
        "/* lakesmith\n"
        "load: append\n"
        "checks:\n"
        "  known: {references: {columns: id, table: gold.sales}}\n"
        "  same: {reconcile: {table: gold.sales, own: count(*)}}\n"
        "*/\n"
    )
    found = reviewed(
        tmp_path,
        {
            "gold/sales.py": TOP + "import os\n@lake.gold(owner=os.sep)\ndef sales(o=lake.ref('silver.orders')): ...\n",
            "gold/reader.sql": header + "SELECT id FROM gold.sales\n",
            "tests/sales.yml": "one: {table: gold.sales, given: {silver.orders: [{id: 1}]}, expect: []}\n"
            "two: {table: gold.reader, given: {gold.sales: [{id: 1}]}, expect: []}\n",
            "gold/sales.test.yml": "three: {given: {silver.orders: [{id: 1}]}, expect: []}\n",
        },
    )
    assert found.not_checked == (
        "whether the Python files load",
        "gold.sales, whose declaration is computed (gold/sales.py:3)",
        "stored tables and recorded contracts",
    )


WRONG = {
    "a column of YAML": ({"gold/a.sql": "SELECT nope FROM silver.orders\n"}, "unknown-column", "gold/a.sql", 1),
    "an unknown table": (
        {"gold/sales.py": TOP + "@lake.gold()\ndef sales(o=lake.ref('silver.nope')): ...\n"},
        "unknown-table",
        "gold/sales.py",
        2,
    ),
    "a SQL table that reads none of Python's": (
        {"gold/sales.py": WRITTEN_OUT["a function"], "gold/a.sql": "SELECT id FROM gold.sale\n"},
        "unknown-table",
        "gold/a.sql",
        1,
    ),
    "a key": (
        {"gold/sales.py": TOP + "@lake.gold(\n  lod='x')\ndef sales(): ...\n"},
        "python-raised",
        "gold/sales.py",
        2,
    ),
    "a load": (
        {"gold/sales.py": TOP + "@lake.gold(load=lake.merge(key='a b'))\ndef sales(): ...\n"},
        "bad-identifier",
        "gold/sales.py",
        2,
    ),
    "a layer": ({"gold/sales.py": TOP + "@lake.silver()\ndef sales(): ...\n"}, "wrong-layer", "gold/sales.py", 2),
    "a parameter": ({"gold/sales.py": TOP + "@lake.gold()\ndef sales(x): ...\n"}, "missing-ref", "gold/sales.py", 2),
    "a generator": (
        {"gold/sales.py": TOP + "@lake.gold()\ndef sales():\n  yield 1\n"},
        "wrong-type",
        "gold/sales.py",
        2,
    ),
    "no table": ({"gold/sales.py": TOP}, "no-tables", "gold/sales.py", 1),
    "syntax": ({"gold/sales.py": TOP + "def\n"}, "python-syntax", "gold/sales.py", 2),
    "the same name twice": (
        {"gold/sales.py": WRITTEN_OUT["a function"], "gold/sales.sql": "SELECT 1 AS a\n"},
        "duplicate-table",
        "gold/sales.sql",
        1,
    ),
    "a cycle through Python": (
        {
            "gold/sales.py": TOP + "@lake.gold()\ndef sales(a=lake.ref('gold.a')): ...\n",
            "gold/a.sql": "SELECT 1 AS id FROM gold.sales\n",
        },
        "cycle",
        "gold/a.sql",
        1,
    ),
    "a check's module": (
        {
            "rules.py": "def (",
            "gold/a.sql": "/* lakesmith\nchecks: {x: {python: rules.even}}\n*/\nSELECT id FROM silver.orders\n",
        },
        "python-syntax",
        "rules.py",
        1,
    ),
}


@pytest.mark.parametrize(("files", "code", "file", "line"), WRONG.values(), ids=WRONG)
def test_errors_are_found_without_running_code(
    files: Mapping[str, str], code: str, file: str, line: int, tmp_path: Path
) -> None:
    assert problems(tmp_path, files) == [(code, Place(file, line))]


CANARY = "import pathlib\npathlib.Path(__file__).with_suffix('.canary').touch()\n"
HOSTILE = {
    "gold/sales.py": CANARY + "from shared.text import clean\n" + WRITTEN_OUT["a function"],
    "shared/__init__.py": CANARY,
    "shared/text.py": CANARY + "def clean(x):\n    return x\n",
    "rules.py": CANARY + "def even(rows):\n    return rows.id\n",
    "gold/checked.sql": "/* lakesmith\nchecks: {even: {python: rules.even}}\n*/\nSELECT id FROM silver.orders\n",
    "tests/conftest.py": CANARY,
    "tests/test_sales.py": CANARY,
    "tests/sales.yml": "one: {table: gold.sales, given: {silver.orders: [{id: 1}]}, expect: []}\n",
    "conftest.py": CANARY,
    "sitecustomize.py": CANARY,
    "usercustomize.py": CANARY,
    "lakesmith.py": CANARY,
    "yaml.py": CANARY,
    "click.py": CANARY,
    "json.py": CANARY,
    "setup.py": CANARY,
    "pyspark/__init__.py": CANARY,
}


def canaries(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.canary")}


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the installed command in the lake's folder."""
    script = Path(sys.executable).with_name("lakesmith")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return subprocess.run(
        [script, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=environment
    )


def test_validate_runs_python_files_except_with_no_python(tmp_path: Path) -> None:
    folder = written(tmp_path, HOSTILE)
    before = set(folder.rglob("*"))
    review = command(folder, "validate", "--no-python")
    assert (review.returncode, review.stderr) == (0, "")
    assert set(folder.rglob("*")) == before
    assert "not run: 1 Python file: gold/sales.py\n" in review.stdout
    assert command(folder, "validate").returncode == 0
    assert canaries(folder) == {"gold/sales.canary", "shared/__init__.canary", "shared/text.canary"}


AUDIT = """
import sys
seen = []
lake = sys.argv[1]
def hook(event, arguments):
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")):
        seen.append((event, str(arguments[:1])))
    if event == "exec" and lake in getattr(arguments[0], "co_filename", ""):
        seen.append((event, arguments[0].co_filename))
    if event == "import" and arguments[1] and lake in str(arguments[1]):
        seen.append((event, arguments[1]))
    if event == "open" and isinstance(arguments[0], str) and arguments[1] and set(arguments[1]) & set("wax+"):
        seen.append((event, arguments[0]))
    if event == "open" and "outside" in str(arguments[0]):
        seen.append((event, arguments[0]))
from lakesmith.cli import app
from lakesmith.lake import Lake
sys.addaudithook(hook)
Lake.review(lake)
print(seen)
"""


def test_a_review_starts_no_process_and_does_not_write_or_connect(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = written(
        tmp_path / "lake",
        {
            **HOSTILE,
            "lakesmith.yml": f"name: shop\nenvironments: {{dev: {{warehouse: {outside}, landing: {outside}}}}}\n",
            "bronze/adopted.yml": f"source: {{adopt: {outside}/adopted}}\n",
            "bronze/copied.yml": "source: {table: 's3://outside/copied'}\n",
        },
    )
    found = subprocess.run(
        [sys.executable, "-P", "-c", AUDIT, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.stderr, found.stdout) == ("", "[]\n")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


UNREADABLE = pytest.mark.parametrize("make", [os.mkfifo, loop, dangling_link])
DECLARATIONS = ["gold/odd.py", "gold/odd.sql", "gold/odd.yml", "silver/orders.test.yml", "tests/odd.yml", "gold"]


@pytest.mark.timeout(60)
@UNREADABLE
@pytest.mark.parametrize("file", DECLARATIONS)
@pytest.mark.parametrize("run_python", [True, False])
def test_a_declaration_that_is_not_a_regular_file_is_an_error(
    file: str, make: Callable[[Path], None], run_python: bool, tmp_path: Path
) -> None:
    folder = written(tmp_path, {"tests/orders.yml": "one: {table: silver.orders, given: {}, expect: []}\n"})
    (folder / file).parent.mkdir(exist_ok=True)
    make(folder / file)
    with pytest.raises(LakesmithError) as raised:
        Lake.open(folder).validate() if run_python else Lake.review(folder)
    assert (raised.value.code, raised.value.at) == ("unreadable-file", Place(file))


@pytest.mark.timeout(60)
@UNREADABLE
def test_other_irregular_entries_do_not_stop_a_review(make: Callable[[Path], None], tmp_path: Path) -> None:
    folder = written(tmp_path, {"gold/sales.py": WRITTEN_OUT["a function"]})
    for name in ("odd", "odd.py", "access", "brnze", "caf\udce9", "silver/_odd", "silver/.odd"):
        make(folder / name)
    assert Lake.review(folder).tables == 3
    assert len(load_lake(folder).tables) == 3


@pytest.mark.timeout(60)
@UNREADABLE
def test_unreadable_rows_of_a_test_are_not_a_declaration_error(make: Callable[[Path], None], tmp_path: Path) -> None:
    folder = written(tmp_path, {"silver/rows.csv": "id\n1\n"})
    make(folder / "silver/orders.test.yml")
    assert problems(folder, {}) == [("unreadable-file", Place("silver/orders.test.yml"))]
    assert len(load_lake(folder).tables) == 2


@pytest.mark.timeout(60)
def test_modules_that_cannot_be_read_do_not_stop_a_review(tmp_path: Path) -> None:
    text = TOP + '@lake.gold()\ndef sales(orders=lake.ref("silver.orders")):\n    return orders\n'
    written(tmp_path, {"gold/sales.py": text, "shared/a.py": "A = 1\n"})
    os.mkfifo(tmp_path / "shared/pipe.py")
    (tmp_path / "shared/endless.py").symlink_to("/dev/zero")
    (tmp_path / "shared/gone.py").symlink_to("nowhere")
    assert reviewed(tmp_path, {}).not_run == ("gold/sales.py",)


def test_a_module_that_is_too_long_to_read_may_declare_tables(tmp_path: Path) -> None:
    text = "from shared import a\n" + TOP + "@lake.gold()\ndef sales(): ...\n"
    long = "#" * 1_000_001
    assert static(tmp_path, {"gold/sales.py": text, "shared/a.py": long}).unrun.layers == {"gold"}


def test_completion_runs_no_python(tmp_path: Path) -> None:
    folder = written(tmp_path, HOSTILE)
    assert "gold.sales" in Call(folder=str(folder)).table_names()
    assert canaries(folder) == set()


def invoked(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["validate", "--lake", str(folder), *arguments])


def test_the_command_reports_what_was_not_run_and_not_checked(tmp_path: Path) -> None:
    folder = written(
        tmp_path, {"gold/sales.py": COMPUTED["a name from a module"][0], "gold/more.py": COMPUTED["a loop"][0]}
    )
    lines = invoked(folder, "--no-python").stdout.splitlines()
    assert lines[1:] == [
        "not run: 2 Python files: gold/more.py, gold/sales.py",
        "not checked: whether the Python files load",
        "not checked: gold.sales, whose declaration is computed (gold/sales.py:3)",
        "not checked: whether gold has more tables",
        "not checked: stored tables and recorded contracts",
    ]
    report = json.loads(invoked(folder, "--no-python", "--json").stdout)
    assert (report["not_run"], len(report["not_checked"])) == (["gold/more.py", "gold/sales.py"], 4)
    whole = json.loads(invoked(written(tmp_path / "other", {}), "--json").stdout)
    assert (whole["not_run"], whole["not_checked"]) == ([], [])
