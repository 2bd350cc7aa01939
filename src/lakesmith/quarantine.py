"""Looks into the quarantines of a lake: which rows, why, how many by what, and which have been there for too long."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from lakesmith.declare import Table, TableName
from lakesmith.errors import UsageError
from lakesmith.plan.steps import Chosen
from lakesmith.ports import Answer
from lakesmith.records import CheckRecord
from lakesmith.reports import Facet, FacetCount, QuarantinedRow

AGE_CHECK = "quarantine.age"
"""The name under which it is told that rows lie in quarantine for too long, or are too many."""
Query = Callable[[str], Answer]

_FACETS: dict[Facet, str] = {
    "table": "''",
    "rule": "unnest(rules)",
    "reason": "unnest(reasons)",
    "batch": "CAST(batch AS VARCHAR)",
    "age": "CASE WHEN {age} < 86400 THEN '1 under a day' WHEN {age} < 604800 THEN '2 under a week' "
    "WHEN {age} < 2592000 THEN '3 under a month' ELSE '4 a month and more' END",
}


def rows(query: Query, names: Iterable[TableName], chosen: Chosen, *, limit: int) -> tuple[QuarantinedRow, ...]:
    """The rows that are meant, the oldest first."""
    found: list[QuarantinedRow] = []
    for name in names:
        answer = query(
            "SELECT id, raw, fields, rules, reasons, rule_versions, contract, position, batch, run_id, "
            f"quarantined_at FROM {_quarantine(name)} {_where(chosen)} ORDER BY quarantined_at, position LIMIT {limit}"
        )
        for row in answer.rows:
            told = dict(zip(answer.columns, row, strict=True))
            found.append(QuarantinedRow(table=str(name), **told))  # type: ignore[arg-type]
    return tuple(sorted(found, key=lambda row: (row.quarantined_at, row.table))[:limit])


def count(query: Query, name: TableName, chosen: Chosen) -> int:
    """How many rows are meant."""
    ((number,),) = query(f"SELECT count(*) FROM {_quarantine(name)} {_where(chosen)}").rows
    return int(str(number))


def whole_id(query: Query, name: TableName, beginning: str, held: int) -> str:
    """The id of the one row whose id begins so."""
    sql = f"SELECT id FROM {_quarantine(name)} WHERE starts_with(id, {_text(beginning)}) LIMIT 2"
    found = [str(row[0]) for row in query(sql).rows] if held else []
    if len(found) != 1:
        which = "no row" if not found else "more than one row"
        raise UsageError(
            "unknown-row",
            f"{which} in the quarantine of {name} has an id that begins with {beginning!r}",
            table=str(name),
            hint=f"lakesmith quarantine list {name}",
        )
    return found[0]


def facets(query: Query, names: Iterable[TableName], facet: Facet, chosen: Chosen) -> tuple[FacetCount, ...]:
    """How many rows there are by table, rule, reason, batch or age."""
    expression = _FACETS[facet].format(age=_AGE)
    found: list[FacetCount] = []
    for name in names:
        answer = query(
            f"SELECT value, count(*) AS found, min(quarantined_at), max(quarantined_at) FROM (SELECT {expression} AS "
            f"value, quarantined_at FROM {_quarantine(name)} {_where(chosen)}) GROUP BY value"
        )
        for value, number, oldest, newest in answer.rows:
            told = str(value)[2:] if facet == "age" else str(value)
            rank = str(value)[:1] if facet == "age" else ""
            found.append(
                FacetCount(
                    table=str(name),
                    facet=facet,
                    value=str(name) if facet == "table" else told,
                    rows=int(str(number)),
                    oldest=_moment(oldest),
                    newest=_moment(newest),
                    rank=rank,
                )
            )
    return tuple(sorted(found, key=lambda each: (each.rank, -each.rows, each.table, each.value)))


def aging(query: Query, table: Table, run_id: str, sequence: int = 0) -> CheckRecord | None:
    """What the policy of the table says of its quarantine, which holds rows."""
    policy = table.quarantine
    if policy.alert_after is None and policy.alert_rows is None:
        return None
    late = "0" if policy.alert_after is None else f"count(*) FILTER (WHERE {_AGE} > {policy.alert_after})"
    sql = f"SELECT count(*), {late}, CAST(max({_AGE}) AS BIGINT) FROM {_quarantine(table.name)}"
    ((total, old, age),) = query(sql).rows
    number, aged = int(str(total)), int(str(old))
    many = policy.alert_rows is not None and number > policy.alert_rows
    told = [f"{aged:,} rows lie in quarantine for longer than {_days(policy.alert_after)}"] if aged else []
    told += [f"{number:,} rows lie in quarantine, and {policy.alert_rows:,} are tolerated"] if many else []
    if age is not None and told:
        told.append(f"the oldest for {_days(float(str(age)))}")
    return CheckRecord(
        run_id=run_id,
        table=str(table.name),
        sequence=sequence,
        check=AGE_CHECK,
        severity="warn",
        failed_rows=aged or (number if many else 0),
        passed=not told,
        observed=", ".join(told) or f"{number:,} rows",
        owner=table.owner,
        checked_at=datetime.now(UTC),
    )


def refuse_nothing(chosen: Chosen, *, everything: bool) -> None:
    """An error where nothing says which rows are meant: to take all of them has to be said."""
    if chosen == Chosen() and not everything:
        raise UsageError(
            "no-selector",
            "nothing says which rows are meant",
            hint="name them by --id, --rule, --reason, --batch or --older-than, or say --all",
        )


def read_edits(path: Path) -> dict[str, dict[str, str | None]]:
    """Values by a row's id and column, from JSON (`{"id": {"column": "value"}}`) or CSV with a column `id`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".csv":
            read = list(csv.DictReader(io.StringIO(text)))
            return {row["id"]: _cells(row) for row in read}
        return {
            str(row): {str(name): None if value is None else _told(value) for name, value in values.items()}
            for row, values in json.loads(text).items()
        }
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(
            "bad-edits",
            f"{path} holds no edits: {str(error) or type(error).__name__}",
            hint='write {"<row id>": {"column": "value"}} as JSON, or CSV with a column id',
        ) from None


