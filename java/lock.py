"""Fills in the hash and size of every jar in jars.lock that has none yet."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lakesmith.jvm.jars import LOCK, digest, download


def main() -> None:
    lines = LOCK.read_text().splitlines()
    bare = [n for n, line in enumerate(lines) if line.count(":") == 2 and len(line.split()) == 1]
    with tempfile.TemporaryDirectory() as folder:
        for number in bare:
            group, artifact, version = lines[number].split(":")
            (file,) = download([(group, artifact, version)], Path(folder))
            lines[number] = f"{group}:{artifact}:{version} {digest(file)} {file.stat().st_size}"
            print(lines[number])
    LOCK.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
