"""What is known from a query's text without running it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plan.lakes import column, columns, made, named, python, sql
from tests.plan.queries import ROWWISE, TRACED

from lakesmith.declare import Append, Changes, Check, Load, Merge, ReplacePartitions, Scd2, Snapshot
from lakesmith.declare.checks import BatchSql, RowSql
from lakesmith.errors import DeclarationError, LakesmithError, Place
from lakesmith.sqlproof.binding import bind
from lakesmith.sqlproof.column_checks import check_columns, check_conditions
from lakesmith.sqlproof.functions import AGGREGATES, CHANGING
from lakesmith.sqlproof.query import (
    PartitionTrace,
    given_columns,
    output_columns,
    partition_source,
    partition_trace,
    read_query,
    rowwise,
    table_columns,
)

NOT_ROWWISE = {
    "SELECT day, sum(x) AS s FROM bronze.orders\nGROUP BY day": "it aggregates (GROUP BY, line 2)",
    "SELECT count(*) AS n FROM bronze.orders": "it aggregates (count(), line 1)",
    "SELECT max_by(a, b) AS n FROM bronze.orders": "it aggregates (max_by(), line 1)",
    "SELECT o.id FROM bronze.orders o\nJOIN silver.customers c ON o.k = c.k": ("it joins silver.customers (line 2)"),
    "SELECT o.id FROM bronze.orders o, silver.customers c": "it joins silver.customers (line 1)",
    "SELECT o.id FROM bronze.orders o JOIN bronze.orders p ON o.id = p.id": "it joins bronze.orders (line 1)",
    "SELECT id, row_number() OVER (ORDER BY id) AS n FROM bronze.orders": ("it uses a window function (line 1)"),
    "SELECT DISTINCT id FROM bronze.orders": "it removes duplicate rows (DISTINCT, line 1)",
    "SELECT id FROM bronze.orders\nLIMIT 10": "it returns only some rows (LIMIT, line 2)",
    "(SELECT id FROM bronze.orders) LIMIT 10": "it returns only some rows (LIMIT, line 1)",
    "SELECT id FROM bronze.orders OFFSET 10": "it returns only some rows (OFFSET, line 1)",
    "SELECT id FROM bronze.orders WHERE id IN (SELECT id FROM silver.x)": "it has a subquery (line 1)",
    "SELECT id FROM bronze.orders o WHERE EXISTS (SELECT 1 FROM silver.x WHERE x.id = o.id)": (
        "it has a subquery (line 1)"
    ),
    "SELECT id, (SELECT max(y) FROM silver.x) AS m FROM bronze.orders": "it has a subquery (line 1)",
    "SELECT id FROM bronze.orders\nUNION ALL\nSELECT id FROM bronze.b": ("it combines several queries (UNION, line 2)"),
    "SELECT id FROM bronze.orders EXCEPT SELECT id FROM bronze.b": ("it combines several queries (EXCEPT, line 1)"),
    "SELECT id, rand() AS r FROM bronze.orders": "rand() differs at each evaluation (line 1)",
    "SELECT id, uuid() AS r FROM bronze.orders": "uuid() differs at each evaluation (line 1)",
    "SELECT id, current_timestamp() AS t FROM bronze.orders": (
        "current_timestamp() differs at each evaluation (line 1)"
    ),
    "SELECT id FROM bronze.orders WHERE day > current_date - 7": ("current_date() differs at each evaluation (line 1)"),
    "SELECT id, unix_timestamp() AS t FROM bronze.orders": ("unix_timestamp() differs at each evaluation (line 1)"),
    "SELECT 1 AS one": "it reads no table",
    "SELECT a FROM VALUES (1), (2) AS v(a)": "it reads VALUES, not a table (line 1)",
    "SELECT id FROM range(10)": "it reads range(), not a table (line 1)",
    "SELECT * FROM bronze.orders PIVOT (sum(x) FOR y IN (1, 2))": ("it pivots or unpivots (PIVOT, line 1)"),
    "WITH o AS (SELECT DISTINCT id FROM bronze.orders) SELECT id FROM o": (
        "it removes duplicate rows (DISTINCT, line 1)"
    ),
    "SELECT id FROM (SELECT id FROM bronze.orders LIMIT 3)": "it returns only some rows (LIMIT, line 1)",
    "FROM bronze.orders |> WHERE id > 1 |> SELECT id": ("it uses pipe syntax, which is not supported (|>)"),
}


@pytest.mark.parametrize("text", ROWWISE)
def test_a_query_over_one_row_at_a_time_is_rowwise(text: str) -> None:
    assert read_query(sql(text)).not_rowwise_reason is None


@pytest.mark.parametrize(("text", "reason"), NOT_ROWWISE.items())
def test_a_query_that_needs_more_than_one_row_says_why(text: str, reason: str) -> None:
    found = read_query(sql(text))
    assert (found.rowwise, found.not_rowwise_reason) == (False, reason)


def call(function: str) -> str:
    """Return a call with the number of arguments that the parser requires."""
    if function.startswith(("current_", "session_")):
        return f"{function}()"
    two = function.startswith(("corr", "covar_", "regr_", "uniform"))
    return f"{function}(x, y)" if two else f"{function}(x)"


@pytest.mark.parametrize("function", sorted(AGGREGATES | CHANGING))
def test_aggregates_and_nondeterministic_functions_are_not_rowwise(function: str) -> None:
    assert not read_query(sql(f"SELECT {call(function)} AS z FROM bronze.orders")).rowwise


@pytest.mark.parametrize("function", sorted(AGGREGATES - {"grouping", "grouping_id"}))
def test_a_partition_computed_by_an_aggregate_is_never_traced(function: str) -> None:
    text = f"SELECT {call(function)} AS day, k FROM silver.orders GROUP BY k"
    assert partition_trace(sql(text), "day") == "'day' is an aggregate (line 1)"


def test_lines_in_reasons_are_lines_of_the_file() -> None:
    query = sql("SELECT day, sum(x) AS s\nFROM bronze.orders\nGROUP BY day", line=12)
    assert read_query(query).not_rowwise_reason == "it aggregates (GROUP BY, line 14)"


@pytest.mark.parametrize(("text", "expression"), TRACED)
def test_a_partition_is_traced_to_the_table_that_decides_it(text: str, expression: str) -> None:
    found = partition_trace(sql(text), "day")
    assert found == PartitionTrace(table=named("silver.orders"), expression=expression)


UNTRACED = {
    "SELECT k, sum(x) AS s FROM silver.orders GROUP BY k": "it has no column 'day'",
    "SELECT max(day) AS day, k FROM silver.orders GROUP BY k": "'day' is an aggregate (line 1)",
    "SELECT day, sum(x) AS s FROM silver.orders": "it aggregates over all rows",
    "SELECT day, k, sum(x) AS s FROM silver.orders GROUP BY ROLLUP (day, k)": (
        "it groups by several sets of columns (ROLLUP, CUBE or GROUPING SETS, line 1)"
    ),
    "SELECT day, sum(x) AS s FROM silver.orders GROUP BY day WITH ROLLUP": (
        "it groups by several sets of columns (ROLLUP, CUBE or GROUPING SETS, line 1)"
    ),
    "SELECT day, sum(x) AS s FROM silver.orders GROUP BY day, CUBE (k)": (
        "it groups by several sets of columns (ROLLUP, CUBE or GROUPING SETS, line 1)"
    ),
    "SELECT day, sum(x) OVER w AS s FROM silver.orders WINDOW w AS (PARTITION BY day)": (
        "a window function reads rows of other partitions: PARTITION BY lacks 'day' (line 1)"
    ),
    "SELECT a.d AS day, count(*) AS n FROM (SELECT d, k FROM silver.orders) a GROUP BY a.k": (
        "it does not group by 'day' (GROUP BY, line 1)"
    ),
    "SELECT day FROM silver.orders LIMIT 5": "which rows it returns depends on all rows (LIMIT, line 1)",
    "SELECT day FROM silver.orders UNION ALL SELECT day FROM silver.c": ("it combines several queries (UNION, line 1)"),
    "SELECT o.day FROM silver.c c LEFT JOIN silver.orders o ON o.k = c.k": (
        "'day' comes from silver.orders, whose rows an outer join may replace by NULL (line 1)"
    ),
    "SELECT o.day FROM silver.orders o FULL JOIN silver.c c ON o.k = c.k": (
        "'day' comes from silver.orders, whose rows an outer join may replace by NULL (line 1)"
    ),
    "SELECT coalesce(o.day, c.day) AS day FROM silver.orders o JOIN silver.c c ON o.k = c.k": (
        "'day' reads columns of silver.c and silver.orders (line 1)"
    ),
    "SELECT day FROM silver.orders o JOIN silver.c c ON o.k = c.k": (
        "the table of 'day' is ambiguous: write table.day (line 1)"
    ),
    "SELECT o.day, rank() OVER (PARTITION BY o.k ORDER BY o.x) AS r FROM silver.orders o": (
        "a window function reads rows of other partitions: PARTITION BY lacks 'day' (line 1)"
    ),
    "SELECT o.day FROM silver.orders o JOIN silver.orders p ON o.k = p.k": ("it reads silver.orders more than once"),
    "SELECT day FROM silver.orders WHERE x > (SELECT avg(x) FROM silver.orders)": (
        "it reads silver.orders more than once"
    ),
    "WITH o AS (SELECT day, k FROM silver.orders) SELECT a.day FROM o a JOIN o b ON a.k = b.k": (
        "it reads silver.orders more than once"
    ),
    "SELECT current_date() AS day FROM silver.orders": "current_date() differs at each evaluation (line 1)",
    "SELECT day FROM silver.orders WHERE day > current_date() - 7": (
        "current_date() differs at each evaluation (line 1)"
    ),
    "SELECT 'all' AS day FROM silver.orders": "'day' reads no column (line 1)",
    "SELECT explode(days) AS day FROM silver.orders": "'day' comes from a generator (line 1)",
    "SELECT t.day FROM silver.orders LATERAL VIEW explode(days) t AS day": ("'day' comes from a generator (line 1)"),
    "SELECT (SELECT max(d) FROM silver.c) AS day FROM silver.orders": "'day' comes from a subquery (line 1)",
    "SELECT lag(d) OVER (ORDER BY x) AS day FROM silver.orders": ("'day' comes from a window function (line 1)"),
    "SELECT to_date(ts) AS d, trunc(d, 'MM') AS day FROM silver.orders": (
        "'day' reads 'd', which is also the name of another result column (line 1)"
    ),
    "SELECT * FROM silver.orders o JOIN silver.c c ON o.k = c.k": (
        "a * over several tables hides 'day': name the column in the SELECT"
    ),
    "WITH o AS (SELECT day FROM silver.orders LIMIT 3) SELECT day FROM o": (
        "which rows it returns depends on all rows (LIMIT, line 1)"
    ),
}


@pytest.mark.parametrize(("text", "reason"), UNTRACED.items())
def test_a_partition_that_cannot_be_traced_says_why(text: str, reason: str) -> None:
    assert partition_trace(sql(text), "day") == reason


def test_a_column_with_the_name_of_its_table_is_traced() -> None:
    expected = PartitionTrace(table=named("silver.orders"), expression="orders")
    assert partition_trace(sql("SELECT silver.orders.orders FROM silver.orders"), "orders") == expected


def test_same_as_is_trusted() -> None:
    table = python("gold.daily", ["silver.orders"], ReplacePartitions(by="day", same_as="silver.orders.day"))
    assert partition_source(table) == PartitionTrace(table=named("silver.orders"), expression="`day`")


def test_a_python_query_without_same_as_has_no_partition_source() -> None:
    table = python("gold.daily", ["silver.orders"], ReplacePartitions(by="day"))
    assert partition_source(table) == (
        "a Python query needs same_as to name the input column that decides the partition"
    )


def test_a_python_query_is_rowwise_only_when_it_says_so() -> None:
    assert rowwise(python("silver.x", ["bronze.orders"], rowwise=True)) is None
    assert rowwise(python("silver.x", ["bronze.orders"])) == (
        "a Python query works row by row only if it declares rowwise=True"
    )


def test_references_come_once_each_in_order_of_appearance() -> None:
    text = "SELECT 1 AS a FROM silver.b JOIN Bronze.A x JOIN silver.b y WHERE EXISTS (SELECT 1 FROM gold.c)"
    assert read_query(sql(text)).refs == (named("silver.b"), named("bronze.a"), named("gold.c"))


def test_a_cte_hides_a_table_only_in_its_scope() -> None:
    text = "WITH orders AS (SELECT id FROM bronze.orders) SELECT id FROM orders"
    assert read_query(sql(text)).refs == (named("bronze.orders"),)
    with pytest.raises(DeclarationError, match="'b' lacks its layer"):
        read_query(sql("WITH a AS (SELECT id FROM b), b AS (SELECT id FROM bronze.x) SELECT id FROM a"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a, b AS c, o.d, s.e.f FROM bronze.orders o", ("a", "c", "d", "f")),
        ("SELECT * FROM bronze.orders", None),
        ("WITH o AS (SELECT a, b FROM bronze.orders) SELECT *, 1 AS c FROM o", ("a", "b", "c")),
        ("WITH o AS (SELECT a, b FROM bronze.orders) SELECT * EXCEPT (b) FROM o", ("a",)),
        ("SELECT a FROM bronze.x UNION ALL SELECT b FROM bronze.y", ("a",)),
        ("SELECT posexplode(m) AS (p, c) FROM bronze.x", ("p", "c")),
        (
            "SELECT * FROM (SELECT a, k FROM bronze.x) JOIN (SELECT k, b FROM bronze.y) USING (k)",
            ("a", "k", "b"),
        ),
    ],
)
def test_result_columns_are_known_without_a_star(text: str, expected: tuple[str, ...] | None) -> None:
    assert read_query(sql(text)).columns == expected


def test_a_star_is_expanded_with_known_schemas() -> None:
    query = sql("SELECT o.*, c.name FROM bronze.orders o JOIN silver.c c ON o.k = c.k")
    assert output_columns(query, columns(bronze_orders=["id", "k"])) == ("id", "k", "name")


def test_columns_read_are_known_if_the_text_decides_them() -> None:
    query = sql("SELECT o.a, c.b FROM bronze.orders o JOIN silver.c c ON o.k = c.k WHERE o.d > 1")
    assert read_query(query).reads == {
        named("bronze.orders"): frozenset({"a", "k", "d"}),
        named("silver.c"): frozenset({"b", "k"}),
    }


def test_columns_of_undecided_tables_are_omitted() -> None:
    assert read_query(sql("SELECT a FROM bronze.orders o JOIN silver.c c ON o.k = c.k")).reads == {}
    assert read_query(sql("SELECT * FROM bronze.orders")).reads == {}


VIEWS = {named("bronze.orders"): "v_orders", named("silver.c"): "v_c", named("silver.orders"): "v_silver"}


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("SELECT id FROM bronze.orders", "SELECT id FROM `v_orders` AS `orders`"),
        ("SELECT o.id FROM bronze.orders o", "SELECT o.id FROM `v_orders` o"),
        ("SELECT id FROM `bronze`.`orders` AS x;", "SELECT id FROM `v_orders` AS x"),
        ("SELECT id FROM BRONZE . Orders ; -- end", "SELECT id FROM `v_orders` AS `orders`  -- end"),
        (
            "SELECT 'bronze.orders' AS a -- bronze.orders\nFROM bronze.orders /* bronze.orders */",
            "SELECT 'bronze.orders' AS a -- bronze.orders\nFROM `v_orders` AS `orders` /* bronze.orders */",
        ),
        (
            "SELECT '😀' AS a FROM bronze.orders JOIN silver.c c ON c.k = orders.k",
            "SELECT '😀' AS a FROM `v_orders` AS `orders` JOIN `v_c` c ON c.k = orders.k",
        ),
        (
            "WITH orders AS (SELECT * FROM bronze.orders) SELECT orders.id FROM orders",
            "WITH orders AS (SELECT * FROM `v_orders` AS `orders`) SELECT orders.id FROM orders",
        ),
        (
            "SELECT bronze.orders.id, `bronze`.orders.a.b.c.d, bronze.orders.* FROM bronze.orders",
            "SELECT orders.id, orders.a.b.c.d, orders.* FROM `v_orders` AS `orders`",
        ),
        (
            "SELECT k FROM silver.c WHERE EXISTS (SELECT 1 FROM bronze.orders WHERE silver.c.k = id)",
            "SELECT k FROM `v_c` AS `c` WHERE EXISTS (SELECT 1 FROM `v_orders` AS `orders` WHERE c.k = id)",
        ),
        (
            "SELECT 1 AS a FROM (bronze.orders JOIN silver.c ON bronze.orders.id = silver.c.k)",
            "SELECT 1 AS a FROM (`v_orders` AS `orders` JOIN `v_c` AS `c` ON orders.id = c.k)",
        ),
        (
            "SELECT * FROM bronze.orders PIVOT (sum(x) FOR y IN (1, 2)) AS p",
            "SELECT * FROM `v_orders` AS `orders` PIVOT (sum(x) FOR y IN (1, 2)) AS p",
        ),
    ],
)
def test_binding_changes_only_the_references(text: str, bound: str) -> None:
    assert bind(sql(text), VIEWS) == bound


def test_a_view_name_with_a_backtick_stays_one_name() -> None:
    assert bind(sql("SELECT id FROM bronze.orders o"), {named("bronze.orders"): "a`b"}) == "SELECT id FROM `a``b` o"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "SELECT 1 AS a\nFROM bronze.orders o\nWHERE bronze.orders.id > 1",
            "'bronze.orders.id' names a table that has an alias here",
        ),
        (
            "SELECT 1 AS a\nFROM bronze.orders JOIN silver.orders\nON bronze.orders.id = 1",
            "'bronze.orders.id' is ambiguous: two tables here are named orders",
        ),
    ],
)
def test_a_qualified_column_that_cannot_be_kept_is_an_error(text: str, what: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        bind(sql(text, line=4), VIEWS)
    assert (caught.value.code, caught.value.what, caught.value.at) == (
        "qualified-column",
        what,
        Place("silver/x.sql", 6),
    )


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("SELECT a\nFROM orders", "unknown-table", 11, "lacks its layer"),
        ("SELECT a FROM spark_catalog.silver.orders", "unknown-table", 10, "has 3 parts"),
        ("SELECT a FROM sliver.orders", "unknown-table", 10, "there is no layer 'sliver'"),
        ("SELECT a FROM system.runs", "unreadable-source", 10, "system.runs"),
        ("SELECT a FROM quarantine.silver_orders", "unreadable-source", 10, "quarantined rows"),
        ("SELECT a FROM delta.`/data/x`", "unreadable-source", 10, "the path /data/x"),
        ("SELECT a FROM csv.`s3://b/x.csv`", "unreadable-source", 10, "the path s3://b/x.csv"),
        ("SELECT a FROM read_files('/x')", "unreadable-source", 10, "read_files(…)"),
        ("SELECT a FROM IDENTIFIER('bronze.x')", "unreadable-source", 10, "identifier(…)"),
        ("SELECT a FROM bronze.x VERSION AS OF 3", "unreadable-source", 10, "fixed version"),
        ("SELECT a FROM bronze.x TABLESAMPLE (10 PERCENT)", "unreadable-source", 10, "TABLESAMPLE"),
        ("SELECT a\nFROM bronze.x\nWHERE (a = 1", "sql-syntax", 12, "SQL syntax error"),
        ("SELECT a,\n 'abc\nFROM bronze.x", "sql-syntax", 11, "is not closed"),
        ("", "sql-syntax", 10, "no SELECT"),
        ("INSERT INTO bronze.x SELECT 1", "not-a-select", 10, "not by INSERT"),
        ("DROP TABLE bronze.x", "not-a-select", 10, "not by DROP"),
        ("SELECT 1 AS a;\nSELECT 2 AS b", "not-a-select", 10, "2 statements"),
        (
            "SELECT a,\n upper(b) FROM bronze.x",
            "unnamed-column",
            11,
            "result column 2, UPPER(b), has no name",
        ),
        ("SELECT a,\n b AS A FROM bronze.x", "duplicate-column", 11, "two result columns are named 'A'"),
    ],
)
def test_an_unreadable_query_is_an_error_with_its_line(text: str, code: str, line: int, words: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        read_query(sql(text, line=10))
    assert (caught.value.code, caught.value.at) == (code, Place("silver/x.sql", line))
    assert words in caught.value.what


def test_a_table_without_a_layer_is_hinted_at_by_its_declared_name() -> None:
    with pytest.raises(DeclarationError) as caught:
        read_query(sql("SELECT a FROM orders"), [named("silver.orders"), named("bronze.x")])
    assert caught.value.hint == "write silver.orders"


def test_every_fault_of_a_query_is_reported_at_once() -> None:
    with pytest.raises(LakesmithError) as caught:
        read_query(sql("SELECT a FROM orders JOIN system.runs JOIN delta.`/x`"))
    assert len(str(caught.value).splitlines()) == 6


KNOWN = columns(bronze_orders=["id", "amount", "address"], silver_c=["k", "name"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT\n  amuont AS a FROM bronze.orders", [("column 'amuont' is not in bronze.orders", 2)]),
        ("SELECT o.ID, o.Amount FROM bronze.orders o", []),
        ("SELECT o.idd FROM bronze.orders o", [("column 'idd' is not in bronze.orders", 1)]),
        ("SELECT address.city FROM bronze.orders", []),
        ("SELECT o.address.city FROM bronze.orders o", []),
        ("SELECT bronze.orders.nope FROM bronze.orders", [("column 'nope' is not in bronze.orders", 1)]),
        (
            "SELECT x FROM bronze.orders JOIN silver.c ON id = k",
            [("column 'x' is not in bronze.orders or silver.c", 1)],
        ),
        ("SELECT x FROM bronze.orders JOIN gold.unknown u ON id = u.k", []),
        ("SELECT amount * 2 AS twice, twice + 1 AS more FROM bronze.orders ORDER BY more", []),
        (
            "SELECT id AS twice FROM bronze.orders\nWHERE twice > 1",
            [("column 'twice' is not in bronze.orders", 2)],
        ),
        (
            "SELECT transform(address, i -> i + nope) AS t FROM bronze.orders",
            [("column 'nope' is not in bronze.orders", 1)],
        ),
        ("SELECT item FROM bronze.orders LATERAL VIEW explode(address) t AS item", []),
        ("WITH o AS (SELECT id AS i FROM bronze.orders) SELECT id FROM o", [("column 'id' is not in o", 1)]),
        (
            "SELECT id FROM bronze.orders o WHERE EXISTS (SELECT 1 FROM silver.c WHERE k = o.id OR k = id)",
            [],
        ),
        (
            "SELECT id FROM bronze.orders o WHERE EXISTS (SELECT 1 FROM silver.c WHERE c.k = o.nope)",
            [("column 'nope' is not in bronze.orders", 1)],
        ),
        ("SELECT * EXCEPT (id) FROM bronze.orders", []),
        ("SELECT current_date AS d, _metadata.file_path AS f FROM bronze.orders", []),
        ("SELECT a FROM VALUES (1) AS v(a)", []),
    ],
)
def test_only_columns_that_no_known_table_has_are_unknown(text: str, found: list[tuple[str, int]]) -> None:
    errors = check_columns(sql(text), KNOWN)
    assert [(error.what, error.at.line if error.at else 0) for error in errors] == found
    assert {error.code for error in errors} <= {"unknown-column"}


def test_an_unknown_column_hints_at_the_nearest() -> None:
    (error,) = check_columns(sql("SELECT amuont FROM bronze.orders"), KNOWN)
    assert error.hint == "did you mean 'amount'?  columns: address, amount, id"


def check(name: str, *, where: str = "", expect: str = "") -> Check:
    rule = RowSql(condition=where) if where else BatchSql(condition=expect)
    return Check(name=name, rule=rule, on_fail="quarantine", declared_at=Place("silver/x.sql", 4))


def test_conditions_over_existing_columns_are_accepted() -> None:
    table = made(
        "silver.x",
        "SELECT id, amount FROM bronze.orders",
        Merge(key=("id",), order_by=("amount",)),
        columns=(column("Amount", check="amount >= 0"),),
        checks=(check("a", where="id IS NOT NULL"), check("b", expect="count(*) > 0")),
    )
    assert check_conditions(table, None) == []


@pytest.mark.parametrize(
    ("changed", "code", "what"),
    [
        (
            {"checks": (check("a", where="amuont > 0"),)},
            "unknown-column",
            "check a names column 'amuont', which silver.x does not have",
        ),
        (
            {"checks": (check("a", where="amount >"),)},
            "sql-syntax",
            "check a is not valid SQL: syntax error near '>'",
        ),
        (
            {"checks": (check("a", where="id; id"),)},
            "sql-syntax",
            "check a is not valid SQL: it must be one condition",
        ),
        (
            {"columns": (column("amount", check="amount in (SELECT 1)"),)},
            "sql-syntax",
            "the check of column amount is not valid SQL: it has a subquery, but a check sees "
            "only the rows of the batch",
        ),
        (
            {"columns": (column("nope"),)},
            "unknown-column",
            "the declaration names column 'nope', which silver.x does not have",
        ),
        (
            {"load": Merge(key=("idd",), order_by=("amount",))},
            "unknown-column",
            "merge key names column 'idd', which silver.x does not have",
        ),
        (
            {"load": ReplacePartitions(by="day")},
            "unknown-column",
            "replace_partitions names column 'day', which silver.x does not have",
        ),
    ],
)
def test_a_promise_over_a_missing_column_is_an_error(changed: dict[str, object], code: str, what: str) -> None:
    (error,) = check_conditions(made("silver.x", "SELECT id, amount FROM bronze.orders", **changed), None)  # type: ignore[arg-type]
    assert (error.code, error.what) == (code, what)


KEYED: dict[str, Any] = {"key": ("id",), "order_by": ("ts",)}


@pytest.mark.parametrize(
    ("load", "word", "missing"),
    [
        (Append(dedup=("idd",), by="ts"), "append dedup", "idd"),
        (Append(dedup=("id",), by="tss"), "append by", "tss"),
        (Merge(key=("id",), order_by=("tss",)), "merge order_by", "tss"),
        (Merge(**KEYED, update=("amuont",)), "merge update", "amuont"),
        (Scd2(key=("idd",), order_by=("ts",)), "scd2 key", "idd"),
        (Scd2(key=("id",), order_by=("ts", "n")), "scd2 order_by", "n"),
        (Scd2(**KEYED, track=("amuont",)), "scd2 track", "amuont"),
        (Scd2(**KEYED, ignore=("amuont",)), "scd2 ignore", "amuont"),
        (Changes(key=("idd",), order_by=("ts",), op="op"), "changes key", "idd"),
        (Changes(key=("id",), order_by=("tss",), op="op"), "changes order_by", "tss"),
        (Changes(**KEYED, op="opp"), "changes op", "opp"),
        (Changes(**KEYED, op="op", amounts=("amuont",)), "changes amounts", "amuont"),
        (Changes(**KEYED, op="op", previous_key={"id": "old_id"}), "changes previous_key", "old_id"),
        (Snapshot(key=("idd",), taken="ts"), "snapshot key", "idd"),
        (Snapshot(key=("id",), taken="day"), "snapshot taken", "day"),
        (Snapshot(key=("id",), taken="ts", into="scd2", track=("b",)), "snapshot track", "b"),
        (Snapshot(key=("id",), taken="ts", into="scd2", ignore=("b",)), "snapshot ignore", "b"),
    ],
)
def test_the_query_must_return_every_column_of_the_load(load: Load, word: str, missing: str) -> None:
    table = made("silver.x", "SELECT id, ts, op, amount FROM bronze.orders", load, load_at=Place("silver/x.sql", 3))
    (error,) = check_conditions(table, None)
    assert error.what == f"{word} names column '{missing}', which silver.x does not have"
    assert (error.code, error.at) == ("unknown-column", Place("silver/x.sql", 3))


@pytest.mark.parametrize("load", [Merge, Scd2])
@pytest.mark.parametrize(
    ("delete", "expected"),
    [
        ("op = 'D'", []),
        (
            "amuont < 0",
            [("unknown-column", "the condition of delete names column 'amuont', which silver.x does not have")],
        ),
        ("op =", [("sql-syntax", "the condition of delete is not valid SQL: syntax error near '='")]),
    ],
)
def test_the_columns_of_a_delete_condition_are_checked(
    load: type[Merge | Scd2], delete: str, expected: list[tuple[str, str]]
) -> None:
    table = made("silver.x", "SELECT id, ts, op FROM bronze.orders", load(**KEYED, delete=delete))
    assert [(error.code, error.what) for error in check_conditions(table, None)] == expected


SOFT = Merge(**KEYED, delete="true", soft_delete="gone")
ADDED = [
    (Scd2(**KEYED), ("valid_from", "valid_to", "is_current")),
    (Snapshot(key=("id",), taken="ts", into="scd2"), ("valid_from", "valid_to", "is_current")),
    (Changes(**KEYED, op="op", amounts=("n",)), ("_entry",)),
    (SOFT, ("gone",)),
    (Snapshot(key=("id",), taken="ts"), ()),
    (Changes(**KEYED, op="op"), ()),
    (Merge(**KEYED), ()),
]


@pytest.mark.parametrize(("load", "added"), ADDED)
def test_a_query_cannot_return_columns_that_the_load_adds(load: Load, added: tuple[str, ...]) -> None:
    table = made(
        "silver.x", "SELECT id, ts, op, n, Valid_From, valid_to, is_current, _entry, gone FROM bronze.orders", load
    )
    errors = check_conditions(table, None)
    assert {error.code for error in errors} <= {"added-column"}
    assert [error.what for error in errors] == [
        f"the query of silver.x returns the column '{name}', which the load adds"
        for name in (each.replace("valid_f", "Valid_F") for each in added)
    ]


def test_an_expanded_star_cannot_return_columns_that_the_load_adds() -> None:
    table = made("silver.x", "SELECT * FROM bronze.orders", Scd2(**KEYED))
    schemas = columns(bronze_orders=["id", "ts", "valid_to"])
    (error,) = check_conditions(table, given_columns(table, schemas))
    assert (error.code, error.at) == ("added-column", table.declared_at)


def test_a_promise_about_a_column_that_the_load_adds_is_rejected() -> None:
    table = made(
        "silver.x", "SELECT id, ts FROM bronze.orders", Scd2(**KEYED), columns=(column("valid_from", type="date"),)
    )
    (error,) = check_conditions(table, None)
    assert (error.code, error.hint) == ("added-column", "remove it from columns")


@pytest.mark.parametrize(("load", "added"), ADDED)
def test_a_table_has_the_columns_of_its_query_and_its_load(load: Load, added: tuple[str, ...]) -> None:
    table = made("silver.x", "SELECT * FROM bronze.orders", load)
    schemas = columns(bronze_orders=["id", "ts"])
    assert table_columns(table, schemas) == ("id", "ts", *added)
    assert table_columns(table, {}) is None
    assert given_columns(table, schemas) == ("id", "ts")
    assert given_columns(table, columns(silver_x=["id", "ts", *added])) == ("id", "ts")
