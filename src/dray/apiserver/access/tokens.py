"""Bearer tokens. The file has only their hashes: who reads it can ask for nothing."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection
from pathlib import Path

import msgspec

from dray.apiserver.access.identity import Identity
from dray.apiserver.access.service_accounts import ISSUER, ServiceAccountTokens
from dray.errors import DeniedError, HardwareError
from dray.runtime.files.durable import make_directory, open_directory, replace_file
from dray.runtime.files.oserrors import from_os_error

_BYTES = 32
_SCHEME = "bearer "


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: str
    groups: tuple[str, ...]
    sha256: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[_Entry, ...] = ()


class Tokens:
    """All tokens there are. A user may have several, so that one can be replaced while it is in use."""

    def __init__(self, path: Path, accounts: ServiceAccountTokens | None = None) -> None:
        """Read the file; where there is none there are no tokens. HardwareError for one that cannot be read.

        `accounts` knows the tokens of service accounts, which are signed and in no file.
        """
        self._path = path
        self.accounts = accounts
        self._entries = _read(path)
        self._users = {one.sha256: Identity(one.user, one.groups) for one in self._entries}

    def issue(self, identity: Identity) -> str:
        """A new token, durable before it is told. It cannot be read again."""
        token = secrets.token_urlsafe(_BYTES)
        self._keep((*self._entries, _Entry(identity.name, identity.groups, _hash(token))))
        return token

    def revoke(self, user: str) -> int:
        """All tokens of a user end; how many there were."""
        kept = tuple(one for one in self._entries if one.user != user)
        ended = len(self._entries) - len(kept)
        if ended:
            self._keep(kept)
        return ended

    def identity(self, authorization: str) -> Identity | None:
        """Who sent this `Authorization` header; None without one. DeniedError (401) for a token that nobody has."""
        if not authorization:
            return None
        if not authorization.lower().startswith(_SCHEME):
            raise DeniedError("the Authorization header has no bearer token", authenticated=False)
        return self.known(authorization[len(_SCHEME) :].strip())[0]

    def known(self, token: str, audiences: Collection[str] = (ISSUER,)) -> tuple[Identity, tuple[str, ...]]:
        """Who has a token, and for which of the audiences it is; those of the file are for this server alone."""
        found = self._users.get(_hash(token))
        if found is None:
            if self.accounts is not None and token.count(".") == 2:
                return self.accounts.known(token, audiences)
            raise DeniedError("the bearer token is not known to this server", authenticated=False)
        if ISSUER not in audiences:
            raise DeniedError("the bearer token is for another audience", authenticated=False)
        return found, (ISSUER,)

    def _keep(self, entries: tuple[_Entry, ...]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_File(entries)), indent=2)
        try:
            make_directory(self._path.parent)
            with open_directory(self._path.parent) as directory:
                replace_file(directory, self._path.name, data, mode=0o600)
        except OSError as error:
            raise from_os_error(error, "write", str(self._path)) from error
        self._entries = entries
        self._users = {one.sha256: Identity(one.user, one.groups) for one in entries}


def _hash(token: str) -> str:
    """A token is random, so it needs no salt; and whoever compares hashes learns nothing from the time it takes."""
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def _read(path: Path) -> tuple[_Entry, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File).tokens
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise from_os_error(error, "read", str(path)) from error
    except msgspec.MsgspecError as error:
        raise HardwareError(
            f"{str(path)!r} is not a file of tokens ({error}): restore it, or remove it and issue new ones",
            path=str(path),
        ) from error
