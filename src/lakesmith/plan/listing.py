"""Where the listing of a landing folder starts whose new files sort last (`listing: ordered`).

The bookmark is recorded with the batches in the table itself, so it cannot disagree with the rows. A file may break
the promise and arrive late under an earlier name. So the first listing of a day is full, and so is any listing after
a batch that left files out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakesmith.plan.steps import Listing, ListingBookmark, Progress
from lakesmith.ports import FileFact


def listed_up_to(seen: ListingBookmark | None, pattern: str) -> str | None:
    """Return the name up to which no new file is expected."""
    return seen.upto if seen is not None and seen.pattern == pattern else None


def next_listing(seen: ListingBookmark | None, pattern: str, today: str) -> Listing:
    """Return how to list the landing folder now."""
    after = listed_up_to(seen, pattern) if seen is not None and seen.day == today else None
    return Listing(pattern=pattern, day=today, after=after)


def bookmark_after(listing: Listing, files: Sequence[FileFact], before: Progress) -> ListingBookmark | None:
    """Return the bookmark once all `files` that a listing found are in the table.

    All earlier names must be in the table too. Where an earlier batch was postponed, or a rollback came after the
    listing, the bookmark does not move. A full listing starts a new bookmark, even an earlier one: the next listing
    then finds again what this one found and did not ingest.
    """
    seen, last = before.seen, files[-1].path
    greatest = max(last, seen.greatest if seen else max(before.ingested, default=""))
    if listing.after is None:
        return ListingBookmark(pattern=listing.pattern, day=listing.day, upto=last, greatest=greatest)
    if seen is None:
        return None
    follows = (seen.pattern, seen.day) == (listing.pattern, listing.day) and seen.upto >= listing.after
    return replace(seen, upto=max(seen.upto, last) if follows else seen.upto, greatest=greatest)
