"""S3 and compatible stores."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

from lakesmith.ports import FileFact
from lakesmith.store.access import Access
from lakesmith.store.failures import WRITE, failure_kind, retrying
from lakesmith.store.globs import Glob
from lakesmith.store.skipped import Skip, hidden

_PART = 8 * 1024 * 1024
_MAX_PARTS = 9000
"""S3 allows ten thousand; a file that grows a little must not fail at its end."""


class S3:
    """A bucket."""

    def __init__(self, access: Access) -> None:
        import s3fs
        from remote_store import Store
        from remote_store.backends import S3Backend

        options: dict[str, Any] = {
            # Only `retrying` retries: three layers with five attempts each would take minutes.
            "config_kwargs": {"retries": {"total_max_attempts": 1}},
            # Reads are large already: reading ahead would fetch unused bytes.
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
        # remote-store has no listings by page and no conditional puts.
        self._s3 = backend.unwrap(s3fs.S3FileSystem)
        self._s3.retries = 1

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        parameters = {"Bucket": self._bucket, "Prefix": base + glob.prefix}
        if glob.is_flat:  # the store skips folders below, such as an archive
            parameters["Delimiter"] = "/"
        if after is not None:  # a bucket is sorted by the bytes of its keys
            parameters["StartAfter"] = base + after
        page: dict[str, Any] = {"IsTruncated": True}
        while page["IsTruncated"]:
            if "NextContinuationToken" in page:
                parameters["ContinuationToken"] = page["NextContinuationToken"]
            page = retrying(lambda: self._s3.call_s3("list_objects_v2", **parameters))
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

    def create(self, key: str, file: BinaryIO, size: int, on_progress: Callable[[int], None]) -> None:
        write = uuid.uuid4().hex
        try:
            self._put(key, file, size, on_progress, {WRITE: write})
        except Exception as error:
            # If the reply to the first attempt was lost, the retry finds that file under the name. Some stores report a
            # completed multipart upload as missing.
            if failure_kind(error) not in ("exists", "missing") or self._write_of(key) != write:
                raise

    def _write_of(self, key: str) -> str | None:
        """The id of the write that created a file."""
        try:
            found = retrying(lambda: self._s3.call_s3("head_object", Bucket=self._bucket, Key=key))
        except Exception as error:
            if failure_kind(error) != "missing":
                raise
            return None
        written: str | None = found["Metadata"].get(WRITE)
        return written

    def _put(
        self, key: str, file: BinaryIO, size: int, on_progress: Callable[[int], None], metadata: dict[str, str]
    ) -> None:
        part = max(_PART, size // _MAX_PARTS)
        first = file.read(part)
        target = {"Bucket": self._bucket, "Key": key}
        if len(first) < part:
            put = {"Body": first, "Metadata": metadata, "IfNoneMatch": "*", **target}
            retrying(lambda: self._s3.call_s3("put_object", **put))
            on_progress(len(first))
            return
        upload = retrying(lambda: self._s3.call_s3("create_multipart_upload", Metadata=metadata, **target))
        target["UploadId"] = upload["UploadId"]
        try:
            parts = list(self._parts(target, first, file, part, on_progress))
            retrying(
                lambda: self._s3.call_s3(
                    "complete_multipart_upload", MultipartUpload={"Parts": parts}, IfNoneMatch="*", **target
                )
            )
        except BaseException:
            self._abort(target)
            raise

    def _abort(self, target: dict[str, str]) -> None:
        with suppress(Exception):  # report the first error, even if the parts stay in the store
            self._s3.call_s3("abort_multipart_upload", **target)

    def _parts(
        self, target: dict[str, str], first: bytes, file: BinaryIO, part: int, on_progress: Callable[[int], None]
    ) -> Iterator[dict[str, object]]:
        sent, number, chunk = 0, 0, first
        while chunk:
            number += 1
            answer = retrying(partial(self._s3.call_s3, "upload_part", Body=chunk, PartNumber=number, **target))
            yield {"PartNumber": number, "ETag": answer["ETag"]}
            sent += len(chunk)
            on_progress(sent)
            chunk = file.read(part)
