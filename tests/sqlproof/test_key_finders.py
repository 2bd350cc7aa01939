"""The keys that changed rows touch: the queries that find them, and that none is missed."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plan.lakes import named, sql

from lakesmith.declare import TableName
from lakesmith.jvm.session import isolated
from lakesmith.sqlproof.binding import bind
from lakesmith.sqlproof.query import KeyFinder, key_finder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"o": ("id", "c", "p", "x"), "c": ("id", "region", "p"), "p": ("id", "kind", "z")}

FOLLOWED = {
    "one table": ("SELECT c, sum(x) AS s, count(*) AS n FROM silver.o WHERE p > 0 GROUP BY c", ["c"]),
    "having": ("SELECT c, p, max(x) AS m FROM silver.o GROUP BY 1, 2 HAVING count(*) > 1 ORDER BY 1", ["c", "p"]),
    "group all": ("SELECT o.c % 2 AS k, avg(x) AS a FROM silver.o AS o GROUP BY ALL", ["k"]),
    "star without a column": ("SELECT * EXCEPT (x) FROM silver.o", ["id"]),
    "distinct": ("SELECT DISTINCT c, p FROM silver.o", ["c"]),
    "no group": ("SELECT * FROM silver.o WHERE x > 1", ["id"]),
    "inner join": (
        "SELECT region, sum(x) AS s FROM silver.o JOIN silver.c ON o.c = c.id GROUP BY region",
        ["region"],
    ),
    "qualified by layer": (
        "SELECT silver.c.region, count(*) AS n FROM silver.o LEFT JOIN silver.c ON o.c = silver.c.id"
        " GROUP BY silver.c.region",
        ["region"],
    ),
    "left join for values": (
        "SELECT o.id, max(c.region) AS r, count(p.z) AS z FROM silver.o o\n"
        "LEFT JOIN silver.c c ON o.c = c.id -- who\nLEFT OUTER JOIN silver.p p ON o.p = p.id GROUP BY o.id",
        ["id"],
    ),
    "left join of the key": (
        "SELECT coalesce(c.region, -1) AS region, count(*) AS n FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id"
        " GROUP BY coalesce(c.region, -1)",
        ["region"],
    ),
    "two left joins of the key": (
        "SELECT coalesce(c.region, -1) AS r, coalesce(p.kind, -1) AS k, sum(o.x) AS s FROM silver.o o"
        " LEFT JOIN silver.c c ON o.c = c.id LEFT JOIN silver.p p ON o.p = p.id GROUP BY ALL",
        ["r", "k"],
    ),
    "chain of left joins": (
        "SELECT o.id, coalesce(p.kind, c.region, -1) AS k, count(*) AS n FROM silver.o o"
        " LEFT JOIN silver.c c ON o.c = c.id AND c.p > 0 LEFT JOIN silver.p p ON p.id = coalesce(c.p, o.p)"
        " GROUP BY 1, 2",
        ["id", "k"],
    ),
    "inner join after a left join": (
        "SELECT p.kind, count(c.id) AS n FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id"
        " JOIN silver.p p ON p.id <=> c.p GROUP BY p.kind",
        ["kind"],
    ),
    "where nothing was joined": (
        "SELECT o.id, o.x FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id WHERE c.id IS NULL OR c.region > 1",
        ["id"],
    ),
    "nothing was joined twice": (
        "SELECT o.id, count(*) AS n FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id"
        " LEFT JOIN silver.p p ON p.id = o.p WHERE c.id IS NULL AND p.id IS NULL GROUP BY o.id",
        ["id"],
    ),
    "semi join": ("SELECT o.id, o.x FROM silver.o o LEFT SEMI JOIN silver.c c ON o.c = c.id AND c.p > 0", ["id"]),
    "anti joins": (
        "SELECT o.c, count(*) AS n FROM silver.o o LEFT ANTI JOIN silver.c c ON o.c = c.id"
        " LEFT ANTI JOIN silver.p p ON o.p = p.id GROUP BY o.c",
        ["c"],
    ),
    "anti join after a left join": (
        "SELECT o.id, c.region FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id"
        " LEFT ANTI JOIN silver.p p ON p.id <=> c.p",
        ["id"],
    ),
    "using": (
        "SELECT id, sum(o.x) AS s, max(p.z) AS z FROM silver.o JOIN silver.c USING (id) LEFT JOIN silver.p USING (id)"
        " GROUP BY id",
        ["id"],
    ),
    "star of one table": ("SELECT o.*, c.region FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id", ["id"]),
    "key out of the other star": (
        "SELECT o.x, c.* FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id WHERE o.x IS NOT NULL",
        ["region"],
    ),
    "window": (
        "SELECT id, x, row_number() OVER (PARTITION BY o.id, c ORDER BY x, p) AS r FROM silver.o",
        ["id"],
    ),
    "latest by a subquery": (
        "SELECT id, x FROM (SELECT *, rank() OVER (PARTITION BY id ORDER BY x DESC) AS r FROM silver.o) AS o"
        " WHERE r = 1",
        ["id"],
    ),
    "rowwise queries between": (
        "WITH a AS (SELECT id, c + 1 AS c, x FROM silver.o WHERE x > 0), b AS (SELECT * FROM a WHERE c < 4)\n"
        "SELECT b.c, count(d.region) AS n FROM b LEFT JOIN (SELECT id, region FROM silver.c WHERE p > 0) AS d"
        " ON d.id = b.c WHERE d.region IS NULL OR d.region > 0 GROUP BY b.c",
        ["c"],
    ),
    "join of an aggregate": (
        "WITH t AS (SELECT c, sum(x) AS s FROM silver.o WHERE x > 0 GROUP BY c HAVING count(*) < 3)\n"
        "SELECT c.id, t.s, c.region FROM silver.c c JOIN t ON t.c = c.id WHERE t.s > 1",
        ["id"],
    ),
    "left join of an aggregate": (
        "SELECT c.id, max(t.s) AS s, count(*) AS n FROM silver.c c\n"
        "LEFT JOIN (SELECT o.c, sum(p.z) AS s FROM silver.o o LEFT JOIN silver.p p ON o.p = p.id GROUP BY o.c) t"
        " ON t.c = c.id GROUP BY c.id",
        ["id"],
    ),
    "aggregate of an aggregate": (
        "WITH t AS (SELECT c, p, sum(x) AS s FROM silver.o GROUP BY c, p) SELECT p, max(s) AS m FROM t GROUP BY p",
        ["p"],
    ),
    "filtered aggregate of a left join": (
        "WITH t AS (SELECT coalesce(c.region, -1) AS r, o.p, count(*) AS n FROM silver.o o LEFT JOIN silver.c c"
        " ON o.c = c.id GROUP BY ALL) SELECT r, p, n * 2 AS n FROM t WHERE n > 1 AND p > 0",
        ["r", "p"],
    ),
    "union all": (
        "SELECT id, 1 AS kind, x FROM silver.o UNION ALL (SELECT c.id AS i, 2, p.z FROM silver.c c LEFT JOIN silver.p p"
        " ON c.p = p.id) UNION ALL SELECT o.x, 3, o.p FROM silver.o o",
        ["id", "kind"],
    ),
    "union in a query between": (
        "SELECT k, count(*) AS n FROM (SELECT c AS k FROM silver.o UNION SELECT region FROM silver.c) u GROUP BY k",
        ["k"],
    ),
    "lateral view": (
        "SELECT item, count(c.id) AS n FROM silver.o o LEFT JOIN silver.c c ON o.c = c.id"
        " LATERAL VIEW explode(array(o.x, o.p)) t AS item WHERE item > 0 GROUP BY item",
        ["item"],
    ),
}


def finder(text: str, key: Sequence[str]) -> KeyFinder:
    found = key_finder(sql(text), key)
    assert isinstance(found, KeyFinder), found
    return found


@functools.cache
def in_duckdb(text: str, views: tuple[tuple[TableName, str], ...]) -> str:
    return sqlglot.transpile(bind(sql(text), dict(views)), read="spark", write="duckdb")[0]


Row = tuple[object, ...]


@dataclass
class Changing:
    """Tables with rows before, after or both; each state is a view."""

    connection: duckdb.DuckDBPyConnection

    def __post_init__(self) -> None:
        for table, columns in COLUMNS.items():
            self.connection.execute(f"CREATE TABLE {table} ({' INT, '.join(columns)} INT, was BOOLEAN, is_ BOOLEAN)")
            for way, condition in (("old", "was"), ("new", "is_"), ("any", "TRUE"), ("changed", "was <> is_")):
                self.connection.execute(
                    f"CREATE VIEW {table}_{way} AS SELECT {', '.join(columns)} FROM {table} WHERE {condition}"
                )

    def fill(self, rows: Mapping[str, Sequence[Row]]) -> None:
        for table, given_rows in rows.items():
            self.connection.execute(f"DELETE FROM {table}")
            if given_rows:
                values = ", ".join(str(tuple(row)).replace("None", "NULL") for row in given_rows)
                self.connection.execute(f"INSERT INTO {table} VALUES {values}")

    def ask(self, text: str, way: str, changed: str | None = None) -> tuple[list[str], list[Row]]:
        views = tuple((named(f"silver.{t}"), f"{t}_changed" if t == changed else f"{t}_{way}") for t in COLUMNS)
        answer = self.connection.execute(in_duckdb(text, views))
        return [column[0] for column in answer.description], answer.fetchall()


def by_key(keys: tuple[list[str], list[Row]], key: Sequence[str]) -> dict[Row, Counter[Row]]:
    names, rows = keys
    places = [names.index(name) for name in key]
    found: dict[Row, Counter[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[place] for place in places), Counter())[row] += 1
    return found


@pytest.fixture(scope="module")
def changing() -> Iterator[Changing]:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        yield Changing(connection)


def some_rows(columns: Sequence[str]) -> st.SearchStrategy[list[Row]]:
    value = st.sampled_from([None, 0, 1, 2, 3])
    there = st.sampled_from([(True, True), (True, True), (True, False), (False, True)])
    row = st.tuples(st.tuples(*(value for _ in columns)), there).map(lambda both: (*both[0], *both[1]))
    return st.lists(row, max_size=6)


some_tables = st.fixed_dictionaries({table: some_rows(columns) for table, columns in COLUMNS.items()})


@pytest.mark.parametrize("case", FOLLOWED)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=some_tables)
def test_no_changed_key_is_missed(changing: Changing, case: str, rows: Mapping[str, Sequence[Row]]) -> None:
    text, key = FOLLOWED[case]
    changing.fill(rows)
    before, after = (by_key(changing.ask(text, way), key) for way in ("old", "new"))
    found = {
        row
        for table, query in finder(text, key).queries.items()
        for row in changing.ask(query.text, "any", table.name)[1]
    }
    missed = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)} - found
    assert missed == set()
    unchanged = {one: rows_ for one, rows_ in before.items() if one not in found}
    recomputed = {one: rows_ for one, rows_ in after.items() if one in found}
    assert {**unchanged, **recomputed} == after


@pytest.mark.parametrize("case", ["nothing was joined twice", "two left joins of the key", "anti joins"])
def test_a_key_is_found_when_two_tables_get_the_missing_row(changing: Changing, case: str) -> None:
    text, key = FOLLOWED[case]
    changing.fill({"o": [(1, 2, 3, 1, True, True)], "c": [(2, 5, 0, False, True)], "p": [(3, 6, 0, False, True)]})
    (before,) = by_key(changing.ask(text, "old"), key)
    queries = finder(text, key).queries
    found = {row for table, query in queries.items() for row in changing.ask(query.text, "any", table.name)[1]}
    assert before in found


def test_the_changed_rows_of_each_table_find_few_keys(changing: Changing) -> None:
    text, key = FOLLOWED["left join of the key"]
    orders = [(n, n, 0, 1, True, True) for n in range(10)]
    customers = [(n, n * 10, 0, True, True) for n in range(8)]
    changing.fill({"o": [*orders, (11, 3, 0, 1, False, True)], "c": customers, "p": []})
    queries = finder(text, key).queries
    keys = {table.name: changing.ask(query.text, "any", table.name)[1] for table, query in queries.items()}
    assert keys == {"o": [(30,)], "c": []}
    changing.fill({"o": orders, "c": [*customers, (8, 80, 0, False, True)], "p": []})
    keys = {table.name: sorted(changing.ask(q.text, "any", table.name)[1]) for table, q in queries.items()}
    assert keys == {"o": [], "c": [(-1,), (80,)]}


def test_a_key_finder_uses_the_expressions_of_the_query() -> None:
    text = (
        "SELECT o.a DIV 2 AS k, /* all */ sum(o.x) AS s\nFROM silver.o AS o -- orders\n"
        "LEFT JOIN silver.c AS c ON c.id = o.c LEFT JOIN silver.p ON p.id = o.p\n"
        "WHERE o.x IS DISTINCT FROM 3 AND o.y BETWEEN 1 AND 2 GROUP BY k HAVING sum(o.x) > 2 ORDER BY k;"
    )
    queries = finder(text, ["k"]).queries
    keys = "SELECT DISTINCT o.a DIV 2 AS `k` FROM silver.o AS o"
    where = "WHERE o.x IS DISTINCT FROM 3 AND o.y BETWEEN 1 AND 2"
    assert {str(table): query.text for table, query in queries.items()} == {
        "silver.o": f"{keys} {where}",
        "silver.c": f"{keys} INNER JOIN silver.c AS c ON c.id = o.c {where}",
        "silver.p": f"{keys} INNER JOIN silver.p ON p.id = o.p {where}",
    }


REJECTED = [
    ("SELECT id, now() AS t FROM silver.o", "now() differs at each evaluation (line 1)"),
    ("SELECT id FROM silver.o LIMIT 3", "which rows it returns depends on all rows (LIMIT, line 1)"),
    ("SELECT 1 AS id, count(*) AS n FROM silver.o", "it aggregates over all rows"),
    ("SELECT max(id) AS id FROM silver.o GROUP BY c", "'id' is an aggregate (line 1)"),
    ("SELECT c FROM silver.o", "it has no column 'id'"),
    ("SELECT * EXCEPT (id) FROM silver.o", "it has no column 'id'"),
    (
        "SELECT * FROM silver.o JOIN silver.c ON o.c = c.id",
        "a * over several tables hides 'id': name the column in the SELECT",
    ),
    (
        "SELECT id, count(*) AS n FROM silver.o GROUP BY ROLLUP (id)",
        "it groups by several sets of columns (ROLLUP, CUBE or GROUPING SETS, line 1)",
    ),
    (
        "SELECT id, count(*) AS n FROM silver.o GROUP BY id WITH CUBE",
        "it groups by several sets of columns (ROLLUP, CUBE or GROUPING SETS, line 1)",
    ),
    (
        "SELECT o.id FROM silver.o\nRIGHT JOIN silver.c ON o.c = c.id",
        "its join keeps unmatched rows of silver.c: write it as a LEFT JOIN (RIGHT JOIN, line 2)",
    ),
    (
        "SELECT o.id FROM silver.o\nFULL JOIN silver.c ON o.c = c.id",
        "its join keeps unmatched rows of silver.c (FULL JOIN, line 2)",
    ),
    (
        "SELECT o.id FROM silver.o CROSS JOIN silver.c",
        "it joins silver.c without a condition, so each of its rows touches every key (line 1)",
    ),
    (
        "SELECT o.id FROM silver.o, silver.c WHERE o.c = c.id",
        "it joins silver.c without a condition, so each of its rows touches every key (line 1)",
    ),
    (
        "SELECT id FROM silver.o NATURAL JOIN silver.c",
        "it joins silver.c by implicit columns (NATURAL, line 1)",
    ),
    (
        "SELECT o.id FROM silver.o JOIN LATERAL (SELECT max(id) AS m FROM silver.c WHERE c.id = o.c) AS l ON l.m = 1",
        "it joins a LATERAL query, which is not supported (LATERAL, line 1)",
    ),
    ("SELECT o.id FROM silver.o JOIN silver.o AS q ON o.c = q.id", "it reads silver.o more than once (line 1)"),
    (
        "SELECT id FROM silver.o WHERE c NOT IN (SELECT id FROM silver.c)",
        "it has a subquery in an expression (line 1)",
    ),
    (
        "SELECT id, (SELECT max(id) FROM silver.c) AS m FROM silver.o",
        "it has a subquery in an expression (line 1)",
    ),
    (
        "SELECT id, rank() OVER (PARTITION BY c ORDER BY x) AS r FROM silver.o",
        "a window function reads rows of other keys: PARTITION BY lacks 'id' (line 1)",
    ),
    (
        "SELECT id, rank() OVER w AS r FROM silver.o WINDOW w AS (PARTITION BY c)",
        "a window function reads rows of other keys: PARTITION BY lacks 'id' (line 1)",
    ),
    ("SELECT row_number() OVER (ORDER BY x) AS id FROM silver.o", "'id' comes from a window function (line 1)"),
    ("SELECT explode(ids) AS id FROM silver.o", "'id' comes from a generator (line 1)"),
    (
        "SELECT id FROM silver.o LEFT JOIN silver.c ON o.c = c.k",
        "the table of 'id' is ambiguous: write table.id (line 1)",
    ),
    (
        "SELECT upper(c) AS k, k AS id FROM silver.o",
        "'id' reads 'k', which is also the name of another result column (line 1)",
    ),
    (
        "SELECT id FROM silver.o EXCEPT SELECT id FROM silver.c",
        "it combines queries by something else than UNION",
    ),
    (
        "SELECT id FROM silver.o UNION ALL SELECT id FROM silver.c LIMIT 1",
        "which rows it returns depends on all rows (LIMIT, line 1)",
    ),
    (
        "SELECT id FROM silver.o UNION ALL SELECT * FROM silver.c",
        "a * hides the columns of a part of the UNION: name all columns",
    ),
    ("SELECT id FROM VALUES (1), (2) AS v(id)", "it reads no table"),
    (
        "SELECT o.id FROM silver.o JOIN (VALUES (1), (2)) AS v(k) ON v.k = o.c",
        "it reads VALUES, not a table (line 1)",
    ),
    (
        "SELECT o.id FROM silver.o JOIN (SELECT k FROM silver.c LIMIT 5) AS c ON o.c = c.k",
        "which rows it returns depends on all rows (LIMIT, line 1)",
    ),
    (
        "SELECT o.id FROM silver.o JOIN (SELECT max(k) AS k FROM silver.c GROUP BY g) AS c ON o.c = c.k",
        "'k' is an aggregate (line 1)",
    ),
    (
        "SELECT o.id FROM silver.o LEFT JOIN (SELECT k, max(x) AS m FROM silver.c GROUP BY k) AS c ON o.c = c.k"
        " JOIN silver.p ON p.id = c.k",
        "its key, filters or joins read the outer join of c, which is a subquery (line 1)",
    ),
    (
        "WITH RECURSIVE t AS (SELECT id FROM silver.o UNION ALL SELECT id + 1 FROM t WHERE id < 9) SELECT id FROM t",
        "it is not a plain SELECT (RECURSIVE)",
    ),
    ("FROM silver.o |> SELECT id", "it uses pipe syntax, which is not supported (|>)"),
    ("FROM silver.o SELECT id", "the layout of its text is not supported"),
    (
        "SELECT id FROM silver.o PIVOT (sum(x) FOR c IN (1, 2))",
        "it pivots or unpivots (PIVOT, line 1)",
    ),
]


@pytest.mark.parametrize(("text", "because"), REJECTED, ids=range(len(REJECTED)))
def test_a_query_without_findable_keys_has_a_reason(text: str, because: str) -> None:
    assert key_finder(sql(text), ["id"]) == because


def test_the_reason_has_the_line_of_the_file() -> None:
    text = "SELECT id\nFROM silver.o\nLIMIT 3"
    assert str(key_finder(sql(text, line=7), ["id"])).endswith("(LIMIT, line 9)")


ROWS = """
SELECT CAST(id AS INT) AS id, CAST(id % 4 AS INT) AS c, CAST(id % 3 AS INT) AS p, CAST(id % 5 AS INT) AS x,
  CAST(id % 3 AS INT) AS region, CAST(id % 2 AS INT) AS kind, CAST(id % 7 AS INT) AS z, id % 5 <> 1 AS was,
  id % 6 <> 2 AS is_
