"""Queries with proofs: by the planner on their text, and on Spark with rows."""

from __future__ import annotations

ROWWISE = [
    "SELECT id FROM bronze.orders",
    "SELECT * FROM bronze.orders",
    "SELECT o.*, upper(o.name) AS name_up FROM bronze.orders o WHERE o.amount > 0",
    "SELECT CAST(amount AS DECIMAL(12,2)) AS amount FROM bronze.orders WHERE status IN ('a', 'b')",
    "SELECT id, CASE WHEN a > 1 THEN 'x' ELSE 'y' END AS kind FROM bronze.orders",
    "SELECT id FROM (SELECT id, a FROM bronze.orders WHERE a > 1) AS o WHERE id > 2",
    "WITH o AS (SELECT id FROM bronze.orders), p AS (SELECT id FROM o) SELECT id FROM p",
    "SELECT id, item FROM bronze.orders LATERAL VIEW explode(items) t AS item",
    "SELECT id, explode(items) AS item FROM bronze.orders",
    "SELECT id, transform(items, i -> i.price * 2) AS prices FROM bronze.orders",
    "SELECT id FROM bronze.orders ORDER BY id",
    "SELECT id, 'count(x) and rand() are only words here' AS note FROM bronze.orders -- max(x)",
    "SELECT id, `count` FROM bronze.orders",
    "SELECT unix_timestamp(ts) AS seconds FROM bronze.orders",
    "SELECT id, o.current_date FROM bronze.orders o",
    "SELECT id FROM bronze.orders WHERE name LIKE ANY ('a%', 'b%')",
]
"""Each output row depends on one row of bronze.orders."""

TRACED = [
    ("SELECT day, sum(x) AS s FROM silver.orders GROUP BY day", "day"),
    ("SELECT day, sum(x) AS s FROM silver.orders GROUP BY 1", "day"),
    ("SELECT day, sum(x) AS s FROM silver.orders GROUP BY ALL", "day"),
    ("SELECT to_date(ts) AS day, sum(x) AS s FROM silver.orders GROUP BY day", "to_date(ts)"),
    ("SELECT to_date(ts) AS day, sum(x) AS s FROM silver.orders GROUP BY to_date(ts)", "to_date(ts)"),
    ("SELECT to_date(ts) AS day, sum(x) AS s FROM silver.orders GROUP BY TO_DATE( ts ), k", "to_date(ts)"),
    ("SELECT to_date(ts) AS day, count(*) AS n FROM silver.orders GROUP BY ts", "to_date(ts)"),
    ("SELECT o.day, sum(o.x) AS s FROM silver.orders o GROUP BY o.day", "day"),
    ("SELECT o.day, sum(o.x) AS s FROM silver.orders o JOIN silver.c c ON o.k = c.k GROUP BY day", "day"),
    ("SELECT o.day, c.name FROM silver.orders o LEFT JOIN silver.c c ON o.k = c.k", "day"),
    ("SELECT o.day, c.name FROM silver.c c RIGHT JOIN silver.orders o ON o.k = c.k", "day"),
    ("SELECT o.day FROM silver.orders o LEFT ANTI JOIN silver.c c ON o.k = c.k", "day"),
    ("SELECT DISTINCT day, k FROM silver.orders", "day"),
    ("SELECT * FROM silver.orders", "`day`"),
    ("SELECT day, rank() OVER (PARTITION BY k, day ORDER BY x) AS r FROM silver.orders", "day"),
    (
        "WITH o AS (SELECT /* the day */ to_date(ts) AS d, x FROM silver.orders)\n"
        "SELECT date_trunc('MM', o.d) AS day, sum(x) AS s FROM o GROUP BY day",
        "date_trunc('MM', (to_date(ts)))",
    ),
    (
        "SELECT o.day FROM (SELECT DISTINCT p.day, p.k FROM silver.orders p) o JOIN silver.c c ON c.k = o.k",
        "day",
    ),
    (
        "SELECT CASE WHEN o.a > 1 THEN o.b ELSE o.c END AS day FROM silver.orders o",
        "CASE WHEN a > 1 THEN b ELSE c END",
    ),
    ("SELECT o.address.zip AS day FROM silver.orders o", "address.zip"),
    ("SELECT silver.orders.ts AS day FROM silver.orders", "ts"),
    ("SELECT o.`order day` AS day FROM silver.orders o", "`order day`"),
    ("SELECT day, x FROM silver.orders WHERE k IN (SELECT k FROM silver.c)", "day"),
    ("SELECT o.day, item FROM silver.orders o LATERAL VIEW explode(items) t AS item", "day"),
]
"""Expressions of the column `day` over the columns of silver.orders."""
