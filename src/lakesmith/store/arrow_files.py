"""A store as a file system of Arrow: the same connection, credentials, retries and errors as the store itself."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
from pyarrow import fs

from lakesmith.ports import ObjectFact, Store
from lakesmith.store.errors import file_rewritten
from lakesmith.store.streams import SpanReader


def arrow_files(store: Store) -> fs.FileSystem:
    """The file system of a store, with keys as paths."""
    return fs.PyFileSystem(_Handler(store))


class _Handler(fs.FileSystemHandler):  # type: ignore[misc] # pyarrow has no types
    """Reads, lists and creates files; folders exist only as parts of keys."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other.store.url == self.store.url

    def __hash__(self) -> int:
        return hash(self.store.url)

    def get_type_name(self) -> str:
        return "lakesmith"

    def normalize_path(self, path: str) -> str:
        return path.strip("/")

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        found = self.store.stat(path)
        if found is not None:
            return _file_info(found)
        below = path == "" or any(True for _ in self.store.list(f"{path}/"))
        return fs.FileInfo(path, fs.FileType.Directory if below else fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        folder = f"{selector.base_dir.strip('/')}/".lstrip("/")
        folders: dict[str, None] = {}
        files = []
        for found in self.store.list(folder):
            parents = found.key[len(folder) :].split("/")[:-1]
            folders |= {folder + "/".join(parents[:depth]): None for depth in range(1, len(parents) + 1)}
            if selector.recursive or not parents:
                files.append(_file_info(found))
        if not files and not folders and not selector.allow_not_found:
            raise FileNotFoundError(selector.base_dir)
        shown = (path for path in folders if selector.recursive or "/" not in path[len(folder) :])
        return [*(fs.FileInfo(path, fs.FileType.Directory) for path in shown), *files]

    def open_input_file(self, path: str) -> pa.NativeFile:
        found = self.store.stat(path)
        if found is None:
            raise FileNotFoundError(path)
        return pa.PythonFile(SpanReader(found.size, lambda start, end: self._span(found, start, end)), mode="r")

    def _span(self, found: ObjectFact, start: int, end: int) -> bytes:
        data = self.store.read(found.key, (start, end))
        if data is None or len(data) != end - start:
            raise file_rewritten(self.store.location(found.key))
        return data

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self.store.open(path), mode="r")

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:
        return pa.PythonFile(_Created(self.store, path), mode="w")

    def open_append_stream(self, path: str, metadata: object) -> pa.NativeFile:
        raise NotImplementedError("files in a store are never appended to")

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: a folder is a part of the keys of its files."""

    def delete_file(self, path: str) -> None:
        self.store.delete([path])

    def delete_dir(self, path: str) -> None:
        self.store.delete(found.key for found in self.store.list(f"{path.strip('/')}/"))

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.delete_dir(path)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError("a whole store is never deleted")

    def move(self, source: str, target: str) -> None:
        self.store.move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        raise NotImplementedError("files in a store are not copied through Arrow")


class _Created:
    """A new file, visible when it is closed."""

    def __init__(self, store: Store, path: str) -> None:
        self._block = store.create(path)
        self._file = self._block.__enter__()
        self.closed = False

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Do nothing: parts are sent when they are full."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._block.__exit__(None, None, None)


def _file_info(found: ObjectFact) -> fs.FileInfo:
    return cast(
        fs.FileInfo, fs.FileInfo(found.key, fs.FileType.File, size=found.size, mtime_ns=found.modified * 1_000_000)
    )
