"""Each entry of a landing folder is listed or skipped with a reason, and every listing ends."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.ports import SkippedEntry, Store
from lakesmith.store import LocalStore, foreign_entries, landing_store
from lakesmith.store.globs import Glob
from lakesmith.store.skipped import temporary_name

ODD_NAMES = [
    *("a b.json", "a\nb.json", "a\tb.json", "a\rb.json", "a'b.json", 'a"b.json', "a\\b.json", "a`b.json"),
    *("100%.json", "%41.json", "a#b.json", "a?b.json", "a*b.json", "[a].json", "{a,b}.json", "a=b.json", "-rf.json"),
    *("--.json", "~.json", "$HOME.json", "a;b.json", "a|b.json", "a:b.json", "a&b.json", "C:.json", "😀.json"),
    *("caf\u00e9.json", "cafe\u0301.json", "A.json", "a.json", "lakesmith-abort.json", "\u202e.json", "\x1b[2J.json"),
    *(" .json", "l" * 250 + ".json", "é" * 125 + ".json", "\u2028.json", "\u00a0.json", "a..json", "a.json.json"),
]
NOT_UTF8 = [b"caf\xe9.json", b"\xff.json", b"\xed\xa0\x80.json", b"a\x80b.json"]


def listed(folder: Path, pattern: str, **how: str) -> tuple[list[str], dict[str, str]]:
    """Return the listed paths, and the codes of skipped ones by path."""
    storage, glob = landing_store(pattern, str(folder), {}, **how)  # type: ignore[arg-type]
    skipped: set[SkippedEntry] = set()
    files = [file.path for file in storage.find(glob, None, None, skipped.add)]
    assert len({entry.path for entry in skipped}) == len(skipped)
    for entry in skipped:
        entry.path.encode()
        assert entry.why
    return files, {entry.path: entry.code for entry in skipped}


def test_files_with_any_name_are_listed_and_read(tmp_path: Path) -> None:
    for name in ODD_NAMES:
        (tmp_path / name).write_text(name)
    for pattern in ("*.json", f"{tmp_path}/*.json"):
        storage, glob = landing_store(pattern, str(tmp_path), {})
        found = list(storage.find(glob))
        assert sorted(os.path.basename(file.path) for file in found) == sorted(ODD_NAMES)
        for file in found:
            with storage.open(file.path, file) as opened:
                assert opened.read().decode() == os.path.basename(file.path)


@pytest.mark.parametrize("pattern", ["*.json", "**/*.json", "**"])
def test_a_name_that_is_not_utf8_is_skipped_and_named(tmp_path: Path, pattern: str) -> None:
    for name in NOT_UTF8:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    (tmp_path / "good.json").touch()
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xe9"))
    folder.mkdir()
    (folder / "a.json").touch()
    names = {"caf\\xe9.json", "\\xff.json", "\\xed\\xa0\\x80.json", "a\\x80b.json"}
    files, skipped = listed(tmp_path, pattern)
    assert files == ["good.json"]
    assert skipped == dict.fromkeys(names | ({"d\\xe9"} if "**" in pattern else set()), "name-not-utf8")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # a socket address has at most about a hundred bytes
        made.bind(path.name)


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _hidden(path: Path) -> None:
    path.with_name(f".{path.name}").touch()
    path.with_name(f"_{path.name}").touch()


KINDS: dict[str, tuple[Callable[[Path], None], dict[str, str]]] = {
    "a FIFO": (_fifo, {"in/x.json": "not-a-file"}),
    "a socket": (_socket, {"in/x.json": "not-a-file"}),
    "a folder": (Path.mkdir, {"in/x.json": "not-a-file"}),
    "hidden files": (_hidden, {"in/.x.json": "hidden-name", "in/_x.json": "hidden-name"}),
    "a dangling link": (_link("nothing.json"), {"in/x.json": "broken-link"}),
    "a link through a file": (_link("good.json/x"), {"in/x.json": "broken-link"}),
    "a link to itself": (_link("x.json"), {"in/x.json": "link-loop"}),
    "a link to a folder": (_link("."), {"in/x.json": "link-not-followed"}),
    "a link to a device": (_link("/dev/null"), {"in/x.json": "not-a-file"}),
    "a link to a file outside": (_link("../outside.json"), {"in/x.json": "link-outside"}),
    "a link to a file outside, absolute": (_link("/etc/hostname"), {"in/x.json": "link-outside"}),
}


@pytest.mark.parametrize(("make", "expected"), KINDS.values(), ids=KINDS)
def test_entries_that_are_not_files_are_skipped_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], expected: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.json").touch()
    (tmp_path / "outside.json").touch()
    make(tmp_path / "in" / "x.json")
    files, skipped = listed(tmp_path, "in/*.json")
    assert (files, skipped) == (["in/good.json"], expected)
    assert "in/good.json" in listed(tmp_path, "in/**")[0]
    assert listed(tmp_path, "in/x.json")[0] == []  # named without wildcards


def test_link_loops_do_not_break_a_listing(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "day").mkdir(parents=True)
    (folder / "day" / "a.json").touch()
    (folder / "b").symlink_to("c")
    (folder / "c").symlink_to("b")
    (folder / "up").symlink_to("..")
    (folder / "self").symlink_to(".")
    (folder / "other").symlink_to("day")
    loops = {"in/b": "link-loop", "in/c": "link-loop", "in/up": "link-loop", "in/self": "link-loop"}
    assert listed(tmp_path, "in/*/*.json") == (["in/day/a.json", "in/other/a.json"], loops)
    files, skipped = listed(tmp_path, "in/**/*.json")
    assert files == ["in/day/a.json"]
    assert skipped == {
        **dict.fromkeys(("in/up", "in/self", "in/other"), "link-not-followed"),
        **dict.fromkeys(("in/b", "in/c"), "link-loop"),
    }


def test_links_must_not_leave_the_folder_of_the_glob_unless_allowed(tmp_path: Path) -> None:
    real = tmp_path / "disk"
    (real / "sub").mkdir(parents=True)
    (real / "a.json").touch()
    (tmp_path / "in").symlink_to("disk")  # the landing folder itself can be a link
    (real / "b.json").symlink_to("a.json")
    (real / "sub" / "c.json").symlink_to("../a.json")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "d.json").touch()
    (real / "out").symlink_to(tmp_path / "elsewhere")
    (real / "d.json").symlink_to(tmp_path / "elsewhere" / "d.json")
    (tmp_path / "disk2").mkdir()
    (tmp_path / "disk2" / "d.json").touch()
    (real / "near.json").symlink_to("../disk2/d.json")  # a name with the prefix of the folder's name
    inside = ["in/a.json", "in/b.json"]
    rejected = {"in/d.json": "link-outside", "in/near.json": "link-outside"}
    assert listed(tmp_path, "in/*.json") == (inside, rejected)
    assert listed(tmp_path, "in/*/*.json") == (["in/sub/c.json"], {"in/out": "link-outside"})
    assert listed(tmp_path, f"{tmp_path}/in/*/d.json") == ([], {f"{tmp_path}/in/out": "link-outside"})
    (real / "sub" / "far").symlink_to(tmp_path)
    assert listed(tmp_path, "in/*/far/elsewhere/*.json") == ([], {"in/sub/far/elsewhere": "link-outside"})
    assert listed(tmp_path, "in/*.json", symlinks="anywhere") == ([*inside, "in/d.json", "in/near.json"], {})
    assert listed(tmp_path, "in/*/*.json", symlinks="anywhere") == (["in/out/d.json", "in/sub/c.json"], {})


def _zone(folder: Path) -> Store:
    return landing_store("in/*.json", str(folder), {})[0]


def test_a_file_replaced_after_the_listing_is_not_read(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "secret.json"
    folder.mkdir()
    outside.write_text("secret")
    file = folder / "x.json"
    file.write_text("secret")
    os.utime(file, ns=(1, 1))
    os.utime(outside, ns=(1, 1))
    (fact,) = _zone(tmp_path).find("in/*.json")
    swaps: list[tuple[Callable[[Path], None], str]] = [
        (_link("../secret.json"), "link-outside"),
        (_fifo, "not-a-file"),
        (Path.mkdir, "not-a-file"),
        (_link("x.json"), "storage-failed"),
    ]
    for swap, code in swaps:
        file.rmdir() if file.is_dir() else file.unlink()
        swap(file)
        with pytest.raises((DataError, InfrastructureError)) as caught:
            _zone(tmp_path).open(fact.path, fact)
        assert caught.value.code == code
        assert "x.json" in caught.value.what


def test_a_folder_replaced_while_a_file_is_opened_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replace the folder between the check of the real path and the open."""
    inside, outside = tmp_path / "in" / "day", tmp_path / "out"
    for folder, text in ((inside, "mine"), (outside, "secret")):
        folder.mkdir(parents=True)
        (folder / "x.json").write_text(text)
    zone, _ = landing_store("in/*/*.json", str(tmp_path), {})
    realpath = os.path.realpath

    def then_swapped(path: str) -> str:
        found = realpath(path)
        if path.endswith("x.json"):
            (inside / "x.json").unlink()
            inside.rmdir()
            inside.symlink_to(outside)
        return found

    monkeypatch.setattr(os.path, "realpath", then_swapped)
    with pytest.raises(InfrastructureError):
        zone.open("in/day/x.json")


