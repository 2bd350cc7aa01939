"""File names in a landing zone: plain ones, odd ones that are ingested, and entries that are not ingested."""

from __future__ import annotations

import os
import random
from pathlib import Path

_ODD = (
    "{n} with spaces.json",
    " {n} leading space.json",
    "{n} 'single' \"double\" `back`.json",
    "{n}%20%2F%zz%.json",
    "{n}#fragment?query=1&x.json",
    "{n}=day=2026-01-01.json",
    "{n}\N{PILE OF POO}\N{FAMILY}\N{COMBINING ACUTE ACCENT}.json",
    "{n}\nnewline\ttab.json",
    "{n}\\back\\slash.json",
    "{n}{{brace}}[a-z]*.json",
    "{n}:colon;semi,comma|pipe.json",
    "-{n}.json",
    "{n}$HOME ${{env:HOME}}.json",
    "{n}\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH JOINER}.json",
)
_LONGEST = 255
"""The maximum bytes of a name on common disks."""


def plain_name(file: int) -> bytes:
    return b"%05d.json" % file


def odd_name(seed: int, file: int) -> bytes:
    """Return a file name for a landing zone with odd names; half of the names are plain."""
    choose = random.Random(f"{seed}/{file}/name")
    chance = choose.random()
    number = f"{file:05}"
    if chance < 0.4:
        return plain_name(file)
    if chance < 0.55:
        return _undecodable(number, choose)
    if chance < 0.65:
        return f"{number}{'x' * (_LONGEST - len(number) - 5)}.json".encode()
    return choose.choice(_ODD).format(n=number).encode()


def is_ingested(name: bytes) -> bool:
    """Return whether a file with this name is ingested. Spark names files in UTF-8, so other names are skipped."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _undecodable(number: str, choose: random.Random) -> bytes:
    return number.encode() + choose.choice((b"\xff\xfe", b"caf\xe9", b"\xc3", b"\xed\xa0\x80")) + b".json"


def clutter(folder: Path, seed: int, file: int) -> None:
    """Add hidden files, and entries that match the pattern but are not files."""
    choose = random.Random(f"{seed}/{file}/clutter")
    name = f"{file:05}-clutter.json"
    match choose.randrange(8):
        case 0:
            os.mkfifo(folder / name)
        case 1:
            (folder / name).symlink_to("nowhere.json")
        case 2:
            (folder / name).symlink_to(name)
        case 3:
            (folder / name).mkdir()
        case 4:
            (folder / f".{name}").write_text('{"seq": -1}\n')
        case 5:
            (folder / f"_{name}").write_text('{"seq": -1}\n')
        case 6:
            (folder / name).symlink_to("..")
        case _:
            return
