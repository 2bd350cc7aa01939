"""Reading any file succeeds or fails with a reason: no traceback, no hang, no executed code, bounded memory.

A part of the cases of `make fuzz`, with all earlier findings. Every failure is reported with the command that replays
it.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.fuzz import corpus
from tests.fuzz.cases import CONTENTS, KINDS, batch_files, case
from tests.fuzz.findings import FOUND, data_case
from tests.fuzz.planted import FOUND as FAULTS
from tests.fuzz.planted import PLANTED, reads_well
from tests.fuzz.runner import Bounds, fuzz
from tests.fuzz.subjects import try_case
from tests.marks import first_only

from lakesmith.ledger.batch import decode_batch, encode
from lakesmith.ledger.content import CASES

SEED = "stored-3"
NUMBERS = (range(150), range(150, 600))
"""Cases in `make test`, and those that `make verify` adds."""


@pytest.mark.parametrize("numbers", first_only(NUMBERS))
def test_mutated_declarations_and_files_are_read_or_rejected_with_a_reason(numbers: range) -> None:
    report = fuzz(numbers, seed=SEED)
    assert not report.failures, "\n".join(report.lines())
    assert len(report.outcomes) == len(numbers)
    assert {outcome.verdict for outcome in report.outcomes} == {"ok", "rejected"}
    assert {outcome.kind for outcome in report.outcomes} >= KINDS.keys()


def test_earlier_findings_stay_fixed() -> None:
    report = fuzz(range(len(FOUND)), seed="found", bounds=Bounds(cpu=10, memory=512 << 20))
    assert not report.failures, "\n".join(report.lines())
    fine = [outcome.number for outcome in report.outcomes if outcome.verdict == "ok"]
    assert fine == [], "these were rejected, and no longer are"


@pytest.mark.verify
def test_the_runner_finds_every_planted_fault() -> None:
    report = fuzz(
        range(len(PLANTED)),
        seed="0",
        bounds=Bounds(cpu=1, wall=10, memory=100 << 20),
        subjects="tests.fuzz.planted",
    )
    said = {outcome.kind: outcome.why for outcome in report.outcomes if outcome.verdict == "FAILURE"}
    missed = {plant.__name__: said.get(plant.__name__) for plant, why in FAULTS.items() if why not in _of(said, plant)}
    assert missed == {}
    assert reads_well.__name__ not in said


def _of(said: dict[str, str], plant: object) -> str:
    return said.get(getattr(plant, "__name__", ""), "nothing")


@pytest.mark.parametrize("mode", CASES)
def test_the_mutated_batch_has_every_field_of_its_mode(mode: str) -> None:
    own = {"mode": mode, "content": CONTENTS[mode]}
    written = json.loads(batch_files({"00000003.01.json": own}).files["00000003.01.json"])
    batch = decode_batch(json.dumps(written).encode(), 3)
    encoded = json.loads(encode(batch))
    del encoded["checksum"]
    assert encoded == written
    values = asdict(batch) | asdict(batch.content)
    assert not [name for name in values if name != "content" and values[name] in (None, (), {})]


def test_a_case_is_a_function_of_its_seed_and_number() -> None:
    assert [case("a", number) for number in range(50)] == [case("a", number) for number in range(50)]
    assert [case("a", number) for number in range(50)] != [case("b", number) for number in range(50)]


@pytest.mark.parametrize("file", corpus.data_files(), ids=lambda file: f"{file.format}-{file.name}")
def test_the_files_to_mutate_are_valid(file: corpus.DataFile, tmp_path: Path) -> None:
    assert try_case(data_case(file), tmp_path) == ()
