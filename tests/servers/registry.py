"""A schema registry of the test run, with Confluent's interface."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.servers.fetch import registry_home
from tests.servers.maven import free_port, java, start
from tests.servers.shared import shared


@dataclass(frozen=True, slots=True, kw_only=True)
class Apicurio:
    """A running registry, and helpers for tests."""

    url: str

    def register(
        self, subject: str, schema: object, kind: str = "AVRO", references: Sequence[Mapping[str, object]] = ()
    ) -> int:
        """Add a version to a subject, and return the schema's id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        return int(self.ask("POST", f"/subjects/{subject}/versions", body)["id"])

    def ask(self, method: str, path: str, body: object) -> Any:
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@pytest.fixture(scope="session")
def registry() -> Apicurio:
    """One registry for the whole test run; each test has its own subjects."""
    return shared("registry", lambda folder: start_registry(folder, free_port()))


def start_registry(folder: Path, port: int) -> tuple[Apicurio, subprocess.Popen[bytes]]:
    """An empty registry."""
    home = registry_home()
    (jar,) = home.rglob("apicurio-registry-app-*-runner.jar")
    found = Apicurio(url=f"http://127.0.0.1:{port}/apis/ccompat/v7")
    command = [java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(jar)]
    environment = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    return found, start(command, lambda: _answers(found), folder=folder, environment=environment)


def _answers(found: Apicurio) -> bool:
    try:
        with urllib.request.urlopen(f"{found.url}/subjects", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
