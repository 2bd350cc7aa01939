"""Names in a query: resolves those of tables, and quotes them for DuckDB."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakesmith.errors import LakesmithError, UsageError, did_you_mean, raise_all


def match_tables(written: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return, for each name as written, the table that it means, ignoring case."""
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
    """Return the error for an unknown table; a name without its layer gets the full name as hint."""
    homonyms = sorted(other for other in known if other.partition(".")[2] == name.lower())
    if homonyms:
        hint = f"write the layer too: {' or '.join(homonyms)}"
    else:
        hint = did_you_mean(name.lower(), known, label="tables")
    return UsageError("unknown-table", f"there is no table '{name}'", hint=hint)


def quoted(name: str) -> str:
    """Return the name as an identifier of DuckDB."""
    return '"' + name.replace('"', '""') + '"'
