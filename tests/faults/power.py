"""A model of a disk that loses power: unsynced data may be lost, completely or in part.

A file keeps the content of its last sync; any part of later writes may survive. A name survives when its folder was
synced; each later change of the folder survives or not, in any order. Only a rename is one change of both folders, as
in all journaling file systems.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, assert_never

from tests.faults.syscalls import Event

Survival = Literal["nothing", "names", "everything", "some"]
"""Which unsynced changes survive: none, all names and no data, all, or each by chance."""
_PAGE = 4096


@dataclass(eq=False, slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    synced: bytes = b""

    @property
    def is_synced(self) -> bool:
        return self.data == self.synced


@dataclass(eq=False, slots=True)
class _Change:
    """A change of names that survives as a whole or not at all."""

    synced: bool = False


@dataclass(eq=False, slots=True)
class _Folder:
    entries: dict[str, _Node] = field(default_factory=dict)
    changes: list[tuple[_Change, str, _Node | None]] = field(default_factory=list)
    """All changes of names; None for a removed one."""

    def set(self, change: _Change, name: str, node: _Node | None) -> None:
        self.changes.append((change, name, node))
        if node is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = node


_Node = _File | _Folder


class Disk:
    """The files below one folder, which exists from the start."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = _Folder()

    def apply(self, event: Event) -> None:
        match event.kind:
            case "create":
                if self._find(event.path) is None:
                    self._set(_Change(), event.path, _File())
            case "truncate":
                self._file(event.path).data.clear()
            case "write":
                data = self._file(event.path).data
                at = len(data) if event.offset is None else event.offset
                data[at : at + len(event.data)] = event.data
            case "sync":
                self._sync(event.path)
            case "mkdir":
                self._set(_Change(), event.path, _Folder())
            case "remove":
                self._set(_Change(), event.path, None)
            case "link":
                self._set(_Change(), event.to, self._find(event.path))
            case "rename":
                change, node = _Change(), self._find(event.path)
                self._set(change, event.to, node)
                self._set(change, event.path, None)
            case _:
                assert_never(event.kind)

    def files(self) -> dict[str, bytes]:
        """Return every file with its content, as processes see it."""
        return dict(_files(self._top, ""))

    def lost(self, path: str) -> Iterator[str]:
        """Yield the reasons why a file might not survive a power cut unchanged."""
        folder = self._top
        for part in self._relative(path):
            node = folder.entries.get(part)
            if node is None:
                yield f"{path} does not exist"
                return
            newest = next(change for change, name, _ in reversed(folder.changes) if name == part)
            if not newest.synced:
                yield f"the name {part} of {path} is not synced"
            if isinstance(node, _Folder):
                folder = node
            elif not node.is_synced:
                yield f"the content of {path} is not synced"

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def read(self, path: str) -> bytes:
        return bytes(self._file(path).data)

    def is_synced(self, path: str) -> bool:
        """Return whether the content of a file is synced."""
        return self._file(path).is_synced

    def below(self, path: str) -> list[str]:
        """Return the files below a folder."""
        found = self._find(path)
        assert isinstance(found, _Folder), path
        return [f"{path}/{name}" for name, _ in _files(found, "")]

    def cut(self, into: Path, survival: Survival, chance: random.Random) -> None:
        """Write the files that survive a power cut."""
        survived: dict[_Change, bool] = {}
        cut: dict[_File, bytes] = {}

        def survives(change: _Change) -> bool:
            if change.synced:
                return True
            return survived.setdefault(change, {"nothing": False, "some": chance.random() < 0.5}.get(survival, True))

        def content(file: _File) -> bytes:
            if file not in cut:
                cut[file] = _left(file, survival, chance)
            return cut[file]

        def write(folder: _Folder, path: Path) -> None:
            path.mkdir()
            entries: dict[str, _Node] = {}
            for change, name, node in folder.changes:
                if survives(change):
                    entries.pop(name, None)
                    if node is not None:
                        entries[name] = node
            for name, node in entries.items():
                if isinstance(node, _File):
                    (path / name).write_bytes(content(node))
                else:
                    write(node, path / name)

        write(self._top, into)

    def _sync(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, _File):
            node.synced = bytes(node.data)
        elif node is not None:
            for change, _, _ in node.changes:
                change.synced = True

    def _relative(self, path: str) -> tuple[str, ...]:
        return Path(path).relative_to(self._root).parts

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._top
        for part in self._relative(path):
            node = node.entries.get(part) if isinstance(node, _Folder) else None
        return node

    def _file(self, path: str) -> _File:
        node = self._find(path)
        assert isinstance(node, _File), path
        return node

    def _set(self, change: _Change, path: str, node: _Node | None) -> None:
        *parents, name = self._relative(path)
        folder = self._find(str(self._root.joinpath(*parents)))
        assert isinstance(folder, _Folder), path
        folder.set(change, name, node)


def _left(file: _File, survival: Survival, chance: random.Random) -> bytes:
    """Return the content of a file after a power cut."""
    if file.is_synced or survival == "everything":
        return bytes(file.data)
    if survival != "some":
        return file.synced
    pages = len(file.data) // _PAGE
    return chance.choice([file.synced, bytes(file.data), bytes(file.data[: chance.randint(0, pages) * _PAGE])])


def _files(folder: _Folder, above: str) -> Iterator[tuple[str, bytes]]:
    for name, node in folder.entries.items():
        if isinstance(node, _File):
            yield above + name, bytes(node.data)
        else:
            yield from _files(node, f"{above}{name}/")


def replayed(root: Path, events: Iterable[Event]) -> Disk:
    """Return the disk after all events."""
    disk = Disk(root)
    for event in events:
        disk.apply(event)
    return disk
