"""Azure's blob storage."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO

from lakesmith.errors import DeclarationError
from lakesmith.ports import FileFact
from lakesmith.store.access import Access
from lakesmith.store.failures import WRITE, failure_kind, retrying
from lakesmith.store.globs import Glob, walk
from lakesmith.store.skipped import Skip, hidden

_BLOCK = 8 * 1024 * 1024
_MAX_BLOCKS = 45_000


class Azure:
    """A container."""

    def __init__(self, access: Access) -> None:
        from azure.storage.blob import BlobServiceClient, LinearRetry
        from remote_store import Store
        from remote_store.backends import AzureBackend

        # Only `retrying` retries.
        options: dict[str, Any] = {
            "retry_policy": LinearRetry(retry_total=0),
            "connection_timeout": 10,
            "read_timeout": 60,
        }
        connection, account = access.get("connection_string"), access.get("account")
        endpoint = access.get("endpoint") or (f"https://{account}.blob.core.windows.net" if account else "")
        if not connection and not endpoint:
            raise DeclarationError(
                "missing-key",
                f"the account of {access.url} is missing",
                hint=f"add account: or connection_string: below storage: '{access.url}' of the environment",
            )
        credential: Any = access.get("account_key") or access.get("sas_token")
        if not connection and not credential:
            from azure.identity import DefaultAzureCredential

            credential = DefaultAzureCredential()
        backend = AzureBackend(
            access.place,
            hns=False,
            account_url=endpoint or None,
            connection_string=connection,
            credential=credential,
            client_options=options,
        )
        self.store = Store(backend)
        # remote-store has no conditional puts, and its listings show a missing container as an empty one.
        service = (
            BlobServiceClient.from_connection_string(connection, **options)
            if connection
            else BlobServiceClient(endpoint, credential=credential, **options)
        )
        self._container = service.get_container_client(access.place)

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        prefix = base + glob.prefix
        if glob.is_flat:
            listed = self._blobs(self._container.walk_blobs(prefix))
        elif after is None:
            listed = self._blobs(self._container.list_blobs(prefix))
        else:
            # Folder by folder, so that old ones are not listed. `startFrom` would need one request, but servers from
            # before 2026 ignore it, and real folders are not sorted by full names.
            listed = (blob for _, blob in walk(glob, lambda folder, deep: self._children(base + folder), after, skip))
        for blob in listed:
            path = blob.name[len(base) :]
            if hasattr(blob, "prefix"):
                continue
            if glob.matches(path):
                yield FileFact(path, blob.size, int(blob.last_modified.timestamp() * 1000))
            elif by := glob.hidden_in(path):
                skip(hidden(by))

    def _children(self, folder: str) -> Iterator[tuple[str, bool, Any]]:
        for blob in self._blobs(self._container.walk_blobs(folder)):
            name = blob.name[len(folder) :]
            yield name.rstrip("/"), hasattr(blob, "prefix"), blob

    def _blobs(self, listed: Any) -> Iterator[Any]:
        pages = listed.by_page()
        while (page := retrying(lambda: next(pages, None))) is not None:
            yield from page

    def fetch(self, key: str) -> bytes:
        return self.store.read_bytes(key)

    def stream(self, key: str) -> BinaryIO:
        return self.store.read_seekable(key)

    def create(self, key: str, file: BinaryIO, size: int, on_progress: Callable[[int], None]) -> None:
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock

        block = max(_BLOCK, size // _MAX_BLOCKS)
        target = self._container.get_blob_client(key)
        blocks: list[BlobBlock] = []
        sent = 0
        while chunk := file.read(block):
            blocks.append(BlobBlock(f"{len(blocks):08d}"))
            retrying(partial(target.stage_block, blocks[-1].id, chunk))
            sent += len(chunk)
            on_progress(sent)
        # Now the file becomes visible, but only if the name does not exist.
        metadata, missing = {WRITE: uuid.uuid4().hex}, MatchConditions.IfMissing
        try:
            retrying(lambda: target.commit_block_list(blocks, metadata=metadata, match_condition=missing))
        except Exception as error:
            # If the reply to the first attempt was lost, the retry finds that file under the name.
            if failure_kind(error) != "exists" or retrying(target.get_blob_properties).metadata != metadata:
                raise