FROM range({first}, {last})
"""


@pytest.fixture(scope="module")
def views(shared_spark: SparkSession) -> SparkSession:
    spark = isolated(shared_spark)
    for table, (first, last) in {"o": (0, 20), "c": (0, 3), "p": (1, 4)}.items():
        rows = spark.sql(ROWS.format(first=first, last=last))
        for way, condition in (("old", "was"), ("new", "is_"), ("any", "TRUE"), ("changed", "was <> is_")):
            rows.where(condition).select(*COLUMNS[table]).createOrReplaceTempView(f"{table}_{way}")
    return spark


@pytest.mark.spark
@pytest.mark.parametrize("case", list(FOLLOWED)[::4])  # DuckDB has them all
def test_no_changed_key_is_missed_on_spark(views: SparkSession, case: str) -> None:
    text, key = FOLLOWED[case]

    def ask(keys: str, way: str, changed: str | None = None) -> tuple[list[str], list[Row]]:
        names = {named(f"silver.{t}"): f"{t}_changed" if t == changed else f"{t}_{way}" for t in COLUMNS}
        answer = views.sql(bind(sql(keys), names))
        return answer.columns, [tuple(row) for row in answer.collect()]

    before, after = (by_key(ask(text, way), key) for way in ("old", "new"))
    queries = finder(text, key).queries
    found = {row for table, query in queries.items() for row in ask(query.text, "any", table.name)[1]}
    assert found
    assert {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)} <= found
