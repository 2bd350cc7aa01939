"""Matches the table names that a query spells with the tables that there are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakesmith.errors import LakesmithError, UsageError, did_you_mean, raise_all


def match_tables(written: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """For each name as written, the table that it means; letter case does not count in SQL."""
    by_lower = {name.lower(): name for name in known}
    errors: list[LakesmithError] = []
    matched: dict[str, str] = {}
    for name in sorted(written):
        if name.lower() in by_lower:
            matched[name] = by_lower[name.lower()]
        else:
            errors.append(unknown_table(name, known))
    raise_all(errors)
    return matched


def unknown_table(name: str, known: Collection[str]) -> UsageError:
    """The error for a name that no table has; a name without its layer gets the full one as hint."""
    homonyms = sorted(other for other in known if other.partition(".")[2] == name.lower())
    if homonyms:
        hint = f"write the layer too: {' or '.join(homonyms)}"
    else:
        hint = did_you_mean(name.lower(), known, label="tables")
    return UsageError("unknown-table", f"there is no table '{name}'", hint=hint)
