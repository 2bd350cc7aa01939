"""Files on a web server: readable, and listable where it serves index pages."""

from __future__ import annotations

import html.parser
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO
from urllib.parse import quote, unquote, urljoin, urlsplit

from lakesmith.errors import DeclarationError, InfrastructureError
from lakesmith.ports import FileFact
from lakesmith.store.access import Access
from lakesmith.store.failures import failure_kind, retrying
from lakesmith.store.globs import Glob, walk
from lakesmith.store.skipped import Skip, not_a_file


class Http:
    """A web server; keys are the paths of its URLs."""

    def __init__(self, access: Access) -> None:
        import requests
        from remote_store import Store
        from remote_store.backends import ReadOnlyHttpBackend

        # Uncompressed: otherwise a server may report the sizes of compressed files.
        headers = {"Accept-Encoding": "identity", **_headers(access.get("headers"))}
        if token := access.get("token"):
            headers["Authorization"] = f"Bearer {token}"
        self._url = f"{access.url}/"
        # A redirect sends no token to another server, but it would send headers.
        redirects = 0 if access.get("headers") else 5
        backend = ReadOnlyHttpBackend(self._url, headers=headers, http_client="requests", max_redirects=redirects)
        self.store = Store(backend)
        # remote-store cannot read index pages: it accepts no URL that ends with a slash.
        self._session = requests.Session()
        self._session.max_redirects = redirects
        self._session.headers.update(headers)

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        if glob.is_path:
            paths = [glob.text]
        else:
            paths = []
            for path, is_folder in walk(glob, lambda folder, deep: self._children(base, folder), after, skip):
                if is_folder:
                    skip(not_a_file(path, stat.S_IFDIR))
                else:
                    paths.append(path)
        for path in paths:
            try:
                info = retrying(partial(self.store.get_file_info, base + path))
            except Exception as error:
                if failure_kind(error) != "missing":
                    raise
                continue
            yield FileFact(path, info.size, max(0, int(info.modified_at.timestamp() * 1000)))

    def _children(self, base: str, folder: str) -> Iterator[tuple[str, bool, bool]]:
        """The entries directly below a folder, from the links of an index page of Apache, nginx and others."""
        here = self._url + quote(base + folder)
        try:
            page = retrying(lambda: self._page(here))
        except Exception as error:
            if failure_kind(error) != "missing":
                raise
            return
        links = _Links()
        links.feed(page)
        begin = urlsplit(here).path
        for link in dict.fromkeys(urljoin(here, link).partition("?")[0].partition("#")[0] for link in links.found):
            path = urlsplit(link).path
            name = unquote(path.removeprefix(begin).rstrip("/"), errors="surrogateescape")
            if link.startswith(self._url) and path.startswith(begin) and name and "/" not in name:
                yield name, path.endswith("/"), path.endswith("/")

    def _page(self, url: str) -> str:
        answer = self._session.get(url, timeout=30)
        answer.raise_for_status()
        return answer.text

    def fetch(self, key: str) -> bytes:
        return self.store.read_bytes(key)

    def stream(self, key: str) -> BinaryIO:
        return self.store.read(key)

    def create(self, key: str, file: BinaryIO, size: int, on_progress: Callable[[int], None]) -> None:
        raise InfrastructureError(
            "storage-read-only",
            f"cannot write {self._url}{key}: web servers are read-only",
            hint="land files in a folder, s3://, az:// or sftp://",
        )


class _Links(html.parser.HTMLParser):
    """Collects the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _headers(written: str | None) -> dict[str, str]:
    """Parse headers: one `Name: value` per line."""
    headers = {}
    for line in (written or "").splitlines():
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise DeclarationError(
                "bad-headers", "headers has a line that is not 'Name: value'", hint="headers: 'X-Api-Key: env:KEY'"
            )
        headers[name.strip()] = value.strip()
    return headers
