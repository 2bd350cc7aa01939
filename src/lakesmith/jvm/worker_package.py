"""Sends this package to Spark's Python workers, so that a cluster needs only Python, PyArrow and NumPy."""

from __future__ import annotations

import os
import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from lakesmith.jvm.java import cache_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The same content is the same file: Spark refuses another file of the same name."""


def ship_package(session: SparkSession) -> None:
    """Make the package importable in the workers of a cluster or of a Spark Connect server."""
    session.addArtifacts(str(package_zip()), pyfile=True)


def package_zip() -> Path:
    """The package's Python files as a zip file in the cache."""
    package = Path(__file__).parent.parent
    files = {path.relative_to(package.parent).as_posix(): path.read_bytes() for path in sorted(package.rglob("*.py"))}
    digest = sha256()
    for name, content in files.items():
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    packed = cache_folder() / "packages" / f"lakesmith-{digest.hexdigest()[:16]}.zip"
    if not packed.is_file():
        packed.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=packed.parent) as folder:
            made = Path(folder) / packed.name
            with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in files.items():
                    archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
            os.replace(made, packed)
    return packed
