"""A real schema registry."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from uuid import uuid4

import pytest
from tests.servers.maven import free_port, stop
from tests.servers.registry import Apicurio, start_registry

from lakesmith.errors import DeclarationError, InfrastructureError
from lakesmith.sources.registry import Registry

pytestmark = pytest.mark.servers


def record(*names: str) -> dict[str, object]:
    fields = [{"name": name, "type": ["null", "long"], "default": None} for name in names]
    return {"type": "record", "name": "A", "fields": fields}


@pytest.fixture
def subject() -> str:
    return f"s{uuid4().hex[:12]}"


def test_all_versions_of_a_subject_are_returned_oldest_first(registry: Apicurio, subject: str) -> None:
    ids = [registry.register(subject, record("a")), registry.register(subject, record("a", "b"))]
    found = Registry(url=registry.url).versions(subject)
    assert [schema.id for schema in found] == ids
    assert [schema.kind for schema in found] == ["AVRO", "AVRO"]
    assert len(json.loads(found[1].text)["fields"]) == 2
    assert Registry(url=registry.url).latest(subject) == found[1]
    assert Registry(url=registry.url).by_id(ids[0]) == found[0]


def test_a_missing_schema_is_none(registry: Apicurio) -> None:
    client = Registry(url=registry.url)
    assert (client.latest("nothing-value"), client.versions("nothing-value"), client.by_id(987_654)) == (None, (), None)


def test_schemas_are_returned_with_their_references(registry: Apicurio, subject: str) -> None:
    place = 'syntax = "proto3"; message Place { string city = 1; }'
    registry.register(f"{subject}-place", place, "PROTOBUF")
    order = 'syntax = "proto3"; import "place.proto"; message Order { Place place = 1; }'
    references = [{"name": "place.proto", "subject": f"{subject}-place", "version": 1}]
    registry.register(subject, order, "PROTOBUF", references)
    (found,) = Registry(url=registry.url).versions(subject)
    assert found.kind == "PROTOBUF"
    assert list(found.imports) == ["place.proto"]
    assert "string city" in found.imports["place.proto"]


def test_an_unreachable_registry_is_an_immediate_error_with_a_next_step() -> None:
    began = time.monotonic()
    with pytest.raises(InfrastructureError) as raised:
        Registry(url=f"http://127.0.0.1:{free_port()}").latest("a-value")
    assert time.monotonic() - began < 5
    assert raised.value.code == "registry-unreachable"
    assert "refused" in raised.value.what
    assert "registry.wait" in str(raised.value.hint)


def test_a_registry_that_starts_late_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    found: list[object] = []
    settings = {"registry": f"http://127.0.0.1:{port}/apis/ccompat/v7", "registry.wait": "60"}
    client = Registry.of(settings)
    assert client is not None
    waiting = threading.Thread(target=lambda: found.append(client.versions("late-value")))
    waiting.start()
    time.sleep(0.5)
    assert not found
    _, server = start_registry(tmp_path, port)
    try:
        waiting.join(60)
        assert found == [()]
    finally:
        stop(server)


class _Answering(BaseHTTPRequestHandler):
    """Rejects users other than `reader:pass`, then answers as overloaded."""

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == "Basic cmVhZGVyOnBhc3M="
        self.send_response(503 if known else 401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def gate() -> Iterator[str]:
    # The real registry cannot reject a user or be overloaded, so a fake does.
    server = HTTPServer(("127.0.0.1", 0), _Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_rejected_user_is_reported_without_waiting(gate: str) -> None:
    with pytest.raises(InfrastructureError) as raised:
        Registry(url=gate, wait=30).latest("a-value")
    assert raised.value.code == "registry-rejected"
    assert "401" in raised.value.what


def test_an_overloaded_registry_is_waited_for_with_one_log_line_and_then_an_error(
    gate: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Registry.of(
        {"registry": gate, "registry.user": "reader", "registry.password": "pass", "registry.wait": "1"}
    )
    assert client is not None
    assert "pass" not in repr(client).replace("password", "")
    began = time.monotonic()
    with pytest.raises(InfrastructureError) as raised:
        client.latest("a-value")
    assert 0.4 < time.monotonic() - began < 5
    assert raised.value.code == "registry-unreachable"
    assert "503" in raised.value.what
    (message,) = [record.getMessage() for record in caplog.records if record.name.startswith("lakesmith")]
    assert message == f"the schema registry at {gate} does not answer (503 Service Unavailable): waiting for up to 1 s"


@pytest.mark.parametrize(
    "settings", [{"registry": "localhost:8081"}, {"registry": "http://x", "registry.wait": "long"}]
)
def test_invalid_settings_are_rejected(settings: dict[str, str]) -> None:
    with pytest.raises(DeclarationError) as raised:
        Registry.of(settings)
    assert raised.value.code == "bad-registry"


def test_a_password_in_the_address_is_rejected_and_not_shown() -> None:
    with pytest.raises(DeclarationError) as raised:
        Registry.of({"registry": "http://reader:hush-hush@localhost:8081"})
    assert raised.value.code == "bad-registry"
    assert "hush-hush" not in str(raised.value)


def test_a_connection_without_a_registry_has_none() -> None:
    assert Registry.of({"brokers": "x:9092"}) is None
