"""Lakes for tests: a few files in a folder, loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lakesmith.declare import LakeDeclaration
from lakesmith.errors import LakesmithError, Problems
from lakesmith.load import load_lake

Load = Callable[..., LakeDeclaration]
Reject = Callable[..., list[LakesmithError]]


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files below the folder, and a lakesmith.yml if it is missing."""
    for name, text in {"lakesmith.yml": "name: shop\n", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Load a lake of these files."""

    def loaded(
        files: Mapping[str, str | bytes],
        environment: str | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> LakeDeclaration:
        return load_lake(write(tmp_path, files), environment=environment, variables=variables)

    return loaded


@pytest.fixture
def reject(load: Load) -> Reject:
    """Return the errors of loading a lake of these files, in order."""

    def rejected(files: Mapping[str, str | bytes], **how: object) -> list[LakesmithError]:
        with pytest.raises(LakesmithError) as caught:
            load(files, **how)
        error = caught.value
        return list(error.errors) if isinstance(error, Problems) else [error]

    return rejected
