"""Hashes a table's definition, so that a run notices when another definition made the rows.

A fingerprint is `<query>.<shape>:<checks>`, three short hashes. The first two decide what the rows are: when
one of them changes, the table is rebuilt. The last one decides which rows pass: a change of it applies to
later rows only. Descriptions, owners, tags, freshness and the landing path are no part of it.
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
from lakesmith.sqlproof.analysis_cache import analysis_cache


def definition(table: Table) -> str:
    """Return the fingerprint that is recorded with a batch."""
    return f"{rebuild_part(table)}:{_hash(_checks(table))}"


def rebuild_part(table: Table) -> str:
    """Return the part of the fingerprint whose change makes the stored rows wrong."""
    return f"{_query_hash(table)}.{_hash(_shape(table))}"


def rebuild_reason(recorded: str, table: Table) -> str | None:
    """Return what changed since `recorded` so that the stored rows are wrong, or None."""
    query, _, shape = recorded.partition(":")[0].partition(".")
    query_now, _, shape_now = rebuild_part(table).partition(".")
    if query != query_now:
        return "query"
    return "load or column types" if shape != shape_now else None


def checks_changed(recorded: str, table: Table) -> bool:
    """Whether the checks that decide which rows pass differ from `recorded`."""
    return recorded.partition(":")[2] != definition(table).partition(":")[2]


def _query_hash(table: Table) -> str:
    if isinstance(table.origin, SqlQuery):
        return str(analysis_cache.get("hash", table.origin.text, lambda: _hash(_query(table))))
    return _hash(_query(table))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _query(table: Table) -> object:
    match table.origin:
        case SqlQuery(text=text):
            # sqlglot is slow to import and needed only where there is SQL.
            from lakesmith.sqlproof.parsing import normalized_tokens

            return ["sql", *normalized_tokens(text)]
        case PythonQuery(source=source, function=function, refs=refs):
            return [
                "python",
                function,
                _normalized_python(source),
                [[parameter, str(name)] for parameter, name in refs],
            ]
        case Files(format=kind, delimiter=delimiter, envelope=envelope):
            return ["files", kind, delimiter if kind == "csv" else "", envelope]
        case Kafka(topic=topic):
            return ["kafka", topic]
        case Jdbc(table=read, watermark=watermark):
            return ["jdbc", read, watermark]
        case OtherTable(location=location, format=kind):
            return ["table", location, kind]


def _normalized_python(source: str) -> str:
    """Return the source without comments and layout; unchanged where it does not parse alone."""
    try:
        return ast.dump(ast.parse(textwrap.dedent(source)))
    except SyntaxError:
        return source


def _shape(table: Table) -> object:
    types = sorted((column.name, column.type) for column in table.columns if column.type is not None)
    match table.load:
        case Append(dedup=dedup, by=time, within=within):
            # Without dedup, the time of a row only decides which backfill it is in.
            return ["append", types, *_options(dedup=dedup, by=time if dedup else None, within=within)]
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
            # Its limit decides which extracts pass, not what the rows are.
            return ["snapshot", key, taken, into, types, *_options(track=track, ignore=ignore)]
        case _:
            assert_never(table.load)


def _options(**options: object) -> list[object]:
    """Return the options that are set, so that a new option of a load changes no table that does not use it."""
    set_options = {name: value for name, value in options.items() if value}
    return [set_options] if set_options else []


def _checks(table: Table) -> object:
    promises = sorted(
        (column.name, column.required, column.check or "", column.key, column.unique)
        for column in table.columns
        if column.required or column.check or column.key or column.unique
    )
    rules = sorted(
        (check.name, type(check.rule).__name__, rule, check.where or "")
        for check in table.checks
        if check.row_rule and check.on_fail == "quarantine"
        for rule in [json.dumps(asdict(check.rule), sort_keys=True, default=str)]
    )
    return [table.contract, asdict(table.drift), promises, rules]
