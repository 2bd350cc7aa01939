"""`make fuzz`, and the replay of one case.

python -m tests.fuzz --seed 7 --cases 10000
python -m tests.fuzz --seed 7 --only 4711
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from tests.fuzz.cases import case
from tests.fuzz.model import Case
from tests.fuzz.runner import Outcome, fuzz

_SHOWN = 2_000


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Read what nearly is right.")
    parser.add_argument("--seed", default="", help="Which cases; by chance unless given.")
    parser.add_argument("--cases", type=int, default=10_000, help="How many.")
    parser.add_argument("--only", type=int, help="The one case of this number, with all that is known of it.")
    parser.add_argument("--workers", type=int, default=2, help="How many processes.")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="Write the files of --only there.")
    found = parser.parse_args()
    seed = found.seed or secrets.token_hex(4)
    say = sys.stdout.write
    if found.only is not None:
        _show(case(seed, found.only), found.keep)
    numbers = range(found.cases) if found.only is None else [found.only]
    say(f"seed {seed}\n")

    def report_outcome(outcome: Outcome) -> None:
        if outcome.verdict == "FAILURE":
            say(f"FAILURE {outcome.number} {outcome.kind} {outcome.target}: {outcome.why[:300]}\n")
            sys.stdout.flush()

    report = fuzz(numbers, seed=seed, workers=1 if found.only is not None else found.workers, on_outcome=report_outcome)
    for line in report.lines():
        say(f"{line}\n")
    if found.only is not None:
        for outcome in report.outcomes:
            say(f"{outcome.verdict} {' '.join(outcome.codes)}\n{outcome.trace}\n")
    return 1 if report.failures else 0


def _show(made: Case, keep: Path | None) -> None:
    data = made.files.get(made.target, made.files.get("data", b""))
    sys.stdout.write(f"{made.kind} {made.target} {dict(made.options)!r}\n{data[:_SHOWN]!r}\n")
    for name, content in made.files.items() if keep else ():
        assert keep is not None
        (keep / name).parent.mkdir(parents=True, exist_ok=True)
        (keep / name).write_bytes(content)


if __name__ == "__main__":
    sys.exit(main())
