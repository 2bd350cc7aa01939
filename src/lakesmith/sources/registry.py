"""Schemas in a registry with Confluent's interface: asked for Kafka values, published for contracts.

Without its answer nothing is read or published.
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
    """A schema as the registry holds it. Its id never means another schema."""

    id: int
    kind: SchemaKind
    text: str
    imports: Mapping[str, str] = field(default_factory=dict)
    """By name, the text of the schemas that this one refers to, and of those that they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Where schemas are asked for."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    wait: float = 0.0
    """Seconds to go on asking a registry that does not answer."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Registry | None:
        """The registry that a connection names; None when it names none."""
        if "registry" not in settings:
            return None
        url = settings["registry"].rstrip("/")
        if urlsplit(url).password:
            what = "the registry's address has a password in it, and addresses are shown in errors"
            raise DeclarationError("bad-registry", what, hint="use registry.user and registry.password")
        if urlsplit(url).scheme not in ("http", "https"):
            what = Settings.of(settings).masked(f"the registry '{url}' is not an http or https address")
            raise DeclarationError("bad-registry", what, hint="for example registry: http://localhost:8081")
        wait = settings.get("registry.wait", "0")
        try:
            seconds = float(wait)
        except ValueError:
            what = f"registry.wait is a number of seconds, and '{wait}' is none"
            raise DeclarationError("bad-registry", what, hint="for example registry.wait: 60") from None
        return cls(
            url=url, user=settings.get("registry.user"), password=settings.get("registry.password"), wait=seconds
        )

    def newest(self, subject: str) -> Schema | None:
        """The subject's newest schema; None when there is no such subject."""
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        return self._schema(found["id"], found) if found else None

    def versions(self, subject: str) -> tuple[Schema, ...]:
        """Every schema of the subject, the oldest first; none when there is no such subject."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        found = [self._get(f"{path}/{number}") for number in self._get(path) or ()]
        return tuple(self._schema(version["id"], version) for version in found if version)

    def by_id(self, id: int) -> Schema | None:
        """The schema of an id; None when there is none."""
        found = self._get(f"/schemas/ids/{id}")
        return self._schema(id, found) if found else None

    def registered(self, subject: str, text: str) -> tuple[int, int] | None:
        """The id and the version of an Avro schema in a subject; None when it is not there."""
        found = self._call("POST", f"/subjects/{quote(subject, safe='')}", {"schema": text})
        return (found["id"], found["version"]) if found else None

    def objections(self, subject: str, text: str) -> tuple[str, ...] | None:
        """Why the subject's level of compatibility does not let a new Avro schema in; None when it does.

        Not every registry gives its reasons.
        """
        path = f"/compatibility/subjects/{quote(subject, safe='')}/versions/latest?verbose=true"
        found = self._call("POST", path, {"schema": text})
        if found is None or found["is_compatible"]:
            return None
        return tuple(map(str, found.get("messages") or ()))

    def register(self, subject: str, text: str) -> int:
        """Add an Avro schema to a subject, which may be a new one; one that is there keeps its id."""
        return int(self._have("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})["id"])

    def level(self, subject: str) -> str | None:
        """The subject's own level of compatibility, such as `BACKWARD`; None when it has none."""
        found = self._get(f"/config/{quote(subject, safe='')}")
        return str(found["compatibilityLevel"]) if found else None

    def set_level(self, subject: str, level: str) -> None:
        """Give a subject its level of compatibility."""
        self._have("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})

    def _schema(self, id: int, told: Mapping[str, Any]) -> Schema:
        # Avro is what a registry means when it does not say.
        kind = cast(SchemaKind, told.get("schemaType") or "AVRO")
        return Schema(id=id, kind=kind, text=told["schema"], imports=self._imports(told, {}))

    def _imports(self, told: Mapping[str, Any], found: dict[str, str]) -> dict[str, str]:
        for reference in told.get("references") or ():
            if reference["name"] in found:
                continue
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            referred = self._get(path)
            if referred is None:
                what = f"the registry has lost version {reference['version']} of {reference['subject']}"
                hint = "a schema that is in use refers to it: register it again"
                raise InfrastructureError("registry-refused", what, hint=hint)
            # Those that it refers to come first: a schema is read after what it needs.
            self._imports(referred, found)
            found[reference["name"]] = referred["schema"]
        return found

    def _get(self, path: str) -> Any:
        return self._call("GET", path)

    def _have(self, method: str, path: str, body: Mapping[str, str]) -> Any:
        """The answer, where there has to be one."""
        found = self._call(method, path, body)
        if found is None:
            what = f"the schema registry at {self.url} does not know {path}"
            hint = "is registry: the address of its interface?  that of Apicurio ends in /apis/ccompat/v7"
            raise InfrastructureError("registry-refused", what, hint=hint)
        return found

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """The answer; None for what is not there. To be asked twice does no harm to any of the calls."""
        deadline = time.monotonic() + self.wait
        told = False
        while True:
            try:
                return self._ask(method, path, body)
            except _Unanswered as unanswered:
                if time.monotonic() + _PAUSE > deadline:
                    waited = f" within {self.wait:g} s" if self.wait else ""
                    raise InfrastructureError(
                        "registry-unreachable",
                        f"the schema registry at {self.url} did not answer{waited}: {unanswered}",
                        hint="nothing was done: start the registry, or let runs wait for it with registry.wait: 60",
                    ) from unanswered
                if not told:
                    what = "the schema registry at %s does not answer (%s): waiting for up to %g s"
                    _log.warning(what, self.url, unanswered, self.wait)
                told = True
                time.sleep(_PAUSE)

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _MEDIA, **({} if body is None else {"Content-Type": _MEDIA})}
        request = urllib.request.Request(self.url + path, sent, headers, method=method)
        if self.user is not None:
            token = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            # Not sent again where the registry redirects to: that may be another server, and plain http://.
            request.add_unredirected_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                if error.code == 429 or error.code >= 500:
                    raise _Unanswered(f"{error.code} {error.reason}") from error
                said = _said(error)
                what = f"the schema registry at {self.url} refused {path}: {error.code} {said or error.reason}"
                hint = "check registry, registry.user and registry.password of the connection"
                raise InfrastructureError("registry-refused", what, hint=hint) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _Unanswered(getattr(error, "reason", None) or error) from error


def _said(error: urllib.error.HTTPError) -> str | None:
    """What the registry says of the matter, beside the number."""
    try:
        return str(json.load(error)["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


class _Unanswered(Exception):
    """The registry is down, or in no state to answer."""
