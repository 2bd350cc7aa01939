"""Only folders that can have matches after a path are entered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakesmith.store.globs import Glob, sorts_before, walk

PATHS = [
    *("in/a.json", "in/day=1-late.json", "in/day=1/a.json", "in/day=1/b.json", "in/day=1/x/c.json"),
    *("in/day=1x.json", "in/day=2/a.json", "in/day=2/b.json", "in/day=é/a.json", "in/day=\U0001f600/a.json"),
]


class Tree:
    """Folders that record when they are entered."""

    def __init__(self, *paths: str) -> None:
        self.paths = paths
        self.entered: list[str] = []

    def children(self, folder: str, deep: bool) -> Iterator[tuple[str, bool, None]]:
        self.entered.append(folder)
        below = [path.removeprefix(folder) for path in self.paths if path.startswith(folder)]
        for name in dict.fromkeys(path.split("/")[0] for path in below):
            yield name, name not in below, None

    def found(self, pattern: str, after: str | None) -> list[str]:
        return sorted(path for path, _ in walk(Glob(pattern), self.children, after))


@pytest.mark.parametrize("pattern", ["in/**", "in/*/*.json", "in/day=?/a.json", "**/x/*.json", "in/*.json"])
@pytest.mark.parametrize("after", ["", "in", "in/day=1", "in/day=1/", "in/day=1/a", "in/day=2/~", "j", *PATHS])
def test_a_listing_after_a_path_finds_the_later_matches_of_a_full_listing(pattern: str, after: str) -> None:
    whole = Tree(*PATHS).found(pattern, None)
    assert Tree(*PATHS).found(pattern, after) == [path for path in whole if path > after]


def test_folders_before_the_path_are_not_entered() -> None:
    tree = Tree(*(f"in/day={day:03}/{hour:02}/a.json" for day in range(100) for hour in range(24)))
    assert tree.found("in/*/*/*.json", "in/day=098/22/a.json") == [
        "in/day=098/23/a.json",
        *(f"in/day=099/{hour:02}/a.json" for hour in range(24)),
    ]
    # The landing zone, two days, and the hours of the first day from the last one on.
    assert len(tree.entered) == 1 + 2 + 2 + 24
    assert sorted(tree.entered)[1:4] == ["in/day=098/", "in/day=098/22/", "in/day=098/23/"]


def test_a_folder_without_wildcards_before_the_path_is_not_entered() -> None:
    tree = Tree("in/2025/a.json", "in/2025/b/c.json")
    assert tree.found("in/2025/*/c.json", "in/2026/") == []
    assert tree.entered == []


@pytest.mark.parametrize(
    ("folder", "after", "before"),
    [
        ("a/", "b", True),
        ("a/", "a/x", False),
        ("a/", "a", False),
        ("a/", "a.json", False),
        ("a/", "a0", True),
        ("", "z", False),
    ],
)
def test_folders_are_compared_with_a_path_by_character(folder: str, after: str, before: bool) -> None:
    assert sorts_before(folder, after) == before
