"""The aggregates that new rows alone can update, and their correctness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plan.lakes import named, sql

from lakesmith.sqlproof.binding import bind
from lakesmith.sqlproof.query import Sums, sums

COMBINABLE = [
    ("SELECT k, count(*) AS n FROM silver.o GROUP BY k", ["k"], {"n": "add"}),
    (
        "SELECT k, j, count(x) AS n, sum(x * 2) AS s, min(x) AS lo, MAX(x) AS hi FROM silver.o WHERE x > 0"
        " GROUP BY 2, 1",
        ["k", "j"],
        {"n": "add", "s": "add", "lo": "least", "hi": "greatest"},
    ),
    ("SELECT k + j AS key, sum(x) AS s FROM silver.o AS o GROUP BY o.k + o.j", ["key"], {"s": "add"}),
    ("SELECT k + j AS key, sum(x) AS s FROM silver.o GROUP BY KEY", ["key"], {"s": "add"}),
    ("SELECT k, 'all' AS kind, max(x) AS hi FROM silver.o GROUP BY ALL", ["k", "kind"], {"hi": "greatest"}),
    ("SELECT k, 'all' AS kind, max(x) AS hi FROM silver.o GROUP BY k", ["K", "kind"], {"hi": "greatest"}),
    (
        "WITH p AS (SELECT k, x FROM silver.o WHERE j > 1) SELECT p.k, sum(x) FILTER (WHERE x > 1) AS s,"
        " count_if(x > 2) AS n FROM p GROUP BY p.k",
        ["k"],
        {"s": "add", "n": "add"},
    ),
    ("SELECT silver.o.k, min(x) AS lo FROM silver.o GROUP BY o.k", ["k"], {"lo": "least"}),
]


@pytest.mark.parametrize(("text", "key", "combine"), COMBINABLE, ids=range(len(COMBINABLE)))
def test_sums_counts_and_bounds_are_combined(text: str, key: Sequence[str], combine: dict[str, str]) -> None:
    found = sums(sql(text), key)
    assert isinstance(found, Sums), found
    assert found.combine == combine
    assert set(found.exact_only_for) == {"s"} & set(combine)


REJECTED = [
    ("SELECT k, avg(x) AS a FROM silver.o GROUP BY k", "'a' cannot be updated from new rows"),
    ("SELECT k, count(DISTINCT x) AS n FROM silver.o GROUP BY k", "'n' cannot be updated from new rows"),
    ("SELECT k, sum(DISTINCT x) AS n FROM silver.o GROUP BY k", "'n' cannot be updated from new rows"),
    ("SELECT k, sum(x) / count(*) AS a FROM silver.o GROUP BY k", "'a' cannot be updated from new rows"),
    ("SELECT k, sum(x) + 1 AS a FROM silver.o GROUP BY k", "'a' cannot be updated from new rows"),
    ("SELECT k, j, sum(x) AS s FROM silver.o GROUP BY k, j", "it groups by more than the key: j (GROUP BY, line 1)"),
    ("SELECT k, sum(x) AS s FROM silver.o GROUP BY k, j", "it groups by more than the key: j (GROUP BY, line 1)"),
    ("SELECT k, j, sum(x) AS s FROM silver.o GROUP BY ALL", "'j' cannot be updated from new rows"),
    ("SELECT upper(k) AS k, sum(x) AS s FROM silver.o GROUP BY k", "it groups by more than the key: k (GROUP BY"),
    ("SELECT upper(j) AS k, sum(x) AS s FROM silver.o GROUP BY j", "it groups by more than the key: j (GROUP BY"),
    ("SELECT k, sum(x) AS s FROM silver.o GROUP BY CUBE (k)", "it groups by several sets of columns"),
    ("SELECT max(k) AS k, sum(x) AS s FROM silver.o GROUP BY j", "'k' is an aggregate (line 1)"),
    ("SELECT j, sum(x) AS s FROM silver.o GROUP BY j", "it has no column 'k'"),
    (
        "SELECT k, sum(x) AS s FROM silver.o GROUP BY k\nHAVING sum(x) > 3",
        "new rows may bring back a group that it excludes (HAVING, line 2)",
    ),
    ("SELECT o.k, sum(x) AS s FROM silver.o JOIN silver.c ON o.c = c.id GROUP BY o.k", "it joins silver.c (line 1)"),
    ("SELECT k, x AS s FROM silver.o", "it does not group by its key"),
    ("SELECT 1 AS k, sum(x) AS s FROM silver.o", "it aggregates over all rows"),
    ("SELECT k, sum(x) AS s FROM silver.o WHERE t < now() GROUP BY k", "now() differs at each evaluation (line 1)"),
    ("SELECT k, sum(x) AS s FROM silver.o GROUP BY k LIMIT 1", "which rows it returns depends on all rows"),
    (
        "SELECT k, sum(x) AS s, rank() OVER (ORDER BY k) AS r FROM silver.o GROUP BY k",
        "it uses a window function (line 1)",
    ),
    (
        "SELECT k, sum(n) AS s FROM (SELECT DISTINCT k, n FROM silver.o) AS o GROUP BY k",
        "it reads o, which does not work row by row",
    ),
    (
        "SELECT k, sum((SELECT max(x) FROM silver.c)) AS s FROM silver.o GROUP BY k",
        "it has a subquery in an expression",
    ),
    (
        "SELECT k, count(*) AS n FROM silver.o GROUP BY k UNION ALL SELECT k, count(*) AS n FROM silver.c GROUP BY k",
        "it combines several queries (UNION, line 1)",
    ),
]


@pytest.mark.parametrize(("text", "because"), REJECTED, ids=range(len(REJECTED)))
def test_a_group_that_new_rows_cannot_update_has_a_reason(text: str, because: str) -> None:
    found = sums(sql(text), ["k"])
    assert isinstance(found, str), found
    assert found.startswith(because)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        opened.execute("CREATE TABLE o (k INT, j INT, x INT)")
        yield opened


Row = tuple[Any, ...]
Table = dict[Row, dict[str, Any]]
value = st.sampled_from([None, 0, 1, 2, 3])
batches = st.lists(st.lists(st.tuples(value, value, value), max_size=4), max_size=4)


def computed(connection: duckdb.DuckDBPyConnection, text: str, key: Sequence[str], rows: Sequence[Row]) -> Table:
    connection.execute("DELETE FROM o")
    if rows:
        connection.execute(f"INSERT INTO o VALUES {', '.join(map(str, rows))}".replace("None", "NULL"))
    bound = bind(sql(text), {named("silver.o"): "o"})
    answer = connection.execute(sqlglot.transpile(bound, read="spark", write="duckdb")[0])
    names = [column[0] for column in answer.description]
    low = [name.lower() for name in key]
    found = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    table = {tuple(row[name] for name in low): {n: v for n, v in row.items() if n not in low} for row in found}
    assert len(table) == len(found)
    return table


def combined(old: Any, new: Any, how: str) -> Any:
    if old is None or new is None:
        return new if old is None else old
    return {"add": old + new, "least": min(old, new), "greatest": max(old, new)}[how]


@pytest.mark.parametrize(("text", "key", "combine"), COMBINABLE, ids=range(len(COMBINABLE)))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=batches)
def test_combined_batches_equal_a_full_build(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    key: Sequence[str],
    combine: dict[str, str],
    parts: Sequence[Sequence[Row]],
) -> None:
    table: Table = {}
    for part in parts:
        for one, row in computed(connection, text, key, part).items():
            old = table.get(one)
            table[one] = row if old is None else {n: combined(old[n], row[n], combine[n]) for n in row}
    assert table == computed(connection, text, key, [row for part in parts for row in part])
