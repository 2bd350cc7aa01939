"""What the libraries of the stores raise: what it means, whether it is worth another try, and how it is told.

They are known by name and by status, because each library is optional and brings errors of its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

from lakesmith.errors import InfrastructureError, LakesmithError
from lakesmith.storage.access import Access

Kind = Literal["missing", "taken", "denied", "stranger", "refused", "passing"]
Result = TypeVar("Result")

WAITS = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each further try; up to half as much is added, so that many who wait do not come back at once."""

WRITE = "lakesmithwrite"
"""The name under which a file that was put tells of the write that did it."""

_BY_NAME: dict[str, Kind] = {
    "NotFound": "missing",
    "FileNotFoundError": "missing",
    "ResourceNotFoundError": "missing",
    "AlreadyExists": "taken",
    "FileExistsError": "taken",
    "ResourceExistsError": "taken",
    "PermissionDenied": "denied",
    "PermissionError": "denied",
    "ClientAuthenticationError": "denied",
    "AuthenticationException": "denied",
    "BadAuthenticationType": "denied",
    "PasswordRequiredException": "denied",
    "NoCredentialsError": "denied",
    "PartialCredentialsError": "denied",
    "BadHostKeyException": "stranger",
    "InvalidPath": "refused",
    "CapabilityNotSupported": "refused",
    "ParamValidationError": "refused",
    "TooManyRedirects": "refused",
}
_BY_STATUS: dict[int, Kind] = {401: "denied", 403: "denied", 404: "missing", 412: "taken"}
_OVER = ("ExpiredToken", "TokenRefreshRequired", "RequestExpired", "InvalidToken", "400")
"""What S3 says of credentials whose time is over, with a status that tells less. Asked for the head of a file alone it
says no word, and there is nothing else in such a question that could be wrong."""
_WORTH_ANOTHER_TRY = (408, 409, 425, 429)
_BUGS = (TypeError, AttributeError, NameError, AssertionError)


def kind_of(error: BaseException) -> Kind:
    """What an error means. What is behind it counts too: the libraries wrap each other."""
    for each in _behind(error):
        if _is_guess(each):
            continue
        kind = _BY_NAME.get(type(each).__name__)
        if kind is not None:
            return kind
        if _code(each) in _OVER:
            return "denied"
        status = _status(each)
        if status in _BY_STATUS:
            return _BY_STATUS[status]
        if status is not None and 400 <= status < 500 and status not in _WORTH_ANOTHER_TRY:
            return "refused"
        if "not found in known_hosts" in str(each):
            return "stranger"
    return "passing"


def retrying(act: Callable[[], Result]) -> Result:
    """Do it, and again after a while when the store is busy or the line was cut."""
    for wait in WAITS:
        try:
            return act()
        except _BUGS:
            raise
        except Exception as error:
            if _ours(error) or kind_of(error) != "passing":
                raise
        time.sleep(wait * random.uniform(1, 1.5))
    return act()


@contextmanager
def told(access: Access, location: str) -> Iterator[None]:
    """Turn whatever a library raises into an error that says what to do."""
    try:
        yield
    except _BUGS:
        raise
    except Exception as error:  # noqa: BLE001 - each library raises what it likes
        if ours := _ours(error):
            raise ours from None
        # Not chained: what a library says about a request may hold the secrets that were sent with it.
        raise _telling(error, access, location) from None


def _telling(error: Exception, access: Access, location: str) -> InfrastructureError:
    said = access.hidden(" ".join(str(error).split()))[:200]
    match kind_of(error):
        case "denied":
            return InfrastructureError(
                "storage-denied",
                f"{location}: the store refuses access ({said})",
                hint=f"give credentials that may do this below storage: '{access.url}' of the environment",
            )
        case "stranger":
            host, _, port = access.place.partition(":")
            return InfrastructureError(
                "unknown-host-key",
                f"{location}: the server's key is not the one that is known for it ({said})",
                hint="compare the key with the one that the server's owner names, then add it to known_hosts: "
                f"ssh-keyscan -p {port or 22} {host}",
            )
        case "missing":
            return InfrastructureError(
                "storage-missing",
                f"{location}: there is no such bucket, container or folder ({said})",
                hint="make it, or mend the URL",
            )
        case "passing":
            return InfrastructureError(
                "storage-unreachable",
                f"{location}: the store did not answer, and neither after {len(WAITS)} more tries ({said})",
                hint="run again when it is up; nothing was changed",
            )
        case _:
            return InfrastructureError(
                "storage-failed",
                f"{location}: the store did not do what it was asked ({said})",
                hint=f"check the URL and the settings below storage: '{access.url}' of the environment",
            )


def _ours(error: BaseException) -> LakesmithError | None:
    """What a file that was being sent has raised: a library may have taken it for its own trouble."""
    return next((each for each in _behind(error) if isinstance(each, LakesmithError)), None)


def _behind(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or each.__context__


def _is_guess(error: BaseException) -> bool:
    """Whether remote-store may have read it out of words: where the line to port 40463 was cut, or that of a file named
    403.json, it speaks of a file that is missing or forbidden. What the store itself said is behind it."""
    wrapped = error.__cause__ or error.__context__
    guessed = type(error).__name__ in ("NotFound", "PermissionDenied")
    return guessed and wrapped is not None and type(error).__module__.startswith("remote_store")


def _code(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    return response.get("Error", {}).get("Code") if isinstance(response, dict) else None


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    response = getattr(error, "response", None)
    if status is None:
        of_boto = response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(response, dict) else None
        status = of_boto or getattr(response, "status_code", None)
    return status if isinstance(status, int) else None
