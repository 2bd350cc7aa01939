"""Links in the pages have targets, snippets load, and named files exist."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.docs.markdown import ROOT, Block, blocks, links, name, pages, prose

from lakesmith.lake import Lake
from lakesmith.load import load_tests
from lakesmith.plan.tests import check_tests

PAGES = [pytest.param(page, id=name(page)) for page in pages()]
SPELLINGS = {"yaml": "", "sql": "/* lakesmith", "python": "import lakesmith as lake"}
"""By language, the first words of a declaration."""


def anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def lakes(page: Path) -> list[dict[str, str]]:
    """Return the lakes of a page's snippets: a repeated file name starts the next lake."""
    found: list[dict[str, str]] = []
    for block in blocks(page):
        if block.file is None:
            continue
        if not found or block.file in found[-1]:
            found.append({})
        found[-1][block.file] = block.text
    return found


def anchors(page: Path) -> list[str]:
    return [anchor(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_has_a_target(page: Path) -> None:
    broken = []
    for target in links(page):
        file, _, part = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if "://" not in file and (not path.exists() or (part and part not in anchors(path))):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_every_declaration_names_its_file_in_the_first_line(page: Path) -> None:
    def declares(block: Block) -> bool:
        return block.language in SPELLINGS and SPELLINGS[block.language] in block.text

    assert [block.line for block in blocks(page) if declares(block) and block.file is None] == []


@pytest.mark.parametrize(
    ("page", "files"),
    [
        pytest.param(page, lake, id=f"{name(page)}-{number}")
        for page in pages()
        for number, lake in enumerate(lakes(page), start=1)
    ],
)
def test_the_snippets_of_a_page_are_a_valid_lake(
    page: Path, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "not shown")
    for file, text in {"lakesmith.yml": "name: shop\n", **files}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    lake = Lake.open(tmp_path)
    tests = {file for file in files if file.endswith(".test.yml")}
    assert lake.validate().tables == len(files.keys() - tests - {"lakesmith.yml"})
    assert check_tests(load_tests(lake.declaration.path, lake.tables), lake.tables, lake.graph, {}) == []


def test_python_snippets_that_are_not_declarations_run_in_a_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "lakesmith", "init", str(tmp_path / "shop")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    monkeypatch.chdir(tmp_path)
    ran = 0
    for page in pages():
        for block in blocks(page):
            if block.language == "python" and block.file is None:
                exec(compile(block.text, f"{name(page)}:{block.line}", "exec"), {})
                ran += 1
    assert ran


@pytest.mark.parametrize("page", PAGES)
def test_every_repository_file_named_in_a_page_exists(page: Path) -> None:
    named = set(re.findall(r"`((?:src|java|tests|examples)/[\w./-]*\w[\w./-]*)`", prose(page)))
    assert sorted(file for file in named if not (ROOT / file).exists()) == []


def test_the_architecture_names_every_room() -> None:
    text = prose(ROOT / "ARCHITECTURE.md")
    rooms = {
        entry.name + ("/" if entry.is_dir() else "")
        for entry in (ROOT / "src" / "lakesmith").iterdir()
        if not entry.name.startswith("__") and (entry.is_dir() or entry.suffix == ".py")
    }
    assert sorted(room for room in rooms if f"`src/lakesmith/{room}`" not in text) == []


def test_the_ranks_of_the_rooms_match_the_linter() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    held = [set(re.findall(r"\w+", layer)) for layer in reversed(contract["layers"]) if layer != "__main__"]
    rooms_of: dict[int, set[str]] = {}
    found = re.findall(r"^\| (\d+) \| `src/lakesmith/(\w+)", prose(ROOT / "ARCHITECTURE.md"), re.MULTILINE)
    for rank, room in found:
        rooms_of.setdefault(int(rank), set()).add(room)
    assert [rooms_of[rank] for rank in sorted(rooms_of)] == held


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_too_long(page: Path) -> None:
    reference = {
        "README.md",
        "docs/reference/errors.md",
        "docs/reference/system-tables.md",
        "docs/commands/contract.md",
    }
    limit = 200 if name(page) in reference else 120
    assert len(page.read_text(encoding="utf-8").splitlines()) <= limit
