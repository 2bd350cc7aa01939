"""What a table's definition comes down to, so that a run notices when the rows were made by another one.

A fingerprint is `<query>.<shape>:<checks>`, three short hashes. The first two decide what the rows are: when
one of them changes, the table is rebuilt. The last one decides which rows are let in: a change of it applies
to the rows that come from then on. Descriptions, owners, tags, freshness and the place that files are looked
for in are no part of it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import textwrap
from dataclasses import asdict
from typing import assert_never

from lakesmith.declare import (
    Append,
    Changes,
    Files,
    Jdbc,
    Kafka,
    Merge,
    OtherTable,
    PythonQuery,
    Replace,
    ReplacePartitions,
    Scd2,
    Snapshot,
    SqlQuery,
    Table,
)
from lakesmith.declare.checks import CheckRule
from lakesmith.sqlproof.readings import readings


def definition(table: Table) -> str:
    """The fingerprint that goes with a batch."""
    return f"{rebuild_part(table)}:{_hashed(_checks(table))}"


def rebuild_part(table: Table) -> str:
    """The part of the fingerprint whose change makes the rows that are there wrong."""
    return f"{_query_hash(table)}.{_hashed(_shape(table))}"


def rebuild_because(recorded: str, table: Table) -> str | None:
    """What has changed since `recorded` so that the rows that are there are wrong, or None."""
    query, _, shape = recorded.partition(":")[0].partition(".")
    query_now, _, shape_now = rebuild_part(table).partition(".")
    if query != query_now:
        return "query"
    return "load or column types" if shape != shape_now else None


def checks_changed(recorded: str, table: Table) -> bool:
    """Whether other rows are let in than when `recorded` was made."""
    return recorded.partition(":")[2] != definition(table).partition(":")[2]


def _query_hash(table: Table) -> str:
    if isinstance(table.origin, SqlQuery):
        return str(readings.answer("hash", table.origin.text, lambda: _hashed(_query(table))))
    return _hashed(_query(table))


def _hashed(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _query(table: Table) -> object:
    match table.origin:
        case SqlQuery(text=text):
            # sqlglot is slow to import and needed only where there is SQL.
            from lakesmith.sqlproof.statement import words

            return ["sql", *words(text)]
        case PythonQuery(source=source, function=function, refs=refs):
            return ["python", function, _python(source), [[parameter, str(name)] for parameter, name in refs]]
        case Files(format=kind, delimiter=delimiter, envelope=envelope):
            return ["files", kind, delimiter if kind == "csv" else "", envelope]
        case Kafka(topic=topic):
            return ["kafka", topic]
        case Jdbc(table=read, watermark=watermark):
            return ["jdbc", read, watermark]
        case OtherTable(location=location, format=kind):
            return ["table", location, kind]


def _python(source: str) -> str:
    """The source without comments and layout; as it is where it does not stand alone."""
    try:
        return ast.dump(ast.parse(textwrap.dedent(source)))
    except SyntaxError:
        return source


def _shape(table: Table) -> object:
    types = sorted((column.name, column.type) for column in table.columns if column.type is not None)
    match table.load:
        case Append(dedup=dedup, by=time, within=within):
            seconds = None if within is None else within.total_seconds()
            # Without dedup, the time of a row decides nothing but which backfill it is in.
            return ["append", types, *_options(dedup=dedup, by=time if dedup else None, within=seconds)]
        case Replace():
            return ["replace", types]
        case ReplacePartitions(by=by):
            return ["replace_partitions", by, types]
        case Merge(key=key, order_by=order_by, delete=delete, soft_delete=soft_delete, update=update):
            options = _options(delete=delete, soft_delete=soft_delete, update=update)
            return ["merge", key, order_by, types, *options]
        case Scd2(key=key, order_by=order_by, delete=delete, track=track, ignore=ignore):
            return ["scd2", key, order_by, types, *_options(delete=delete, track=track, ignore=ignore)]
        case Changes(key=key, order_by=order_by, op=op, amounts=amounts, previous_key=previous):
            return ["changes", key, order_by, op, types, *_options(amounts=amounts, previous_key=dict(previous))]
        case Snapshot(key=key, taken=taken, into=into, track=track, ignore=ignore):
            # Its limit decides which extracts are let in, not what the rows are.
            return ["snapshot", key, taken, into, types, *_options(track=track, ignore=ignore)]
        case _:
            assert_never(table.load)


def _options(**options: object) -> list[object]:
    """The options that were given: one that is added to a load later leaves the tables alone that do not use it."""
    given = {name: value for name, value in options.items() if value}
    return [given] if given else []


def _checks(table: Table) -> object:
    promises = sorted(
        (column.name, column.required, column.check or "", column.key, column.unique)
        for column in table.columns
        if column.required or column.check or column.key or column.unique
    )
    rules = sorted(
        (check.name, type(check.rule).__name__, _told(check.rule), check.where or "")
        for check in table.checks
        if check.row_rule and check.on_fail == "quarantine"
    )
    return [table.contract, asdict(table.drift), promises, rules]


def _told(rule: CheckRule) -> str:
    return json.dumps(asdict(rule), sort_keys=True, default=str)
