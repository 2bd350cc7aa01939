"""Single requests to an object store, with what is known about their replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from lakesmith.ports import ObjectFact
from lakesmith.store.access import Access
from lakesmith.store.failures import WRITE, failure_kind, retrying
from lakesmith.store.object_clients import connect

Result = TypeVar("Result")


def head(access: Access, name: str) -> ObjectFact | None:
    """The file of a name, or None when there is none."""
    import obstore

    meta = unless_missing(lambda: obstore.head(connect(access).store, name))
    return None if meta is None else fact_of(meta)


def get_span(
    access: Access, name: str, span: tuple[int, int] | None, etag: str | None = None
) -> tuple[ObjectFact | None, bytes]:
    """The file, and the bytes of a span; no file when the span starts after its end."""
    import obstore

    options: dict[str, Any] = {}
    if span is not None:
        options["range"] = span
    if etag is not None:
        options["if_match"] = f'"{etag}"'
    try:
        found = obstore.get(connect(access).store, name, options=cast(Any, options))
        return fact_of(found.meta), bytes(found.bytes())
    except Exception as error:
        if failure_kind(error) != "range":
            raise
        return None, b""


def write_of(access: Access, name: str) -> str | None:
    """The id of the write that created a file, after an error; None when it cannot be found."""
    import obstore

    try:
        found = obstore.get(connect(access).persistent, name, options={"head": True})
    except Exception as error:
        if failure_kind(error) not in ("missing", "transient"):
            raise
        return None
    return str(found.attributes.get(WRITE, ""))


def is_folder_marker(access: Access, name: str) -> bool:
    """Whether an empty object of a listing stands for a folder, as Hadoop makes them. Either its name ends with a
    slash, which the listing does not show, so that no object has the name; or an attribute says so."""
    import obstore

    store = connect(access).store
    found = unless_missing(lambda: obstore.get(store, name, options={"head": True}).attributes)
    return found is None or found.get("hdi_isfolder") == "true"


class Attempts:
    """Counts the calls of an action."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.count = 0

    def __call__(self) -> object:
        self.count += 1
        return self._act()


def fact_of(meta: Any) -> ObjectFact:
    modified = max(0, int(meta["last_modified"].timestamp() * 1000))
    # Some listings have etags without quotes.
    return ObjectFact(meta["path"], meta["size"], modified, (meta["e_tag"] or str(modified)).strip('"'))


def unless_missing(act: Callable[[], Result]) -> Result | None:
    try:
        return retrying(act)
    except Exception as error:
        if failure_kind(error) != "missing":
            raise
        return None


def in_parallel(act: Callable[[str], Result], items: Sequence[str]) -> Iterator[tuple[str, Result]]:
    if len(items) == 1:
        yield items[0], act(items[0])
    elif items:
        with ThreadPoolExecutor(min(16, len(items))) as pool:
            yield from zip(items, pool.map(act, items), strict=True)
