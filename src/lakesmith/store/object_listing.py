"""Lists the files of an object store with few requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakesmith.ports import ObjectFact
from lakesmith.store.access import Access
from lakesmith.store.globs import Glob, walk
from lakesmith.store.object_clients import connect
from lakesmith.store.object_requests import fact_of
from lakesmith.store.skipped import Skip, hidden

PAGE = 1000
_LAST = "\U0010fffd"
"""Sorts after every letter of a name."""


@dataclass(frozen=True, slots=True)
class ObjectListing:
    """Listings of a bucket or container. Names of files are from its root on."""

    access: Access

    def matching(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[ObjectFact]:
        """The matching files, and those hidden ones that are reported to `skip`. `after` only saves requests."""
        start = None if after is None else base + after
        flat = glob.is_flat and not glob.is_path
        if flat and (not self._is_sorted or (start is None and glob.prefix == glob.folder)):
            listed: Iterable[ObjectFact] = self._children(base + glob.folder)[0]
        elif start is not None and not self._is_sorted and not glob.is_path:
            # Folder by folder, so that old ones are not listed.
            yield from (fact for _, fact in walk(glob, lambda folder, deep: self._entries(base + folder), after, skip))
            return
        else:
            listed = self.scan(base + glob.prefix, start, flat=flat)
        for fact in listed:
            path = fact.key[len(base) :]
            if glob.matches(path):
                yield fact
            elif by := glob.hidden_in(path):
                skip(hidden(by))

    def scan(self, prefix: str, after: str | None = None, *, flat: bool = False) -> Iterator[ObjectFact]:
        """The files whose keys start with a prefix and sort after `after`, in order; when flat, none in folders below
        the one of the prefix."""
        folder = prefix[: prefix.rfind("/") + 1]
        if not self._is_sorted:
            listed = sorted(self._stream(folder, None))
            yield from (fact for fact in listed if fact.key.startswith(prefix) and (after is None or fact.key > after))
            return
        start: str | None = max(_just_before(prefix), after or "")
        while start is not None:
            begin, start, below = start, None, 0
            for fact in self._stream(folder, begin):
                key = fact.key
                if key.startswith(prefix):
                    if flat and "/" in key[len(folder) :]:
                        below += 1
                        if below > PAGE:  # listing further files of the folder would cost more than to start again
                            start = folder + key[len(folder) :].partition("/")[0] + "/" + _LAST
                            break
                    elif after is None or key > after:
                        below = 0
                        yield fact
                elif key > prefix:
                    return

    def _stream(self, folder: str, after: str | None) -> Iterator[ObjectFact]:
        """The files below a folder. With `after`, the store may omit those that do not sort after it."""
        import obstore

        options = {"offset": _valid(after)} if after else {}
        for page in obstore.list(connect(self.access).persistent, folder or None, chunk_size=PAGE, **options):
            yield from map(fact_of, page)

    def _children(self, folder: str) -> tuple[Sequence[ObjectFact], Sequence[str]]:
        """The files and the folders directly in a folder."""
        import obstore

        listed = obstore.list_with_delimiter(connect(self.access).persistent, folder or None)
        return [fact_of(meta) for meta in listed["objects"]], listed["common_prefixes"]

    def _entries(self, folder: str) -> Iterator[tuple[str, bool, ObjectFact]]:
        files, folders = self._children(folder)
        for path in folders:
            yield path[len(folder) :], True, ObjectFact(path, 0, 0, "")
        for fact in files:
            yield fact.key[len(folder) :], False, fact

    @property
    def _is_sorted(self) -> bool:
        """Whether listings are sorted, and can start in the middle."""
        return self.access.kind in ("s3", "gs")


def _just_before(prefix: str) -> str:
    """A key that sorts before all keys with a prefix, and after most of the others in the same folder."""
    if not prefix or prefix.endswith("/"):
        return ""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + _LAST


def _valid(key: str) -> str:
    """The part of a text that can be a key, which sorts before the text."""
    valid: list[str] = []
    for segment in key.split("/"):
        if segment in ("", ".", ".."):
            break
        valid.append(segment)
    return "/".join(valid)
