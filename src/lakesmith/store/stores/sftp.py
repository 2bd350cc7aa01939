"""Files on an SFTP server."""

from __future__ import annotations

import io
import logging
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from lakesmith.errors import DeclarationError
from lakesmith.ports import FileFact
from lakesmith.store.access import Access
from lakesmith.store.failures import failure_kind, retrying
from lakesmith.store.globs import Glob, walk
from lakesmith.store.skipped import Skip, link_not_followed, not_a_file, temporary_name

if TYPE_CHECKING:
    from remote_store import Store

_REQUEST = 255 * 1024
"""The most that OpenSSH returns per request; a server that returns less gets another request."""
_CHUNK = 1024 * 1024


class Sftp:
    """A server; keys are paths from its root."""

    def __init__(self, access: Access) -> None:
        import paramiko
        from remote_store import RetryPolicy, Store
        from remote_store.backends import SFTPBackend

        # It logs tracebacks of lost connections; the error reports them already.
        logging.getLogger("paramiko").addHandler(logging.NullHandler())
        host, _, port = access.place.partition(":")
        self._client_class = paramiko.SFTPClient
        self._backend = SFTPBackend(
            host,
            port=int(port or 22),
            username=access.get("user"),
            password=access.get("password"),
            pkey=_private_key(access.get("key_file")),
            known_host_keys=_known_hosts(access.get("known_hosts")),
            io_timeout=60.0,
            # Only `retrying` retries.
            retry=RetryPolicy(max_attempts=1),
            # Use only the given credentials: no agent and no keys of the current user.
            connect_kwargs={"allow_agent": False, "look_for_keys": False} if _has_credentials(access) else None,
        )
        self._remote_store = Store(self._backend)

    @property
    def store(self) -> Store:
        self._client()  # reconnects if needed
        return self._remote_store

    def _client(self) -> Any:
        client = self._backend.unwrap(self._client_class)
        # Each request waits for its reply. By default, TCP also delays a small one until the last is acknowledged.
        client.get_channel().get_transport().sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        for path, found in walk(glob, lambda folder, deep: self._children(base + folder), after, skip):
            mode = found.st_mode or 0
            if stat.S_ISREG(mode):
                yield FileFact(path, found.st_size or 0, (found.st_mtime or 0) * 1000)
            else:
                # Only the server could resolve a link, and it may refuse to.
                why = "links are not followed on a server"
                skip(link_not_followed(path, why) if stat.S_ISLNK(mode) else not_a_file(path, mode))

    def _children(self, folder: str) -> Iterator[tuple[str, bool | None, Any]]:
        for entry in retrying(lambda: self._entries(f"/{folder}")):
            mode = entry.st_mode or 0
            yield entry.filename, None if stat.S_ISLNK(mode) else stat.S_ISDIR(mode), entry

    def _entries(self, folder: str) -> list[Any]:
        """The attributes of each entry of a folder. Bytes of names that are not UTF-8 become lone surrogates."""
        client = self._client()
        try:
            return [*client.listdir_attr(folder)]
        except UnicodeDecodeError:  # the library supports only UTF-8 names, and fails for the folder
            return _entries_of_any_name(client, folder)
        except FileNotFoundError:
            return []

    def fetch(self, key: str) -> bytes:
        with self.stream(key) as stream:
            size, data = stream.stat().st_size, bytes(stream.read())
        if len(data) != size:
            raise ConnectionError(f"received {len(data)} of {size} bytes")
        return data

    def stream(self, key: str) -> Any:
        file = self._client().open(f"/{key}", "rb")
        # The default of 32 kB per reply is too slow over a connection with high latency.
        file.MAX_REQUEST_SIZE = _REQUEST
        return file

    def create(self, key: str, file: BinaryIO, size: int, on_progress: Callable[[int], None]) -> None:
        folder, _, name = key.rpartition("/")
        temporary = f"{folder}/{temporary_name(name)}"
        try:
            retrying(lambda: self._upload(temporary, file, on_progress))
            retrying(lambda: self._promote(temporary, key))
        finally:
            with suppress(Exception):
                self.store.delete(temporary, missing_ok=True)

    def _upload(self, key: str, file: BinaryIO, on_progress: Callable[[int], None]) -> None:
        file.seek(0)
        sent = 0
        self.store.write(key, b"", overwrite=True)  # makes the folders too
        with self._client().open(f"/{key}", "wb") as target:
            target.set_pipelined(True)  # do not wait for each reply
            while chunk := file.read(_CHUNK):
                target.write(chunk)
                sent += len(chunk)
                on_progress(sent)

    def _promote(self, temporary: str, key: str) -> None:
        """Rename the temporary file. Unlike remote-store, this never replaces a file: servers refuse it."""
        try:
            self._client().rename(f"/{temporary}", f"/{key}")
        except OSError as error:
            if failure_kind(error) == "denied" or not self.store.exists(key):
                raise
            if self.store.exists(temporary):
                raise FileExistsError(key) from None
            # The reply to the first attempt was lost, and this is the retry: the first one succeeded.


def _entries_of_any_name(client: Any, folder: str) -> list[Any]:
    from paramiko import sftp
    from paramiko.sftp_attr import SFTPAttributes

    _, answer = client._request(sftp.CMD_OPENDIR, folder)
    handle = answer.get_binary()
    entries = []
    while True:
        try:
            _, answer = client._request(sftp.CMD_READDIR, handle)
        except EOFError:
            break
        for _ in range(answer.get_int()):
            name, long_name = (answer.get_string().decode("utf-8", "surrogateescape") for _ in range(2))
            entry = SFTPAttributes._from_msg(answer, name, long_name)
            if name not in (".", ".."):
                entries.append(entry)
    client._request(sftp.CMD_CLOSE, handle)
    return entries


def _has_credentials(access: Access) -> bool:
    return bool(access.get("password") or access.get("key_file"))


def _private_key(setting: str | None) -> Any:
    """The key in a file, or the key itself, as from `file:` in a declaration."""
    if setting is None:
        return None
    import paramiko

    text = setting if "-----BEGIN" in setting else _text_of(setting)
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with suppress(paramiko.SSHException, ValueError):
            return kind.from_private_key(io.StringIO(text))
    raise DeclarationError(
        "bad-key-file",
        "key_file is not a usable private key",
        hint="give an OpenSSH or PEM key (Ed25519, ECDSA or RSA) without a passphrase",
    )


def _known_hosts(setting: str | None) -> str | None:
    """The lines of a file, or the lines themselves; None for the user's own file."""
    return setting if setting is None or " ssh-" in setting or " ecdsa-" in setting else _text_of(setting)


def _text_of(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(
            "bad-key-file",
            f"cannot read {path}",
            hint="key_file and known_hosts are paths, or file:PATH for a path relative to the lake's folder",
        ) from error
