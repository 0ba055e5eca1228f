"""Who may ask the guard: API servers alone. Pure, but for the file of `kept_secret`.

An API server is told from others by the path of the webhook, which is made at random and known to the guard and to the
ValidatingWebhookConfiguration alone, another one for claims than for parameters, and where `--guard-client-ca-file` is given also by its client certificate. The
path by itself is not enough for ever: where a call fails, API servers put its URL into the error that the writer of the
claim gets. So the guard that leads makes a new one every few minutes, and the one before it is good for one more turn.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dray.runtime.files.durable import make_directory, write_durably
from dray.runtime.files.oserrors import from_os_error

CLAIMS_PATH: Final = "/claims"
PARAMETERS_PATH: Final = "/parameters"
RENEW_SECONDS: Final = 300.0
_FILE: Final = "path.secret"
_BYTES: Final = 32


class Callers:
    """What an API server must know, and whose certificate it must have (`needs_certificate`; with one of `names`)."""

    def __init__(
        self, secret: str = "", *, needs_certificate: bool = False, names: Iterable[str] = ()
    ) -> None:
        self._secret = secret or new_secret()
        self._previous = self._secret
        self._needs_certificate, self._names = needs_certificate, frozenset(names)

    @property
    def secret(self) -> str:
        """The newest, for the webhook's path."""
        return self._secret

    def renew(self) -> None:
        """Make a new secret. The one before stays good until the next call, so install the webhook in between."""
        self._previous, self._secret = self._secret, new_secret()

    def know(self, secret: str, path: str) -> bool:
        """Whether it is that of this path, from the newest secret or the one before. Takes the same time for every wrong one."""
        said = secret.encode("utf-8", "surrogateescape")
        known = [secret_at(path, one).encode() for one in (self._secret, self._previous)]
        # Both are compared, always.
        found = [hmac.compare_digest(said, one) for one in known]
        return any(found)

    def are_certified(self, certificate: Mapping[str, Any] | None) -> bool:
        """Whether the certificate suffices: TLS has checked its signature. None: none was shown."""
        if not self._needs_certificate:
            return True
        return not self._names.isdisjoint(_names_in(certificate or {}))


def secret_at(path: str, secret: str) -> str:
    """The last part of this path of the webhook. By what is known of `/parameters` nobody finds that of `/claims`."""
    if path == CLAIMS_PATH:
        return secret
    return hmac.new(secret.encode(), path.encode(), "sha256").hexdigest()


def new_secret() -> str:
    """A part of a path that nobody can guess. API servers take small letters and digits only."""
    return secrets.token_hex(_BYTES)


def kept_secret(directory: Path) -> str:
    """The one in the directory, made where there is none: for a webhook that somebody else installs."""
    try:
        make_directory(directory)
        file = directory / _FILE
        if file.exists() and (found := file.read_text().strip()):
            return found
        made = new_secret()
        write_durably(file, made.encode())
    except OSError as error:
        raise from_os_error(error, "keep the webhook's path in", str(directory)) from error
    return made


def _names_in(certificate: Mapping[str, Any]) -> set[str]:
    """Its common names and DNS names, as Python's `ssl` shows a certificate that was verified."""
    subject = (pair for part in certificate.get("subject", ()) for pair in part)
    common = {value for key, value in subject if key == "commonName"}
    return common | {value for key, value in certificate.get("subjectAltName", ()) if key == "DNS"}
