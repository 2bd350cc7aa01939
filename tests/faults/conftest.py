"""Tests that mount disks need to be root: whoever is not becomes it in a namespace, where it means nothing outside."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.faults.disks import is_root


class InNamespace(pytest.Item):
    """A test that a process of its own runs, as root of a namespace."""

    def runtest(self) -> None:
        command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", self.nodeid]
        answer = subprocess.run(command, cwd=self.config.rootpath, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout[-5000:] + answer.stderr[-2000:]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if is_root():
        return
    for at, item in enumerate(items):
        if item.parent is not None and item.get_closest_marker("mounts") is not None:
            items[at] = moved = InNamespace.from_parent(item.parent, name=item.name)
            moved.own_markers.extend(item.iter_markers())
