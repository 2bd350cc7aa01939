"""Where a look at a landing zone begins whose files come in the order of their names (`listing: ordered`).

All that is known comes from the batches in the table itself: nothing is kept that could disagree with its rows. A file
may break the promise and come late under an earlier name; so the first look of a day goes through everything, and so
does any look before which something was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakesmith.plan.steps import Look, Progress, Seen
from lakesmith.ports import FileFact


def settled(seen: Seen | None, pattern: str) -> str | None:
    """The name up to which nothing new comes, as long as the promise is kept."""
    return seen.upto if seen is not None and seen.pattern == pattern else None


def next_look(seen: Seen | None, pattern: str, today: str) -> Look:
    """From where on files are looked for."""
    after = settled(seen, pattern) if seen is not None and seen.day == today else None
    return Look(pattern=pattern, day=today, after=after)


def seen_with(look: Look, files: Sequence[FileFact], before: Progress) -> Seen | None:
    """What holds once files that were found by a look are in the table, all of them.

    Names that come before these must be in too: where a batch before was put off, or somebody has rolled the table
    back since the look, the table is no further than it was. A full look begins anew, even if that is further back:
    what it has found and not yet taken in is found again from there.
    """
    seen, last = before.seen, files[-1].path
    greatest = max(last, seen.greatest if seen else max(before.taken, default=""))
    if look.after is None:
        return Seen(pattern=look.pattern, day=look.day, upto=last, greatest=greatest)
    if seen is None:
        return None
    follows = (seen.pattern, seen.day) == (look.pattern, look.day) and seen.upto >= look.after
    return replace(seen, upto=max(seen.upto, last) if follows else seen.upto, greatest=greatest)
