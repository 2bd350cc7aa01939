"""The client of a schema registry with Confluent's API: it reads schemas of Kafka values and publishes contracts.

It uses the standard library instead of confluent-kafka's `SchemaRegistryClient`, which is not installed. Lakesmith
sends eight plain requests, and that library treats them differently. It retries a fixed number of times, not until
`registry.wait`, and it follows no redirect; here one is followed without the credentials. It trusts the authorities of
certifi instead of the system's. It also needs an HTTP client, authlib and cachetools, whereas contracts are published
here without any Kafka package. What it has beyond this client (OAuth, caching, serializers) is not used.

When the registry does not answer, nothing is read or published.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import quote, urlsplit

from lakesmith.declare import Settings
from lakesmith.errors import DeclarationError, InfrastructureError

SchemaKind = Literal["AVRO", "PROTOBUF", "JSON"]
_TIMEOUT = 10
_PAUSE = 0.5
_MEDIA = "application/vnd.schemaregistry.v1+json"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A registered schema. Its id never changes its meaning."""

    id: int
    kind: SchemaKind
    text: str
    imports: Mapping[str, str] = field(default_factory=dict)
    """By name, the text of all schemas that this one references, directly or indirectly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A schema registry and its credentials."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    wait: float = 0.0
    """Seconds to retry a registry that does not answer."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Registry | None:
        """Return the registry of a connection; None when it has none."""
        if "registry" not in settings:
            return None
        url = settings["registry"].rstrip("/")
        if urlsplit(url).password:
            what = "the registry's address contains a password, and addresses are shown in errors"
            raise DeclarationError("bad-registry", what, hint="use registry.user and registry.password")
        if urlsplit(url).scheme not in ("http", "https"):
            what = Settings.of(settings).masked(f"the registry '{url}' is not an http or https address")
            raise DeclarationError("bad-registry", what, hint="for example registry: http://localhost:8081")
        wait = settings.get("registry.wait", "0")
        try:
            seconds = float(wait)
        except ValueError:
            what = f"registry.wait must be a number of seconds, not '{wait}'"
            raise DeclarationError("bad-registry", what, hint="for example registry.wait: 60") from None
        return cls(
            url=url, user=settings.get("registry.user"), password=settings.get("registry.password"), wait=seconds
        )

    def latest(self, subject: str) -> Schema | None:
        """Return the subject's latest schema; None when there is no such subject."""
        response = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self._schema(response["id"], response) if response else None

    def versions(self, subject: str) -> tuple[Schema, ...]:
        """Return every schema of the subject, oldest first; empty when there is no such subject."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        response = [self._get(f"{path}/{number}") for number in self._get(path) or ()]
        return tuple(self._schema(version["id"], version) for version in response if version)

    def by_id(self, id: int) -> Schema | None:
        """Return the schema with an id; None when there is none."""
        response = self._get(f"/schemas/ids/{id}")
        return self._schema(id, response) if response else None

    def find_version(self, subject: str, text: str) -> tuple[int, int] | None:
        """Return the id and the version of an Avro schema in a subject; None when it is not registered."""
        response = self._call("POST", f"/subjects/{quote(subject, safe='')}", {"schema": text})
        return (response["id"], response["version"]) if response else None

    def incompatibilities(self, subject: str, text: str) -> tuple[str, ...] | None:
        """Return why the subject's compatibility level rejects a new Avro schema; None when it is compatible.

        The reasons may be empty: not every registry returns them.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        response = self._call("POST", path, {"schema": text})
        if response is None or response["is_compatible"]:
            return None
        return tuple(map(str, response.get("messages") or ()))

    def register(self, subject: str, text: str) -> int:
        """Register an Avro schema in a new or existing subject, and return its id. A registered schema keeps its id."""
        return int(self._have("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})["id"])

    def level(self, subject: str) -> str | None:
        """Return the subject's own compatibility level, such as `BACKWARD`; None when it has none."""
        response = self._get(f"/config/{quote(subject, safe='')}")
        return str(response["compatibilityLevel"]) if response else None

    def set_level(self, subject: str, level: str) -> None:
        """Set the compatibility level of a subject."""
        self._have("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def _schema(self, id: int, response: Mapping[str, Any]) -> Schema:
        # A registry omits the type of Avro schemas.
        kind = cast(SchemaKind, response.get("schemaType") or "AVRO")
        return Schema(id=id, kind=kind, text=response["schema"], imports=self._imports(response, {}))

    def _imports(self, response: Mapping[str, Any], found: dict[str, str]) -> dict[str, str]:
        for reference in response.get("references") or ():
            if reference["name"] in found:
                continue
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            referred = self._get(path)
            if referred is None:
                what = f"version {reference['version']} of {reference['subject']} is missing in the registry"
                hint = "another schema references it: register it again"
                raise InfrastructureError("registry-rejected", what, hint=hint)
            # Its own references come first: a schema is parsed after those it needs.
            self._imports(referred, found)
            found[reference["name"]] = referred["schema"]
        return found

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _have(self, method: str, path: str, body: Mapping[str, str]) -> Any:
        """Return the response; a missing one is an error."""
        response = self._call(method, path, body)
        if response is None:
            what = f"the schema registry at {self.url} has no resource {path}"
            hint = "check that registry: is the address of its API; for Apicurio it ends in /apis/ccompat/v7"
            raise InfrastructureError("registry-rejected", what, hint=hint)
        return response

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Return the response; None for 404. Every call can be repeated safely."""
        deadline = time.monotonic() + self.wait
        warned = False
        while True:
            try:
                return self._ask(method, path, body)
            except _Unavailable as unanswered:
                if time.monotonic() + _PAUSE > deadline:
                    waited = f" within {self.wait:g} s" if self.wait else ""
                    raise InfrastructureError(
                        "registry-unreachable",
                        f"the schema registry at {self.url} did not answer{waited}: {unanswered}",
                        hint="nothing was changed: start the registry, or let runs wait for it with registry.wait: 60",
                    ) from unanswered
                if not warned:
                    what = "the schema registry at %s does not answer (%s): waiting for up to %g s"
                    _log.warning(what, self.url, unanswered, self.wait)
                warned = True
                time.sleep(_PAUSE)

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _MEDIA, **({} if body is None else {"Content-Type": _MEDIA})}
        request = urllib.request.Request(self.url + path, sent, headers, method=method)
        if self.user is not None:
            token = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            # Not sent after a redirect: the target may be another server, or use plain http://.
            request.add_unredirected_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                if error.code == 429 or error.code >= 500:
                    raise _Unavailable(f"{error.code} {error.reason}") from error
                message = _error_message(error)
                what = f"the schema registry at {self.url} rejected {path}: {error.code} {message or error.reason}"
                hint = "check registry, registry.user and registry.password of the connection"
                raise InfrastructureError("registry-rejected", what, hint=hint) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _Unavailable(getattr(error, "reason", None) or error) from error


def _error_message(error: urllib.error.HTTPError) -> str | None:
    """Return the registry's own error message."""
    try:
        return str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class _Unavailable(Exception):
    """The registry is down or unavailable."""
