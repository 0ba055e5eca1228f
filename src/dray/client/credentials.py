"""Who we are and whom we trust: the headers and the TLS context of a `ClusterAccess`, renewed when its files change.

Verification is on unless the access says `insecure`. With a CA only that CA is trusted, else the system's roots.
Any certificate of the CA bundle may end the chain, an intermediate one too, as Go's clients do it.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

from multidict import CIMultiDict

from dray.client.access import ClusterAccess, Impersonation, Secret, User, decode_text
from dray.errors import InvalidError
from dray.runtime.logs import get_log

_log = get_log("client.credentials")

Stamp = tuple[int, int, int] | None


class Credentials:
    """The headers to send. A token file is looked at before every request and read again when it changed."""

    def __init__(self, user: User) -> None:
        self._user = user
        self._fixed = _impersonation(user.impersonate)
        if user.username or user.password:
            pair = base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
            self._fixed["Authorization"] = f"Basic {pair}"
        self._token = _clean(user.token, "token")
        self._stamp: Stamp = None
        self._read_token(required=not user.token)

    @property
    def token(self) -> str:
        """The token of now, "" where there is none."""
        file = self._user.token_file
        if file is not None and file.path is not None and _stamp(file.path) != self._stamp:
            self._read_token(required=False)
        return self._token

    def use_token(self, token: str) -> None:
        """A plugin gave this one."""
        self._token = _clean(token, "token")

    def read_again(self) -> None:
        """Read the token file even if it looks unchanged: the server does not take what we have."""
        self._read_token(required=False)

    def headers(self) -> CIMultiDict[str]:
        """What to send with the next request."""
        token = self.token
        headers = self._fixed.copy()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _read_token(self, *, required: bool) -> None:
        """A file that is being replaced may be missing or empty for a moment: then the last token stays."""
        file = self._user.token_file
        if file is None:
            return
        before = _stamp(file.path) if file.path is not None else None
        try:
            token = _clean(decode_text(file.read(), file.name), file.name)
        except InvalidError:
            if required:
                raise
            return
        if token:
            self._token, self._stamp = token, before
        elif required:
            raise InvalidError(f"{file.path}: {file.name} is empty", field=file.name)


class Tls:
    """Gives the context for the next connection, and makes a new one when a file it came from was replaced."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        secrets = (access.ca, access.user.certificate, access.user.key)
        self._files = [secret.path for secret in secrets if secret is not None and secret.path is not None]
        self._stamps = self._look()
        self._context = build_context(access)

    def context(self) -> ssl.SSLContext:
        """Cheap to ask: a `stat` for each file. Certificate and key that do not match yet leave the old one in use."""
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._context = build_context(self._access)
            except InvalidError as error:
                _log.warning("changed certificates are not usable, keeping the old ones", error=str(error))
        return self._context

    def show(self, certificate: Secret | None, key: Secret | None) -> None:
        """Use this client certificate from the next connection on; InvalidError if it is none."""
        user = replace(self._access.user, certificate=certificate, key=key)
        access = replace(self._access, user=user)
        self._context = build_context(access)
        self._access = access

    def _look(self) -> list[Stamp]:
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> Stamp:
    """Changes when the file does, also when the symlinks of a mounted secret are swapped; None: not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _clean(token: str, field: str) -> str:
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidError(f"{field}: holds characters that no token has", field=field)
    return token


def _impersonation(who: Impersonation | None) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    if who is None:
        return headers
    headers["Impersonate-User"] = who.user
    if who.uid:
        headers["Impersonate-Uid"] = who.uid
    for group in who.groups:
        headers.add("Impersonate-Group", group)
    for key, values in who.extra:
        for value in values:
            headers.add(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value)
    for value in headers.values():
        if not value.isprintable():
            raise InvalidError("as, as-uid, as-groups, as-user-extra: hold control characters", field="as")
    return headers


def build_context(access: ClusterAccess) -> ssl.SSLContext:
    """A client context; InvalidError names the field whose content OpenSSL does not take."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.ca is None:
        context.load_default_certs()
    else:
        _trust(context, access.ca)
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # clusters' own CAs often break RFC 5280
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if access.user.certificate is not None and access.user.key is not None:
        _show(context, access.user.certificate, access.user.key)
    return context


def _trust(context: ssl.SSLContext, ca: Secret) -> None:
    try:
        context.load_verify_locations(cadata=decode_text(ca.read(), ca.name))
    except (ssl.SSLError, ValueError) as error:
        raise InvalidError(
            f"{_place(ca)}: holds no PEM certificate: {_reason(error)}", field=ca.name
        ) from error


def _show(context: ssl.SSLContext, certificate: Secret, key: Secret) -> None:
    pem = certificate.read().rstrip() + b"\n" + key.read()
    with _in_memory(pem) as path:
        try:
            context.load_cert_chain(path, password=lambda: _no_password(key))
        except ssl.SSLError as error:
            raise InvalidError(
                f"{_place(certificate)} and {_place(key)}: are not a matching PEM pair: {_reason(error)}",
                field=certificate.name,
            ) from error


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path for OpenSSL, which takes keys from files only; the key never reaches a disk."""
    descriptor = os.memfd_create("dray-client-key", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield str(Path("/proc/self/fd") / str(descriptor))
    finally:
        os.close(descriptor)


def _no_password(key: Secret) -> NoReturn:
    """Without this, OpenSSL would ask on the terminal."""
    raise InvalidError(f"{_place(key)}: is encrypted; give a key without a passphrase", field=key.name)


def _place(secret: Secret) -> str:
    return f"{secret.name} ({secret.path})" if secret.path is not None else secret.name


def _reason(error: ssl.SSLError | ValueError) -> str:
    return (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()