def test_a_fifo_instead_of_a_manifest_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "note")
    with pytest.raises(DataError) as caught:
        LocalStore(tmp_path).read("note")
    assert caught.value.code == "not-a-file"


def test_the_target_of_a_link_is_archived(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "a.json").write_text("1")
    (tmp_path / "in" / "b.json").symlink_to("deep/a.json")
    zone = _zone(tmp_path)
    zone.move("in/b.json", "in/done/b.json")
    assert not (tmp_path / "in" / "b.json").is_symlink()
    assert not (tmp_path / "in" / "done" / "b.json").is_symlink()
    assert (tmp_path / "in" / "done" / "b.json").read_text() == "1"
    assert (tmp_path / "in" / "deep" / "a.json").read_text() == "1"
    with zone.open("in/done/b.json") as file:
        assert file.read() == b"1"
    (tmp_path / "out.json").write_text("2")
    (tmp_path / "in" / "c.json").symlink_to("../out.json")
    with pytest.raises(DataError) as caught:
        zone.move("in/c.json", "in/done/c.json")
    assert caught.value.code == "link-outside"


def _nest(folder: Path, name: str, levels: int) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder with folders nested deeper than the recursion limit; functions that remove folders would fail too."""
    _nest(tmp_path, "d", 1_500)
    yield tmp_path
    subprocess.run(["rm", "-rf", "--", str(tmp_path / "d")], check=True)


def test_folders_nested_deeper_than_the_recursion_limit_are_listed(deep: Path) -> None:
    files, skipped = listed(deep, "**/*.json")
    assert (files, skipped) == ([], {})


def test_a_path_longer_than_the_limit_is_skipped(tmp_path: Path) -> None:
    _nest(tmp_path, "l" * 250, 17)
    (tmp_path / "good.json").touch()
    files, skipped = listed(tmp_path, "**/*.json")
    assert files == ["good.json"]
    assert list(skipped.values()) == ["path-too-long"]


def test_hidden_folders_are_reported_once_without_those_of_lakesmith(tmp_path: Path) -> None:
    for name in ("in/_tmp/a.json", "in/.git/b.json", "in/_manifest/c.json.json", "in/_done/d.json", "in/day/e.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "in" / temporary_name("f.json")).touch()
    skipped: set[SkippedEntry] = set()
    list(LocalStore(tmp_path).find("in/**", None, None, skipped.add))
    foreign = foreign_entries(skipped, "in/**", "_done")
    assert [(entry.path, entry.code) for entry in foreign] == [("in/.git", "hidden-name"), ("in/_tmp", "hidden-name")]
    assert listed(tmp_path, "in/*.json") == ([], {})  # it enters no folder, and no folder matches


def test_an_archive_beside_the_files_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "in" / "done" / "x").mkdir(parents=True)
    skipped: set[SkippedEntry] = set()
    list(LocalStore(tmp_path).find("in/*", None, None, skipped.add))
    assert {entry.path for entry in skipped} == {"in/done"}
    assert foreign_entries(skipped, "in/*", "done") == ()
    assert foreign_entries(skipped, "in/*", "done/x") == ()
    assert [entry.path for entry in foreign_entries(skipped, "in/*", "don")] == ["in/done"]


@pytest.mark.parametrize(
    ("pattern", "path", "by"),
    [
        ("in/*.json", "in/_x.json", "in/_x.json"),
        ("in/*.json", "in/.x.json", "in/.x.json"),
        ("in/*.json", "in/_x.csv", None),
        ("in/*.json", "in/x.json", None),
        ("in/**/*.json", "in/_tmp/a/x.json", "in/_tmp"),
        ("in/**/*.json", "in/a/_b/_x.json", "in/a/_b"),
        ("in/**", "in/a/.x", "in/a/.x"),
        ("in/*/x.json", "in/_a/x.json", "in/_a"),
        ("in/_a/*.json", "in/_a/x.json", None),
        ("in/_a/*.json", "in/_a/_x.json", "in/_a/_x.json"),
    ],
)
def test_a_store_without_folders_reports_the_hidden_part_of_a_path(pattern: str, path: str, by: str | None) -> None:
    assert Glob(pattern).hidden_in(path) == by
