"""Readers with one planted fault each, which the runner must find: a harness that cannot fail proves nothing."""

from __future__ import annotations

import ctypes
import os
import pickle
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.landing import Entry, check_listing, check_listing_inside, make_entries
from tests.fuzz.model import Case
from tests.fuzz.subjects import Rejections, checked_error, known_codes

from lakesmith.errors import DeclarationError, Place
from lakesmith.ports import FileFact, SkippedEntry
from lakesmith.store import LocalStore


def reads_well(folder: Path) -> None:
    (folder / "mine").write_text("x")
    assert (folder / "mine").read_text() == "x"


def raises(folder: Path) -> None:
    raise KeyError("type")


def evaluates(folder: Path) -> None:
    eval("1 + 1")


def executes(folder: Path) -> None:
    exec("x = 1")


def calls_the_shell(folder: Path) -> None:
    os.system("true")


def starts_a_program(folder: Path) -> None:
    subprocess.run(["true"], check=False)


def connects(folder: Path) -> None:
    with socket.socket() as made:
        made.connect(("127.0.0.1", 9))


def unpickles(folder: Path) -> None:
    pickle.loads(b"cos\nsystem\n(S'true'\ntR.")


def imports_from_the_input(folder: Path) -> None:
    import sys

    (folder / "evil.py").write_text("")
    sys.path.insert(0, str(folder))
    try:
        __import__("evil")
    finally:
        sys.path.remove(str(folder))


def writes_elsewhere(folder: Path) -> None:
    (folder.parents[2] / "elsewhere").write_text("x")


def reads_elsewhere(folder: Path) -> None:
    Path("/etc/passwd").read_text()


def removes_elsewhere(folder: Path) -> None:
    os.remove("/etc/passwd")


def hides_what_it_did(folder: Path) -> None:
    try:
        os.system("true")
    except BaseException:  # noqa: BLE001 - that is the fault
        return


def computes_forever(folder: Path) -> None:
    while True:
        pass


def waits_forever(folder: Path) -> None:
    time.sleep(600)


def eats_memory(folder: Path) -> None:
    held = []
    for _ in range(400):
        held.append(b"\x01" * (1 << 20))


def touches_memory_in_between(folder: Path) -> None:
    assert len(b"\x01" * (200 << 20))


def crashes(folder: Path) -> None:
    ctypes.string_at(0)


def exits_the_process(folder: Path) -> None:
    os._exit(0)


def _error(
    code: str = "yaml-syntax", what: str = "x", file: str = "a.yml", line: int = 1, hint: str = "y"
) -> Rejections:
    return checked_error(DeclarationError(code, what, at=Place(file, line), hint=hint), Path())


def reports_no_hint(folder: Path) -> None:
    (folder / "a.yml").write_text("a\n")
    _error(hint="")


def reports_an_unknown_code(folder: Path) -> None:
    (folder / "a.yml").write_text("a\n")
    _error(code="made-up")


def reports_a_missing_file(folder: Path) -> None:
    _error(file="b.yml")


def reports_a_missing_line(folder: Path) -> None:
    (folder / "a.yml").write_text("a\n")
    _error(line=9)


_ENTRIES = (
    Entry(path=b"a.json", kind="file"),
    Entry(path=b"b.json", kind="fifo"),
    Entry(path=b"c.json", kind="link", target=b"c.json"),
    Entry(path=b"d.json", kind="link", target=b"@outside/s.json"),
    Entry(path=b"caf\xe9.json", kind="file"),
)


def _names(folder: Path) -> list[str]:
    make_entries(_ENTRIES, folder)
    return sorted(f"landing/{name}" for name in os.listdir(folder / "landing"))


def lists_as_if_all_were_files(folder: Path) -> None:
    check_listing(_ENTRIES, "*.json", [FileFact(name, 1, 1) for name in _names(folder) if name.isascii()], ())


def lists_a_name_that_is_no_text(folder: Path) -> None:
    check_listing(_ENTRIES, "*.json", [FileFact(name, 1, 1) for name in _names(folder)], ())


def follows_a_link_that_leads_in_circles(folder: Path) -> None:
    check_listing(
        _ENTRIES, "*.json", [FileFact(name, (folder / name).stat().st_size, 1) for name in _names(folder)], ()
    )


def skips_unreadable_input(folder: Path) -> None:
    check_listing(
        _ENTRIES, "*.json", [FileFact(name, 1, 1) for name in _names(folder) if (folder / name).is_file()][:1], ()
    )


def makes_up_a_code(folder: Path) -> None:
    check_listing(_ENTRIES, "*.json", (), [SkippedEntry("landing/a.json", "made-up", "x")])


def follows_a_link_that_leaves_the_folder(folder: Path) -> None:
    make_entries(_ENTRIES, folder)
    check_listing_inside(folder, "*.json", LocalStore(folder).find("landing/*.json"))


FOUND: dict[Callable[[Path], None], str] = {
    raises: "KeyError: 'type'",
    evaluates: "forbidden: compile",
    executes: "forbidden: compile",
    calls_the_shell: "forbidden: os.system",
    starts_a_program: "forbidden: subprocess.Popen",
    connects: "forbidden: socket.connect",
    unpickles: "forbidden: pickle.find_class",
    imports_from_the_input: "evil.py",
    writes_elsewhere: "forbidden: open for writing",
    reads_elsewhere: "forbidden: open for reading",
    removes_elsewhere: "forbidden: os.remove",
    hides_what_it_did: "forbidden: os.system",
    computes_forever: "hang: the processor's time is used up",
    waits_forever: "hang: no answer",
    eats_memory: "memory:",
    touches_memory_in_between: "memory:",
    crashes: "crash: SIGSEGV",
    exits_the_process: "crash: the worker ended with 0",
    reports_no_hint: "there is no hint",
    reports_an_unknown_code: "the code is not documented",
    reports_a_missing_file: "which there is not",
    reports_a_missing_line: "which has 2",
    lists_as_if_all_were_files: "fifo 'b.json' is no file",
    lists_a_name_that_is_no_text: "UnicodeEncodeError",
    follows_a_link_that_leads_in_circles: "Too many levels of symbolic links",
    skips_unreadable_input: "is listed or skipped",
    makes_up_a_code: "the code 'made-up' is documented",
    follows_a_link_that_leaves_the_folder: "'landing/d.json' is inside of the landing folder",
}
"""Each fault, and a part of the runner's report."""
PLANTED = (*FOUND, reads_well)


def warm() -> None:
    """Load slow modules first, so that only faults take long."""
    known_codes()


def case(seed: str, number: int) -> Case:
    return Case(kind=PLANTED[number].__name__, target="planted")


def try_case(made: Case, folder: Path) -> Rejections:
    {plant.__name__: plant for plant in PLANTED}[made.kind](folder)
    return ()
