"""A folder on a server that speaks SFTP."""

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
from lakesmith.storage.access import Access
from lakesmith.storage.failures import kind_of, retrying
from lakesmith.storage.globs import Glob, walk
from lakesmith.storage.skipped import Skip, link_not_followed, not_a_file, temporary_name

if TYPE_CHECKING:
    from remote_store import Store

_REQUEST = 255 * 1024
"""As much as OpenSSH gives at a time; a server that gives less is asked again."""
_CHUNK = 1024 * 1024


class Sftp:
    """A server; keys are paths from its root."""

    def __init__(self, access: Access) -> None:
        import paramiko
        from remote_store import RetryPolicy, Store
        from remote_store.backends import SFTPBackend

        # It writes tracebacks of lost connections to whoever listens; what went wrong is told by the error.
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
            # `patiently` is the only one that tries again.
            retry=RetryPolicy(max_attempts=1),
            # What is not set is not used: no agent and no key of the user who happens to run it.
            connect_kwargs={"allow_agent": False, "look_for_keys": False} if _has_credentials(access) else None,
        )
        self._remote_store = Store(self._backend)

    @property
    def store(self) -> Store:
        self._client()  # however it is connected by now
        return self._remote_store

    def _client(self) -> Any:
        client = self._backend.unwrap(self._client_class)
        # Each request waits for its answer; by default, a small one is also held back until the last is confirmed.
        client.get_channel().get_transport().sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        for path, found in walk(glob, lambda folder, deep: self._children(base + folder), after, skip):
            mode = found.st_mode or 0
            if stat.S_ISREG(mode):
                yield FileFact(path, found.st_size or 0, (found.st_mtime or 0) * 1000)
            else:
                # Where a link leads is for the server to say, and it need not tell.
                why = "links are not followed on a server"
                skip(link_not_followed(path, why) if stat.S_ISLNK(mode) else not_a_file(path, mode))

    def _children(self, folder: str) -> Iterator[tuple[str, bool | None, Any]]:
        for entry in retrying(lambda: self._entries(f"/{folder}")):
            mode = entry.st_mode or 0
            yield entry.filename, None if stat.S_ISLNK(mode) else stat.S_ISDIR(mode), entry

    def _entries(self, folder: str) -> list[Any]:
        """The attributes of each name in a folder; bytes of a name that are not UTF-8 are lone surrogates in it."""
        client = self._client()
        try:
            return [*client.listdir_attr(folder)]
        except UnicodeDecodeError:  # the library reads names as UTF-8 only, and gives up the whole folder
            return _entries_of_any_name(client, folder)
        except FileNotFoundError:
            return []

    def fetch(self, key: str) -> bytes:
        with self.stream(key) as stream:
            size, data = stream.stat().st_size, bytes(stream.read())
        if len(data) != size:
            raise ConnectionError(f"{len(data)} of {size} bytes came")
        return data

    def stream(self, key: str) -> Any:
        file = self._client().open(f"/{key}", "rb")
        # One answer for each 32 kB, as it is by default, would take for ever over a long line.
        file.MAX_REQUEST_SIZE = _REQUEST
        return file

    def create(self, key: str, file: BinaryIO, size: int, tell: Callable[[int], None]) -> None:
        folder, _, name = key.rpartition("/")
        temporary = f"{folder}/{temporary_name(name)}"
        try:
            retrying(lambda: self._upload(temporary, file, tell))
            retrying(lambda: self._promote(temporary, key))
        finally:
            with suppress(Exception):
                self.store.delete(temporary, missing_ok=True)

    def _upload(self, key: str, file: BinaryIO, tell: Callable[[int], None]) -> None:
        file.seek(0)
        sent = 0
        self.store.write(key, b"", overwrite=True)  # makes the folders too
        with self._client().open(f"/{key}", "wb") as target:
            target.set_pipelined(True)  # no waiting for each answer
            while chunk := file.read(_CHUNK):
                target.write(chunk)
                sent += len(chunk)
                tell(sent)

    def _promote(self, temporary: str, key: str) -> None:
        """Give the file its name. Unlike what remote-store does, this never replaces a file: servers refuse it."""
        try:
            self._client().rename(f"/{temporary}", f"/{key}")
        except OSError as error:
            if kind_of(error) == "denied" or not self.store.exists(key):
                raise
            if self.store.exists(temporary):
                raise FileExistsError(key) from None
            # An answer was lost on the way, and this is the second try: the first one did it.


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


def _private_key(given: str | None) -> Any:
    """The key in a file, or the key itself, as `file:` in a declaration gives it."""
    if given is None:
        return None
    import paramiko

    text = given if "-----BEGIN" in given else _text_of(given)
    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with suppress(paramiko.SSHException, ValueError):
            return kind.from_private_key(io.StringIO(text))
    raise DeclarationError(
        "bad-key-file",
        "key_file is not a private key that can be used",
        hint="give an OpenSSH or PEM key (Ed25519, ECDSA or RSA) without a passphrase",
    )


def _known_hosts(given: str | None) -> str | None:
    """The lines of a file, or the lines themselves; None means the user's own."""
    return given if given is None or " ssh-" in given or " ecdsa-" in given else _text_of(given)


def _text_of(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise DeclarationError(
            "bad-key-file",
            f"{path} cannot be read",
            hint="key_file and known_hosts are paths, or file:PATH for a path that starts at the lake's folder",
        ) from error
