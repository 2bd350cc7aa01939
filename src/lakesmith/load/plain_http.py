"""Reject credentials that a request would send over plain http://, unless the declaration allows it.

Keys that only sign requests (`secret` of S3, `account_key` of Azure) never leave the machine and are allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from lakesmith.declare import Secret
from lakesmith.errors import DeclarationError, Place
from lakesmith.load.models import EnvironmentBlock
from lakesmith.load.nodes import Entries, Node
from lakesmith.load.paths import path_problem

_ALLOW = "allow_plain_http"
_AZURE = ("az", "abfs", "abfss")

Values = Mapping[str, str | Secret]


def http_problems(block: EnvironmentBlock, node: Node) -> Iterator[DeclarationError]:
    """Yield problems with the HTTP credentials of an environment, which was decoded from the node."""
    for name, settings in block.connections.items():
        yield from _registry_problems(name, settings, node)
    for url, settings in block.storage.items():
        yield from _storage_problems(url, settings, node)


def _registry_problems(name: str, settings: Values, node: Node) -> Iterator[DeclarationError]:
    url = _revealed(settings.get("registry"))
    at = _place(node, "connections", name, "registry")
    problem = path_problem(url) if "://" in url else None
    if problem is not None and problem[0] == "credentials-in-url":
        code, what, _ = problem
        hint = "write registry.user and registry.password, as env:NAME or file:PATH"
        yield DeclarationError(code, f"the registry of '{name}': {what}", at=at, hint=hint)
        return
    option = f"registry.{_ALLOW}"
    wrong = _not_boolean(settings, option, _place(node, "connections", name, option))
    if wrong is not None:
        yield wrong
    elif _is_plain(url) and {"registry.user", "registry.password"} & settings.keys() and not _allows(settings, option):
        yield _problem(f"the credentials of the registry of '{name}'", option, at)


def _storage_problems(url: str, settings: Values, node: Node) -> Iterator[DeclarationError]:
    wrong = _not_boolean(settings, _ALLOW, _place(node, "storage", url, _ALLOW))
    if wrong is not None:
        yield wrong
        return
    sent = [key for key in _sent_in_clear(url.partition("://")[0].lower(), settings) if key in settings]
    if sent and not _allows(settings, _ALLOW):
        yield _problem(f"{' and '.join(sent)} of '{url}'", _ALLOW, _place(node, "storage", url, sent[0]))


def _sent_in_clear(scheme: str, settings: Values) -> tuple[str, ...]:
    """Return the settings that requests to a store send unencrypted."""
    if scheme == "http":
        return ("token", "headers")
    if scheme in _AZURE:
        endpoint, connection = _revealed(settings.get("endpoint")), _revealed(settings.get("connection_string")).lower()
        by_http = "defaultendpointsprotocol=http;" in f"{connection};" or "endpoint=http://" in connection
        if by_http and ("sharedaccesssignature=" in connection or _has_signature(connection)):
            return ("connection_string",)
        if _is_plain(endpoint):
            return ("sas_token", "endpoint") if _has_signature(endpoint) else ("sas_token",)
    return ()


def _is_plain(url: str) -> bool:
    # Clients ignore spaces around a URL.
    return url.strip().lower().startswith("http://")


def _has_signature(url: str) -> bool:
    """Whether a shared access signature is in the query of a URL."""
    return re.search(r"[?&]sig=", url, re.IGNORECASE) is not None


def _allows(settings: Values, option: str) -> bool:
    return _revealed(settings.get(option)) == "true"


def _not_boolean(settings: Values, option: str, at: Place) -> DeclarationError | None:
    if option not in settings or _revealed(settings[option]) in ("true", "false"):
        return None
    return DeclarationError("wrong-type", f"{option} must be true or false", at=at, hint=f"{option}: true")


def _problem(what: str, option: str, at: Place) -> DeclarationError:
    return DeclarationError(
        "plain-http-credentials",
        f"{what} would be sent unencrypted over plain http://",
        at=at,
        hint=f"use https://, or allow it with {option}: true",
    )


def _revealed(value: str | Secret | None) -> str:
    """Return the text; empty for a missing secret, which is reported elsewhere."""
    if isinstance(value, Secret):
        return "" if any(each.reveal() is None for each in value.references) else value.reveal()
    return value or ""


def _place(node: Node, *keys: str) -> Place:
    """Return the place of the innermost of the nested keys that exists."""
    at = node.at
    for key in keys:
        entry = (
            next((each for each in node.entries if each[0].text == key), None) if isinstance(node, Entries) else None
        )
        if entry is None:
            return at
        at, node = entry[0].at, entry[1]
    return at
