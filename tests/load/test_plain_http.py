"""Credentials are sent over plain http:// only if the declaration allows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from lakesmith.declare import LakeDeclaration
from lakesmith.errors import LakesmithError

Reject = Callable[..., list[LakesmithError]]
Load = Callable[..., LakeDeclaration]

LAKE = "name: shop\nenvironments:\n  dev:\n    {}:\n      {}:\n"
EVENTS = LAKE.format("connections", "events")
SAS = "BlobEndpoint=http://127.0.0.1:10000/devstore;SharedAccessSignature=sv=1"


def _storage(url: str) -> str:
    return LAKE.format("storage", url)


REJECTED: Mapping[str, tuple[str, str, int]] = {
    "a registry": (EVENTS + "        registry.user: me\n        registry: http://registry:8081\n", "events", 7),
    "a registry on this machine": (
        EVENTS + "        registry: http://localhost:8081\n        registry.password: x\n",
        "events",
        6,
    ),
    "a registry that a variable names": (
        "variables: {registry: http://registry:8081}\n"
        + EVENTS
        + "        registry: ${registry}\n        registry.user: me\n",
        "events",
        7,
    ),
    "a registry that a secret names": (
        EVENTS + "        registry: env:REGISTRY_URL\n        registry.user: me\n",
        "events",
        6,
    ),
    "a registry in capitals": (EVENTS + "        registry: HTTP://registry\n        registry.user: me\n", "events", 6),
    "a registry with a space before it": (
        EVENTS + "        registry: ' http://registry'\n        registry.user: me\n",
        "events",
        6,
    ),
    "a registry that is not allowed": (
        EVENTS
        + "        registry: http://registry\n        registry.user: me\n        registry.allow_plain_http: false\n",
        "events",
        6,
    ),
    "a token of a web server": (_storage("http://drops:8080") + "        token: env:TOKEN\n", "http://drops:8080", 6),
    "headers of a web server": (_storage("HTTP://drops") + "        headers: 'X-Key: 1'\n", "HTTP://drops", 6),
    "a shared access signature": (
        _storage("az://returns") + "        endpoint: http://127.0.0.1:10000/devstore\n        sas_token: env:TOKEN\n",
        "az://returns",
        7,
    ),
    "a shared access signature in a connection string": (
        _storage("abfss://returns@devstore") + f"        connection_string: {SAS}\n",
        "abfss://returns@devstore",
        6,
    ),
    "a shared access signature in an endpoint": (
        _storage("az://returns") + "        endpoint: http://127.0.0.1:10000/devstore?sv=1&SIG=x\n",
        "az://returns",
        6,
    ),
    "a shared access signature in an endpoint of a connection string": (
        _storage("az://returns") + "        connection_string: BlobEndpoint=http://127.0.0.1/devstore?sv=1&sig=x\n",
        "az://returns",
        6,
    ),
    "a shared access signature with http as the protocol": (
        _storage("az://returns")
        + "        connection_string: DefaultEndpointsProtocol=http;AccountName=a;SharedAccessSignature=sv=1\n",
        "az://returns",
        6,
    ),
}


@pytest.mark.parametrize(("text", "named", "line"), REJECTED.values(), ids=REJECTED)
def test_credentials_over_plain_http_are_rejected(
    reject: Reject, monkeypatch: pytest.MonkeyPatch, text: str, named: str, line: int
) -> None:
    monkeypatch.setenv("REGISTRY_URL", "http://registry:8081")
    monkeypatch.setenv("TOKEN", "abracadabra")
    (error,) = reject({"lakesmith.yml": text})
    assert (error.code, str(error.at), error.exit_code) == ("plain-http-credentials", f"lakesmith.yml:{line}", 2)
    assert named in error.what
    assert "https://" in (error.hint or "")
    assert "allow_plain_http: true" in (error.hint or "")
    assert "abracadabra" not in str(error)


LOADED = {
    "a registry by https": EVENTS + "        registry: https://registry\n        registry.user: me\n",
    "a registry without credentials": EVENTS + "        registry: http://registry\n",
    "a registry that is allowed": EVENTS
    + "        registry: http://registry\n        registry.user: me\n        registry.allow_plain_http: true\n",
    "a web server by https": _storage("https://drops") + "        token: x\n",
    "a web server that is allowed": _storage("http://drops") + "        token: x\n        allow_plain_http: true\n",
    "a web server without credentials": _storage("http://drops") + "        allow_plain_http: false\n",
    "a signature that is allowed": _storage("az://returns")
    + "        endpoint: http://127.0.0.1/a\n        sas_token: x\n        allow_plain_http: true\n",
    "a key that signs and is not sent": _storage("az://returns")
    + "        endpoint: http://127.0.0.1/a\n        account_key: x\n",
    "a secret that signs and is not sent": _storage("s3://drops")
    + "        endpoint: http://127.0.0.1\n        key: x\n        secret: y\n",
}


@pytest.mark.parametrize("text", LOADED.values(), ids=LOADED)
def test_other_settings_are_loaded(load: Load, text: str) -> None:
    assert load({"lakesmith.yml": text}).environment.name == "dev"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (EVENTS + "        registry: http://registry\n        registry.allow_plain_http: perhaps\n", 7),
        (_storage("http://drops") + "        allow_plain_http: 1\n", 6),
    ],
)
def test_the_option_is_true_or_false(reject: Reject, text: str, line: int) -> None:
    (error,) = reject({"lakesmith.yml": text})
    assert (error.code, str(error.at)) == ("wrong-type", f"lakesmith.yml:{line}")


@pytest.mark.parametrize("url", ["https://me:secret@registry", "http://me:secret@registry:8081"])
def test_a_password_in_the_address_of_a_registry_is_rejected(reject: Reject, url: str) -> None:
    (error,) = reject({"lakesmith.yml": EVENTS + f"        registry: {url}\n"})
    assert (error.code, str(error.at)) == ("credentials-in-url", "lakesmith.yml:6")
    assert "secret" not in str(error).replace("secrets", "")


def test_the_selected_environment_is_checked(reject: Reject, load: Load) -> None:
    text = "name: shop\nenvironments:\n  dev: {}\n  prod:\n    storage: {'http://a': {token: x}}\n"
    assert load({"lakesmith.yml": text}).environment.name == "dev"
    (error,) = reject({"lakesmith.yml": text}, environment="prod")
    assert (error.code, str(error.at)) == ("plain-http-credentials", "lakesmith.yml:5")
