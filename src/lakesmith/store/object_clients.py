"""Connects to object stores through obstore: S3 and compatible, Azure, Google Cloud Storage."""

from __future__ import annotations

import configparser
import os
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from lakesmith.errors import DeclarationError, InfrastructureError
from lakesmith.store import failures
from lakesmith.store.access import Access

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 60.0
"""How long a request may wait for the next bytes of its reply."""
_LONGEST_REQUEST = timedelta(hours=6)


_NO_ACCOUNT = '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'
"""A key file that makes requests anonymous."""


@dataclass(frozen=True, slots=True)
class Client:
    """A connection to a bucket or container."""

    store: Any
    """Makes each request once: the caller recognises its own write when a reply is lost, and retries."""
    persistent: Any
    """Retries each request, for listings and uploads that consist of many."""


@dataclass(frozen=True, slots=True)
class S3Keys:
    """The credentials of an S3 store. Without any, each client finds its own, such as those of the machine."""

    key: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AzureAccount:
    """The account of a container."""

    name: str
    endpoint: str
    """The URL of its blob service."""
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)


_clients: dict[Access, Client] = {}
_connecting = threading.Lock()
_process: int | None = None
"""The process that connected first. A fork of it does not have the threads of the library, and would wait forever."""


def connect(access: Access) -> Client:
    """The connection with these settings; connects on first use."""
    global _process
    with _connecting:
        if _process not in (None, os.getpid()):
            raise InfrastructureError(
                "forked-process",
                f"{access.url} cannot be used here: a parent of this process connected to an object store and forked",
                hint="start processes with the method `spawn`",
            )
        if access not in _clients:
            _clients[access] = _connect(access)
            _process = os.getpid()
        return _clients[access]


def _connect(access: Access) -> Client:
    waits = failures.WAITS
    backoff = {"init_backoff": timedelta(seconds=waits[0]), "max_backoff": timedelta(seconds=waits[-1])}
    retries = {"max_retries": len(waits), "backoff": backoff, "retry_timeout": timedelta(hours=1)}
    return Client(_open(access, {"max_retries": 0}), _open(access, retries))


def _open(access: Access, retries: dict[str, Any]) -> Any:
    try:
        from obstore import store
    except ImportError as error:
        extra = {"az": "azure", "gs": "gcs"}.get(access.kind, access.kind)
        raise InfrastructureError(
            "missing-library",
            f"{access.url} needs the package {error.name}, which is not installed",
            hint=f"pip install 'lakesmith[{extra}]'",
        ) from error
    options: dict[str, Any] = {"retry_config": retries}
    client: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "read_timeout": timedelta(seconds=SILENT_SECONDS),
        "timeout": _LONGEST_REQUEST,
    }
    endpoint = access.get("endpoint")
    kind: Any
    match access.kind:
        case "s3":
            kind = store.S3Store
            keys = s3_keys(access)
            if endpoint:
                options["endpoint"] = endpoint
            if region := s3_region(access):
                options["region"] = region
            if keys.key is not None:  # a provider: keys in options would be mixed with a token in the environment
                given = {"access_key_id": keys.key, "secret_access_key": keys.secret, "token": keys.token}
                options["credential_provider"] = lambda: {**given, "expires_at": None}
            # A copy fails where the target exists. Stores without conditional copies support this way.
            options["copy_if_not_exists"] = "multipart"
        case "az":
            kind = store.AzureStore
            account = azure_account(access)
            endpoint = account.endpoint
            options |= {"account_name": account.name, "endpoint": endpoint}
            if account.key:
                options |= {"account_key": account.key, "credential_type": "access_key"}
            elif account.sas:
                options |= {"sas_key": account.sas, "credential_type": "sas_token"}
        case _:
            kind = store.GCSStore
            if endpoint:
                options["base_url"] = endpoint
            if is_plain(endpoint):  # an emulator: never send a token unencrypted
                options["service_account_key"] = _NO_ACCOUNT
            elif account_file := access.get("service_account"):
                options["service_account_key" if "{" in account_file else "service_account"] = account_file
    client["allow_http"] = is_plain(endpoint)
    return kind(access.place, client_options=client, **options)


def is_plain(endpoint: str | None) -> bool:
    return endpoint is not None and endpoint.lower().startswith("http://")


def s3_keys(access: Access) -> S3Keys:
    """The keys in the settings, or of the profile in AWS's own files; none where the environment has credentials."""
    key, secret = access.get("key"), access.get("secret")
    if key and secret:
        return S3Keys(key, secret, access.get("session_token"))
    if os.environ.keys() & _CREDENTIALS_ELSEWHERE:
        return S3Keys()
    profile = _profile("AWS_SHARED_CREDENTIALS_FILE", "credentials")
    key, secret = profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")
    return S3Keys(key, secret, profile.get("aws_session_token")) if key and secret else S3Keys()


_CREDENTIALS_ELSEWHERE = {
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
}


def s3_region(access: Access) -> str | None:
    found = access.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return found or _profile("AWS_CONFIG_FILE", "config").get("region")


def _profile(variable: str, name: str) -> dict[str, str]:
    """The settings of the current profile in one of AWS's files."""
    path = os.environ.get(variable) or os.path.join("~", ".aws", name)
    profile = os.environ.get("AWS_PROFILE") or "default"
    parser = configparser.RawConfigParser()
    try:
        parser.read(os.path.expanduser(path), encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    section = profile if profile in parser else f"profile {profile}"
    return dict(parser[section]) if section in parser else {}


def azure_account(access: Access) -> AzureAccount:
    """The account in the settings."""
    connection = dict(part.split("=", 1) for part in (access.get("connection_string") or "").split(";") if "=" in part)
    account = access.get("account") or connection.get("AccountName")
    service, _, signature = (access.get("endpoint") or connection.get("BlobEndpoint") or "").partition("?")
    service = service.rstrip("/")
    if not account and service:
        account = service.partition("://")[2].partition(".")[0]
    if not account:
        raise DeclarationError(
            "missing-key",
            f"the account of {access.url} is missing",
            hint=f"add account: or connection_string: below storage: '{access.url}' of the environment",
        )
    if not service:
        scheme = connection.get("DefaultEndpointsProtocol", "https")
        service = f"{scheme}://{account}.blob.{connection.get('EndpointSuffix', 'core.windows.net')}"
    sas = access.get("sas_token") or connection.get("SharedAccessSignature") or signature
    key = access.get("account_key") or connection.get("AccountKey")
    return AzureAccount(account, service, key, sas.removeprefix("?") or None)
