"""Finds the store of a URL and the settings to connect with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakesmith.errors import DeclarationError, did_you_mean

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "s3": ("endpoint", "key", "secret", "session_token", "region"),
    "az": ("account", "account_key", "sas_token", "connection_string", "endpoint", "allow_plain_http"),
    "gs": ("service_account", "endpoint"),
    "sftp": ("user", "password", "key_file", "known_hosts"),
    "http": ("token", "headers", "allow_plain_http"),
}
"""The settings of each kind of store."""

_KINDS = {
    "s3": "s3",
    "s3a": "s3",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "gs": "gs",
    "sftp": "sftp",
    "http": "http",
    "https": "http",
}
_PUBLIC = ("endpoint", "region", "account", "user", "known_hosts", "allow_plain_http")


@dataclass(frozen=True, slots=True)
class Access:
    """How to connect to one bucket, container or server. Its `repr` shows no setting."""

    kind: str
    """One of `SETTINGS`."""
    url: str
    """The URL of the bucket, container or server, without a slash at the end."""
    place: str
    """The bucket or container; `host:port` of a server."""
    settings: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Access({self.url})"

    def get(self, name: str) -> str | None:
        return dict(self.settings).get(name)

    def hidden(self, text: str) -> str:
        """The text with the values of secret settings replaced by `***`."""
        for name, value in self.settings:
            if name not in _PUBLIC and value:
                text = text.replace(value, "***")
        return text


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder of a bucket, container or server: the root of a store."""

    access: Access
    path: str = ""
    """Without slashes at its ends; empty for the whole bucket."""

    def __repr__(self) -> str:
        return self.url

    @property
    def url(self) -> str:
        return self.shown(self.path).rstrip("/")

    @property
    def prefix(self) -> str:
        """What the names of all files in the folder start with."""
        return f"{self.path}/" if self.path else ""

    def location(self, key: str) -> str:
        """The URL of a file; a key may be one already."""
        return key if "://" in key else self.shown(self.prefix + key)

    def shown(self, name: str) -> str:
        """The URL of a file by its name in the bucket."""
        return f"{self.access.url}/{name}"

    def split(self, path: str) -> tuple[str, str]:
        """The folder of a path, with a slash at its end, and the path below it; for a URL, the folder is empty."""
        if path.startswith(f"{self.access.url}/"):
            return "", path.removeprefix(f"{self.access.url}/")
        return self.prefix, path

    def name(self, path: str) -> str:
        """The name of a file in the bucket."""
        return "".join(self.split(path))


def is_remote(url: str) -> bool:
    return "://" in url and not url.startswith("file://")


def find_access(url: str, settings: Mapping[str, Mapping[str, str]]) -> RemoteFolder:
    """The folder of a URL, and how to connect. `?` and `#` have no special meaning: the URL may be a glob."""
    scheme, _, rest = url.partition("://")
    kind = _KINDS.get(scheme.lower())
    if kind is None:
        raise DeclarationError(
            "unknown-storage",
            f"'{scheme}://' storage is not supported",
            hint=f"use a folder, or one of {', '.join(f'{each}://' for each in _KINDS)}",
        )
    place, _, path = rest.partition("/")
    if not place:
        raise DeclarationError("bad-path", f"'{url}' names no store", hint="s3://bucket/folder")
    root = f"{scheme}://{place}"
    options = _given(kind, f"{scheme.lower()}://{rest}", settings)
    if kind == "az":
        place, _, host = place.partition("@")
        options = ({"account": host.partition(".")[0]} if host else {}) | options
    elif kind == "sftp":
        user, _, place = place.rpartition("@")
        options = ({"user": user} if user else {}) | options
    return RemoteFolder(Access(kind, root, place, tuple(sorted(options.items()))), path.strip("/"))


def _given(kind: str, url: str, settings: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The settings of the longest prefix of the URL. Secrets are resolved when they are read."""
    matching = [key for key in settings if _has_prefix(url, key)]
    if not matching:
        return {}
    nearest = max(matching, key=len)
    for name in settings[nearest]:
        if name not in SETTINGS[kind]:
            raise DeclarationError(
                "unknown-key",
                f"storage '{nearest}' has the key '{name}', which {url.partition('://')[0]}:// does not support",
                hint=did_you_mean(name, SETTINGS[kind], label="keys"),
            )
    return dict(settings[nearest])


def _has_prefix(url: str, key: str) -> bool:
    """Whether the key is a prefix of the URL that ends at the end of a name. `s3a` and `s3` are the same store."""
    url_scheme, _, url_rest = url.partition("://")
    key_scheme, _, key_rest = key.partition("://")
    key_rest = key_rest.rstrip("/")
    if url_scheme != key_scheme.lower() and {url_scheme, key_scheme.lower()} not in _SAME:
        return False
    return not key_rest or url_rest == key_rest or url_rest.startswith((f"{key_rest}/", f"{key_rest}@"))


_SAME = ({"s3", "s3a"}, {"az", "abfs"}, {"az", "abfss"}, {"abfs", "abfss"})
