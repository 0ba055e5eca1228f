"""What went wrong on the way, in Dray's words: connection failures and HTTP errors → `dray.errors`."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import aiohttp

from dray.api.codec import loads
from dray.api.http_status import error_from_status, is_expired
from dray.errors import ConflictError, DeniedError, Error, InvalidError, ProtocolError, UnavailableError

_OUR_CERTIFICATE_REFUSED = (
    "CERTIFICATE_REQUIRED",
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "ACCESS_DENIED",
)


class ExpiredError(ConflictError):
    """What we hold on to is older than what the server still has (410), or a watch lost its thread: list again."""


def from_response(what: str, code: int, headers: Mapping[str, str], data: bytes) -> Error:
    """The error for an HTTP status of 400 and above. A Status speaks for itself; anything else is told with `what`."""
    body = _body(data)
    wait = retry_after(headers)
    error = error_from_status(code, body, retry_after=wait)
    if code >= 500 and isinstance(
        error, ProtocolError
    ):  # a reason nobody knows, yet plainly the server's trouble
        error = UnavailableError(str(error), retry_after=wait)
    if is_expired(code, body):
        return ExpiredError(f"{what}: {error}; list again")
    if code == 401 or not isinstance(body, dict):
        error.args = (f"{what}: {error}",)
    return error


def _body(data: bytes) -> object:
    """A JSON document, else the text."""
    try:
        return loads(data)
    except InvalidError:
        return data.decode(errors="replace")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks us to wait. A date is taken against the server's own `Date`, so clocks may differ."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("Date", ""))
    except (ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())


def from_connection(what: str, error: Exception) -> Error:
    """The error for a request that got no complete answer."""
    tls = _tls_failure(what, error)
    if tls is not None:
        return tls
    reason = _reason(error)
    match error:
        case aiohttp.ClientHttpProxyError():
            return UnavailableError(f"{what}: the proxy answered {error.status} {error.message}")
        case aiohttp.ClientProxyConnectionError():
            return UnavailableError(f"{what}: cannot reach the proxy: {reason}")
        case aiohttp.ClientConnectorDNSError():
            return UnavailableError(f"{what}: cannot resolve the server's name: {reason}")
        case aiohttp.ClientConnectorError():
            return UnavailableError(f"{what}: cannot connect: {reason}; is the API server running?")
        case TimeoutError():
            return UnavailableError(f"{what}: the server did not answer in time")
        case aiohttp.ClientPayloadError():
            return UnavailableError(f"{what}: the connection broke in the middle of the answer")
        case aiohttp.ClientResponseError():
            return ProtocolError(f"{what}: the answer is not HTTP: {error.message}")
    return UnavailableError(f"{what}: the connection broke: {reason}")


def _tls_failure(what: str, error: Exception) -> Error | None:
    """Faults of trust are not retried: somebody has to change a file."""
    cause = _ssl_error(error)
    if cause is None:
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return InvalidError(
            f"{what}: the server's certificate is not accepted: {cause.verify_message}; "
            "check certificate-authority, tls-server-name and the server address",
            field="certificate-authority",
        )
    if any(word in (cause.reason or "") for word in _OUR_CERTIFICATE_REFUSED):
        return DeniedError(
            f"{what}: the server does not accept our client certificate: {_reason(cause)}; "
            "check client-certificate and client-key",
            authenticated=False,
        )
    return UnavailableError(f"{what}: TLS failed: {_reason(cause)}; does the server speak HTTPS there?")


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    """The TLS library's own error inside what the HTTP library made of it (whose classes pose as SSLError too)."""
    while error is not None:
        inner = getattr(error, "os_error", error)
        for candidate in (inner, getattr(error, "certificate_error", None)):
            if isinstance(candidate, ssl.SSLError) and not isinstance(candidate, aiohttp.ClientError):
                return candidate
        error = error.__cause__ or error.__context__
    return None


def _reason(error: Exception) -> str:
    """The part of the library's message that tells a user something."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return str(error.reason).replace("_", " ").lower()
    inner = getattr(error, "os_error", error)
    number = inner.errno if isinstance(inner, OSError) else None
    if number is not None and number in errno.errorcode:
        return os.strerror(number).lower()
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror.lower()
    return str(error) or type(error).__name__
