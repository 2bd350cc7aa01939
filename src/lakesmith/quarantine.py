"""Queries quarantines: rows, counts, and rows that stay too long."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from lakesmith.declare import Table, TableName
from lakesmith.errors import UsageError
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.ports import Answer
from lakesmith.records import CheckRecord
from lakesmith.reports import Facet, FacetCount, QuarantinedRow

AGE_CHECK = "quarantine.age"
"""The check that warns about too many rows in quarantine, or about rows that stay too long."""
Query = Callable[[str], Answer]

_FACETS: dict[Facet, str] = {
    "table": "''",
    "rule": "unnest(rules)",
    "reason": "unnest(reasons)",
    "batch": "CAST(batch AS VARCHAR)",
    "age": "CASE WHEN {age} < 86400 THEN '1 under a day' WHEN {age} < 604800 THEN '2 under a week' "
    "WHEN {age} < 2592000 THEN '3 under a month' ELSE '4 a month and more' END",
}


def rows(
    query: Query, names: Iterable[TableName], chosen: QuarantineFilter, *, limit: int
) -> tuple[QuarantinedRow, ...]:
    """Return the selected rows, the oldest first."""
    selected: list[QuarantinedRow] = []
    for name in names:
        answer = query(
            "SELECT id, raw, fields, rules, reasons, rule_versions, contract, position, batch, run_id, "
            f"quarantined_at FROM {_quarantine(name)} {_where(chosen)} ORDER BY quarantined_at, position LIMIT {limit}"
        )
        for row in answer.rows:
            values = dict(zip(answer.columns, row, strict=True))
            selected.append(QuarantinedRow(table=str(name), **values))  # type: ignore[arg-type]
    return tuple(sorted(selected, key=lambda row: (row.quarantined_at, row.table))[:limit])


def count(query: Query, name: TableName, chosen: QuarantineFilter) -> int:
    """Return how many rows are selected."""
    ((number,),) = query(f"SELECT count(*) FROM {_quarantine(name)} {_where(chosen)}").rows
    return int(str(number))


def full_id(query: Query, name: TableName, prefix: str, quarantined: int) -> str:
    """Return the id of the only row whose id starts with the prefix."""
    sql = f"SELECT id FROM {_quarantine(name)} WHERE starts_with(id, {_text(prefix)}) LIMIT 2"
    ids = [str(row[0]) for row in query(sql).rows] if quarantined else []
    if len(ids) != 1:
        which = "more than one row" if ids else "no row"
        raise UsageError(
            "unknown-row",
            f"{which} in the quarantine of {name} has an id that starts with {prefix!r}",
            table=str(name),
            hint=f"lakesmith quarantine list {name}",
        )
    return ids[0]


def facets(query: Query, names: Iterable[TableName], facet: Facet, chosen: QuarantineFilter) -> tuple[FacetCount, ...]:
    """Return how many rows there are by table, rule, reason, batch or age."""
    expression = _FACETS[facet].format(age=_AGE)
    counts: list[FacetCount] = []
    for name in names:
        answer = query(
            f"SELECT value, count(*), min(quarantined_at), max(quarantined_at) FROM (SELECT {expression} AS "
            f"value, quarantined_at FROM {_quarantine(name)} {_where(chosen)}) GROUP BY value"
        )
        for value, number, oldest, newest in answer.rows:
            rank, _, label = str(value).partition(" ") if facet == "age" else ("", "", str(value))
            counts.append(
                FacetCount(
                    table=str(name),
                    facet=facet,
                    value=str(name) if facet == "table" else label,
                    rows=int(str(number)),
                    oldest=_moment(oldest),
                    newest=_moment(newest),
                    rank=rank,
                )
            )
    return tuple(sorted(counts, key=lambda each: (each.rank, -each.rows, each.table, each.value)))


def aging(query: Query, table: Table, run_id: str, sequence: int = 0) -> CheckRecord | None:
    """Check a quarantine that has rows against its table's policy."""
    policy = table.quarantine
    if policy.alert_after is None and policy.alert_rows is None:
        return None
    late = "0" if policy.alert_after is None else f"count(*) FILTER (WHERE {_AGE} > {policy.alert_after})"
    sql = f"SELECT count(*), {late}, CAST(max({_AGE}) AS BIGINT) FROM {_quarantine(table.name)}"
    ((total, old, age),) = query(sql).rows
    number, aged = int(str(total)), int(str(old))
    many = policy.alert_rows is not None and number > policy.alert_rows
    alerts = [f"{aged:,} rows have been in quarantine for more than {_days(policy.alert_after)}"] if aged else []
    alerts += [f"{number:,} rows are in quarantine, and the limit is {policy.alert_rows:,}"] if many else []
    if age is not None and alerts:
        alerts.append(f"the oldest for {_days(float(str(age)))}")
    return CheckRecord(
        run_id=run_id,
        table=str(table.name),
        sequence=sequence,
        check=AGE_CHECK,
        severity="warn",
        failed_rows=aged or (number if many else 0),
        passed=not alerts,
        observed=", ".join(alerts) or f"{number:,} rows",
        owner=table.owner,
        checked_at=datetime.now(UTC),
    )


def refuse_empty_selection(chosen: QuarantineFilter, *, everything: bool) -> None:
    """Raise when no option selects rows. Selecting all rows needs `everything`."""
    if chosen == QuarantineFilter() and not everything:
        hint = "pass --id, --rule, --reason, --batch, --older-than or --all"
        raise UsageError("no-selection", "no rows selected", hint=hint)


def read_edits(path: Path) -> dict[str, dict[str, str | None]]:
    """Return values by a row's id and column, from JSON (`{"id": {"column": "value"}}`) or CSV with a column `id`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        if path.suffix.lower() == ".csv":
            return {row["id"]: _cells(row) for row in csv.DictReader(io.StringIO(text))}
        return {
            str(row): {str(name): None if value is None else _edit_text(value) for name, value in values.items()}
            for row, values in json.loads(text).items()
        }
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise UsageError(
            "invalid-edits",
            f"{path} cannot be read as edits: {str(error) or type(error).__name__}",
            hint='write {"<row id>": {"column": "value"}} as JSON, or CSV with a column id',
        ) from None


def _cells(row: dict[str, str]) -> dict[str, str | None]:
    """Return the edits of one row. An empty cell changes nothing: the column may be for other rows."""
    if None in row or None in row.values():
        raise ValueError(f"the line of {row['id']} has another number of cells than the header")
    return {name: value for name, value in row.items() if name != "id" and value != ""}


def refuse_unreadable_sql(set: Mapping[str, str]) -> None:
    """Raise when the SQL that fixes a column cannot be parsed."""
    from lakesmith.sqlproof.conditions import ConditionFault, columns_of

    for column, sql in set.items():
        try:
            columns_of(sql)
        except ConditionFault as fault:
            what = f"the SQL for {column} cannot be read: {fault}"
            raise UsageError("invalid-setting", what, hint=f"{column}=SQL") from None


def _edit_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_AGE = "epoch(now()) - epoch(quarantined_at)"


def _quarantine(name: TableName) -> str:
    return f"quarantine.{name.layer}_{name.name}"


def _where(chosen: QuarantineFilter) -> str:
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
