"""S3 and what speaks like it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from lakesmith.ports import FileFact
from lakesmith.storage.access import Access
from lakesmith.storage.failures import WRITE, kind_of, retrying
from lakesmith.storage.globs import Glob
from lakesmith.storage.skipped import Skip, hidden

_PART = 8 * 1024 * 1024
_MOST_PARTS = 9000
"""S3 takes ten thousand; a file that grows a little must not fail at its end."""


class S3:
    """A bucket."""

    def __init__(self, access: Access) -> None:
        import s3fs
        from remote_store import Store
        from remote_store.backends import S3Backend

        options: dict[str, Any] = {
            # `patiently` is the only one that tries again: three who each try five times would take minutes.
            "config_kwargs": {"retries": {"total_max_attempts": 1}},
            # What is read is read in large pieces: more, read ahead, would be fetched for nothing.
            "default_cache_type": "none",
        }
        if token := access.get("session_token"):
            options["token"] = token
        backend = S3Backend(
            access.place,
            endpoint_url=access.get("endpoint"),
            key=access.get("key"),
            secret=access.get("secret"),
            region_name=access.get("region"),
            client_options=options,
        )
        self.store = Store(backend)
        self._bucket = access.place
        # Listings in pages and conditional puts are what remote-store has no call for.
        self._s3 = backend.unwrap(s3fs.S3FileSystem)
        self._s3.retries = 1

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        wanted = {"Bucket": self._bucket, "Prefix": base + glob.prefix}
        if glob.is_flat:  # folders below, such as an archive, are passed over by the store
            wanted["Delimiter"] = "/"
        if after is not None:  # a bucket is sorted by the bytes of its keys, which is the order of their letters
            wanted["StartAfter"] = base + after
        page: dict[str, Any] = {"IsTruncated": True}
        while page["IsTruncated"]:
            if "NextContinuationToken" in page:
                wanted["ContinuationToken"] = page["NextContinuationToken"]
            page = retrying(lambda: self._s3.call_s3("list_objects_v2", **wanted))
            for found in page.get("Contents", ()):
                path = found["Key"][len(base) :]
                if glob.matches(path):
                    yield FileFact(path, found["Size"], int(found["LastModified"].timestamp() * 1000))
                elif by := glob.hidden_in(path):
                    skip(hidden(by))

    def fetch(self, key: str) -> bytes:
        return self.store.read_bytes(key)

    def stream(self, key: str) -> BinaryIO:
        return self.store.read(key)

    def create(self, key: str, file: BinaryIO, size: int, tell: Callable[[int], None]) -> None:
        write = uuid.uuid4().hex
        try:
            self._put(key, file, size, tell, {WRITE: write})
        except Exception as error:
            # Where the answer to the first try was lost, the second one finds that the name is taken: by the first. Of
            # an upload in parts that was completed, some stores know nothing any more.
            if kind_of(error) not in ("taken", "missing") or self._write_of(key) != write:
                raise

    def _write_of(self, key: str) -> str | None:
        """Which write has made a file."""
        try:
            found = retrying(lambda: self._s3.call_s3("head_object", Bucket=self._bucket, Key=key))
        except Exception as error:
            if kind_of(error) != "missing":
                raise
            return None
        written: str | None = found["Metadata"].get(WRITE)
        return written

    def _put(self, key: str, file: BinaryIO, size: int, tell: Callable[[int], None], metadata: dict[str, str]) -> None:
        part = max(_PART, size // _MOST_PARTS)
        first = file.read(part)
        target = {"Bucket": self._bucket, "Key": key}
        if len(first) < part:
            put = {"Body": first, "Metadata": metadata, "IfNoneMatch": "*", **target}
            retrying(lambda: self._s3.call_s3("put_object", **put))
            tell(len(first))
            return
        upload = retrying(lambda: self._s3.call_s3("create_multipart_upload", Metadata=metadata, **target))
        target["UploadId"] = upload["UploadId"]
        try:
            parts = list(self._parts(target, first, file, part, tell))
            retrying(
                lambda: self._s3.call_s3(
                    "complete_multipart_upload", MultipartUpload={"Parts": parts}, IfNoneMatch="*", **target
                )
            )
        except BaseException:
            self._abort(target)
            raise

    def _abort(self, target: dict[str, str]) -> None:
        with suppress(Exception):  # a store that does not answer keeps the parts; what went wrong first is told
            self._s3.call_s3("abort_multipart_upload", **target)

    def _parts(
        self, target: dict[str, str], first: bytes, file: BinaryIO, part: int, tell: Callable[[int], None]
    ) -> Iterator[dict[str, object]]:
        sent, number, chunk = 0, 0, first
        while chunk:
            number += 1
            answer = retrying(partial(self._s3.call_s3, "upload_part", Body=chunk, PartNumber=number, **target))
            yield {"PartNumber": number, "ETag": answer["ETag"]}
            sent += len(chunk)
            tell(sent)
            chunk = file.read(part)
