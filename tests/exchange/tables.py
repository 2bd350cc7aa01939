"""Tables for the tests of this folder: written as YAML and loaded like any lake."""

from __future__ import annotations

from pathlib import Path

from lakesmith.declare import Table
from lakesmith.load import load_lake

HEAD = "source: {files: landing/orders/*.json}\n"


def loaded(folder: Path, text: str, file: str = "bronze/orders.yml") -> Table:
    """Return the table that a file of a lake declares."""
    (folder / "lakesmith.yml").write_text("name: shop\n", encoding="utf-8")
    (folder / "rules.py").write_text("def fine(rows):\n    return rows.a > 0\n", encoding="utf-8")
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    (table,) = load_lake(folder).tables.values()
    return table


FULL = (
    HEAD
    + """
description: Every order, once.
owner: sales
tags: [daily, core]
freshness: 90m
quarantine: {alert_after: 7d, alert_rows: 100}
contract:
  mode: strict
  version: "2.1.0"
  compatibility: full
  drift: {type: quarantine, new_column: discard}
  previous: {"1": {until: "2027-06-30", columns: {amount: "amount * 100"}}}
  registry: {connection: events, subject: orders-v2, truth: registry}
columns:
  id: {type: bigint, key: true, required: true}
  line: {type: int, key: true}
  email: {type: string, unique: true, tags: [pii], description: "Who: ordered it", since: "1.2"}
  amount: {type: "decimal(12,2)", check: "amount >= 0 OR (email = '$${x}')", currency: EUR}
  at: {type: timestamp, timezone: Europe/Oslo}
  local: timestamp_ntz
  day: date
  old: {type: smallint, deprecated: "use line"}
  place: "struct<city:string,geo:struct<lat:double,lon:float>,tags:array<string>>"
  extra: "map<string,array<struct<a:tinyint,b:binary>>>"
  by_number: "map<int,decimal(5,1)>"
  "no": {}
  anything: {description: "no type"}
"""
)

RULES = [
    "{sql: \"amount > 0 AND email <> 'a)b'\", on_fail: warn, owner: ann, description: 'why: so'}",
    '{sql: "(amount > 0) OR (line = 1)", where: "line > 0"}',
    '{sql: "amount > 0 -- a remark", fail_above: 10}',
    '{where: "amount IN (SELECT 1)"}',
    '{expect: "count(*) > 0", on_fail: warn}',
    '{expect: "(sum(amount) > 0) AND (min(line) = 1)", where: "line > 0"}',
    "{required: [email]}",
    "{required: [email, amount], fail_above: 2%}",
    "{required: [undeclared], on_fail: fail}",
    "{unique: [email]}",
    "{unique: {columns: [id, line], within: table}}",
    '{in: {column: email, values: [a, "1", 1, -0.50, true, "2026-01-01", "no"]}}',
    '{in: {column: email, values: [a]}, where: "line > 0"}',
    "{range: {column: amount, min: 0.10}}",
    "{range: {column: amount, max: 5}, on_fail: warn}",
    '{range: {column: day, min: "2026-01-01", max: "2026-12-31"}}',
    "{range: {column: undeclared, min: -1}}",
    '{pattern: {column: email, matches: "^[^@]+@\\\\w+\\\\.${end}"}}'.replace("${end}", "[a-z]$"),
    "{length: {column: email, min: 3, max: 80}}",
    "{references: {columns: [id], table: silver.orders, key: [order_id]}}",
    "{references: {columns: [id], table: silver.orders}}",
    "{python: rules.fine}",
    "{freshness: {column: at, within: 2h}, on_fail: warn}",
    "{row_count: {min: 1}}",
    "{row_count: {max: 9}}",
    "{row_count: {min: 2, max: 9}}",
    "{row_count: {min: 9, max: 9}}",
    "{row_count: {change: 50%, last: 3}}",
    "{null_rate: {column: email, max: 5%}}",
    "{null_rate: {column: email, max: 0.123456}}",
    "{distinct: {column: email, min: 2, exact: true}}",
    "{sum: {column: amount, min: -1.5, max: 1000}}",
    "{mean: {column: amount, max: 3}}",
    "{quantile: {column: amount, at: 0.95, max: 3}}",
    '{reconcile: {table: bronze.orders, own: "sum(amount)", theirs: "sum(a)", tolerance: 1%}}',
    "{drift: {column: amount, method: ks, max: 0.25, last: 5}}",
    "{drift: amount}",
    '{anomaly: {of: "sum(amount)", season: hour, deviations: 3.5, last: 20}}',
    "{anomaly: {}}",
    '{schema: {columns: [id, amount], types: {amount: "decimal(12,2)"}, exact: true}}',
]
"""Every kind of check, with all options."""


def with_checks(*rules: str) -> str:
    """Return the full table with checks."""
    return FULL + "checks:\n" + "".join(f"  rule_{number}: {rule}\n" for number, rule in enumerate(rules))
