"""The doctor finds what a machine lacks, and each finding says how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lakesmith import doctor
from lakesmith.doctor import diagnose
from lakesmith.errors import InfrastructureError
from lakesmith.jvm.java import JavaHome
from lakesmith.ports import Store
from lakesmith.reports import Finding


class Probed:
    """A store with only a probe."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer

    @property
    def url(self) -> str:
        return "/lake"

    def probe(self) -> str | None:
        return self.answer


def about(findings: Sequence[Finding], subject: str) -> Finding:
    (found,) = (finding for finding in findings if finding.subject == subject)
    return found


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAKESMITH_CACHE", str(tmp_path))


def test_every_problem_says_how_to_fix_it() -> None:
    broken = [finding for finding in diagnose(None) if not finding.ok]
    assert {finding.subject for finding in broken} == {"jars: delta", "class archive"}
    assert {finding.fix for finding in broken} == {"lakesmith doctor --fix"}


def test_python_packages_and_the_log_store_are_checked() -> None:
    findings = diagnose(None)
    for subject in ("python", "packages", "pyspark", "java", "log store"):
        assert about(findings, subject).ok, about(findings, subject)
    assert "deltalake 1." in about(findings, "packages").found


def test_a_machine_without_java_gets_an_installation_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> JavaHome:
        raise InfrastructureError("no-java", "Spark needs Java 17 or 21: none was found", hint="install it")

    monkeypatch.setattr(doctor, "find_java", none)
    finding = about(diagnose(None), "java")
    assert (finding.ok, finding.fix) == (False, "install it")


def test_a_spark_of_another_version_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SPARK", "9.9.9")
    finding = about(diagnose(None), "pyspark")
    assert (finding.ok, finding.fix) == (False, "pip install 'pyspark==9.9.9'")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_required", lambda: ("click", "no-such-package"))
    finding = about(diagnose(None), "packages")
    assert (finding.ok, finding.fix) == (False, "pip install no-such-package")


@pytest.mark.parametrize(("answer", "ok"), [(None, True), ("two writers won the same name", False)])
def test_the_storage_is_probed(answer: str | None, ok: bool) -> None:
    storage: Store = Probed(answer)  # type: ignore[assignment]
    finding = about(diagnose(storage), "storage")
    assert finding.ok is ok
    assert (finding.fix is None) is ok


def test_spark_starts_only_with_deep() -> None:
    assert "spark" not in {finding.subject for finding in diagnose(None)}