def _cells(row: dict[str, str]) -> dict[str, str | None]:
    """An empty cell leaves the value as it is: other columns of the file may be meant for other rows."""
    if None in row or None in row.values():
        raise ValueError(f"the line of {row['id']} has not as many cells as the header")
    return {name: value for name, value in row.items() if name != "id" and value != ""}


def refuse_unreadable_sql(set: Mapping[str, str]) -> None:
    """An error where SQL that is to mend a column is none."""
    from lakesmith.sqlproof.conditions import ConditionFault, columns_of

    for column, sql in set.items():
        try:
            columns_of(sql)
        except ConditionFault as fault:
            raise UsageError(
                "bad-setting", f"the SQL for {column} cannot be read: {fault}", hint=f"{column}=SQL"
            ) from None


def _told(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_AGE = "epoch(now()) - epoch(quarantined_at)"


def _quarantine(name: TableName) -> str:
    return f"quarantine.{name.layer}_{name.name}"


def _where(chosen: Chosen) -> str:
    parts: list[str] = []
    if chosen.ids:
        parts.append(f"({' OR '.join(f'starts_with(id, {_text(each)})' for each in chosen.ids)})")
    if chosen.rule is not None:
        parts.append(f"list_contains(rules, {_text(chosen.rule)})")
    if chosen.reason is not None:
        parts.append(f"contains(array_to_string(reasons, '; '), {_text(chosen.reason)})")
    if chosen.batch is not None:
        parts.append(f"batch = {chosen.batch}")
    if chosen.older_than is not None:
        parts.append(f"{_AGE} > {chosen.older_than}")
    return f"WHERE {' AND '.join(parts)}" if parts else ""


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _moment(value: object) -> datetime:
    assert isinstance(value, datetime)
    return value


def _days(seconds: float | None) -> str:
    days = (seconds or 0) / 86400
    return f"{days:.0f} days" if days >= 2 else f"{(seconds or 0) / 3600:.0f} hours"
