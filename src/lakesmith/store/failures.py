"""Classifies errors of the stores' libraries, retries transient ones, and translates the others.

Errors are matched by name and status, because each library is optional and has its own classes.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.store.access import Access

Kind = Literal["missing", "exists", "denied", "unknown-host", "range", "rejected", "transient"]
Result = TypeVar("Result")

WAITS = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each retry. Up to half as much is added at random, so that waiting clients do not retry at once."""

WRITE = "lakesmithwrite"
"""The metadata key with the id of the write that created a file."""

_BY_NAME: dict[str, Kind] = {
    "NotFound": "missing",
    "FileNotFoundError": "missing",
    "ResourceNotFoundError": "missing",
    "AlreadyExists": "exists",
    "FileExistsError": "exists",
    "ResourceExistsError": "exists",
    "PermissionDenied": "denied",
    "PermissionError": "denied",
    "ClientAuthenticationError": "denied",
    "AuthenticationException": "denied",
    "BadAuthenticationType": "denied",
    "PasswordRequiredException": "denied",
    "NoCredentialsError": "denied",
    "PartialCredentialsError": "denied",
    "BadHostKeyException": "unknown-host",
    "InvalidPath": "rejected",
    "CapabilityNotSupported": "rejected",
    "ParamValidationError": "rejected",
    "TooManyRedirects": "rejected",
    # obstore, which raises FileNotFoundError too
    "AlreadyExistsError": "exists",
    "PreconditionError": "exists",
    "PermissionDeniedError": "denied",
    "UnauthenticatedError": "denied",
    "InvalidPathError": "rejected",
    "NotSupportedError": "rejected",
    "UnknownConfigurationKeyError": "rejected",
}
_BY_STATUS: dict[int, Kind] = {401: "denied", 403: "denied", 404: "missing", 412: "exists", 416: "range"}
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "RequestExpired", "InvalidToken", "400")
"""S3's codes for expired credentials, whose status is less specific. The reply to a HEAD request has no code but 400,
and nothing else in such a request could be wrong."""
_CONCURRENT = ("ConditionalRequestConflict", "OperationAborted")
"""S3's codes for another write of the same name that has not ended, so that the condition is not decided yet."""
_TRANSIENT = (408, 409, 425, 429)
_BUGS = (TypeError, AttributeError, NameError, AssertionError)


def failure_kind(error: BaseException) -> Kind:
    """Classify an error by itself and its causes: the libraries wrap each other."""
    for each in _error_chain(error):
        if _is_guess(each):
            continue
        code = _code(each)
        if code in _CONCURRENT:
            return "transient"
        kind = _BY_NAME.get(type(each).__name__)
        if kind is not None:
            return kind
        if code in _EXPIRED or _asks_machine(each):
            return "denied"
        status = _status(each)
        if status in _BY_STATUS:
            return _BY_STATUS[status]
        if status is not None and 400 <= status < 500 and status not in _TRANSIENT:
            return "rejected"
        if "not found in known_hosts" in str(each):
            return "unknown-host"
        if "Wanted range starting at" in str(each):
            return "range"
    return "transient"


def retrying(act: Callable[[], Result]) -> Result:
    """Call `act`, and retry it when the store is busy or the connection broke."""
    for wait in WAITS:
        try:
            return act()
        except _BUGS:
            raise
        except Exception as error:
            if _lakesmith_error(error) or failure_kind(error) != "transient":
                raise
        time.sleep(wait * random.uniform(1, 1.5))
    return act()


@contextmanager
def store_errors(access: Access, location: str) -> Iterator[None]:
    """Translate errors of libraries into errors with a hint."""
    try:
        yield
    except _BUGS:
        raise
    except Exception as error:  # noqa: BLE001 - each library has its own classes
        if own := _lakesmith_error(error):
            raise own from None
        # Not chained: a library's message may contain secrets of the request.
        raise _store_error(error, access, location) from None


def _store_error(error: Exception, access: Access, location: str) -> InfrastructureError:
    reason = access.hidden(" ".join(_reason(str(error)).split()))[:200]
    match failure_kind(error):
        case "denied":
            return InfrastructureError(
                "storage-denied",
                f"{location}: the store refuses access ({reason})",
                hint=f"set credentials with this permission under storage: '{access.url}' of the environment",
            )
        case "unknown-host":
            host, _, port = access.place.partition(":")
            return InfrastructureError(
                "unknown-host-key",
                f"{location}: the server's key differs from the one in known_hosts ({reason})",
                hint="compare the key with the one from the server's owner, then add it to known_hosts: "
                f"ssh-keyscan -p {port or 22} {host}",
            )
        case "missing":
            return InfrastructureError(
                "storage-missing",
                f"{location}: there is no such bucket, container or folder ({reason})",
                hint="create it, or correct the URL",
            )
        case "transient":
            return InfrastructureError(
                "storage-unreachable",
                f"{location}: the store did not answer after {len(WAITS)} retries ({reason})",
                hint="run again when it is up; nothing was changed",
            )
        case _:
            return InfrastructureError(
                "storage-failed",
                f"{location}: the store rejected the request ({reason})",
                hint=f"check the URL and the settings under storage: '{access.url}' of the environment",
            )


def _lakesmith_error(error: BaseException) -> LakesmithError | None:
    """An error of the file that was being sent, which a library may have wrapped in its own."""
    return next((each for each in _error_chain(error) if isinstance(each, LakesmithError)), None)


def _error_chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _is_guess(error: BaseException) -> bool:
    """Whether remote-store may have guessed the error from text: it reports a missing or forbidden file when the
    connection to port 40463 breaks, or that for a file 403.json. The store's own error is the cause."""
    wrapped = error.__cause__ or error.__context__
    guessed = type(error).__name__ in ("NotFound", "PermissionDenied")
    return guessed and wrapped is not None and type(error).__module__.startswith("remote_store")


def _code(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        code: str | None = response.get("Error", {}).get("Code")
        return code
    reply = _REPLY.search(str(error))
    if reply is None:
        return None
    # The reply to a HEAD request has no code.
    found = _CODE.search(reply["body"])
    return found[1] if found else reply["status"] if "Generic S3 error" in str(error) and not reply["body"] else None


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    if status is None:
        of_boto = response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(response, dict) else None
        status = of_boto or getattr(response, "status_code", None)
    if status is None and (reply := _REPLY.search(str(error))):
        status = int(reply["status"])
    return status if isinstance(status, int) else None


_REPLY = re.compile(
    r" in [\d.]+\S{1,2} - Server returned non-2xx status code: (?P<status>\d{3}) ?(?P<words>[^:\n]*):? ?"
    r"(?P<body>.*?)\s*(?:\n\nDebug source:|\Z)",
    re.DOTALL,
)
"""The store's reply in an error of obstore, whose writers raise it without its class."""
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")


def _reason(text: str) -> str:
    """A short text of an error; of obstore's, the reply of the store, without the URL of the request."""
    reply = _REPLY.search(text)
    if reply is None:
        return text.partition("\n\nDebug source:")[0].rpartition(" - ")[2]
    parts = [found[1] for found in (_CODE.search(reply["body"]), _MESSAGE.search(reply["body"])) if found]
    return ": ".join([f"{reply['status']} {reply['words']}", *parts])


def _asks_machine(error: BaseException) -> bool:
    """Whether obstore found no credentials, and asked the cloud's own machines for some."""
    return "//169.254.169.254/" in str(error) or "metadata.google.internal" in str(error)
