"""Bearer tokens. The file has only their hashes: who reads it can ask for nothing.

A running server looks at the file before every answer, so that a token counts, or ends, as soon as the file says so.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from dray.apiserver.access.identity import Identity
from dray.apiserver.access.service_accounts import ISSUER, ServiceAccountTokens
from dray.errors import DeniedError, HardwareError, InvalidError
from dray.runtime.files.durable import make_directory, write_durably
from dray.runtime.files.filelock import FileLock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("apiserver.tokens")

_BYTES = 32
_SCHEME = "bearer "
_NEVER, _NONE = (0, 0, 0), (-1, 0, 0)
"""Not looked yet; there is no file."""


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
        self._entries: tuple[_Entry, ...] = ()
        self._users: dict[str, Identity] = {}
        self._seen = _NEVER
        self._told = ""
        self._look()

    def issue(self, identity: Identity) -> str:
        """A new token, durable before it is told. It cannot be read again."""
        token = secrets.token_urlsafe(_BYTES)
        with self._alone():
            self._keep((*self._entries, _Entry(identity.name, identity.groups, _hash(token))))
        return token

    def revoke(self, user: str) -> int:
        """All tokens of a user end; how many there were."""
        with self._alone():
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
        self._look_again()
        found = self._users.get(_hash(token))
        if found is None:
            if self.accounts is not None and token.count(".") == 2:
                return self.accounts.known(token, audiences)
            raise DeniedError("the bearer token is not known to this server", authenticated=False)
        if ISSUER not in audiences:
            raise DeniedError("the bearer token is for another audience", authenticated=False)
        return found, (ISSUER,)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes the file meanwhile, and what others did before is known."""
        try:
            make_directory(self._path.parent)
        except OSError as error:
            raise from_os_error(error, "make the directory", str(self._path.parent)) from error
        lock = FileLock(self._path.with_suffix(".lock"))
        lock.acquire()
        try:
            self._look()
            yield
        finally:
            lock.release()

    def _look(self) -> None:
        """Read the file if it is another one than last time."""
        try:
            found = self._path.stat()
            state = (found.st_ino, found.st_mtime_ns, found.st_size)
        except FileNotFoundError:
            state = _NONE
        except OSError as error:
            raise from_os_error(error, "read", str(self._path)) from error
        if state == self._seen:
            return
        self._entries = _read(self._path)
        self._users = {one.sha256: Identity(one.user, one.groups) for one in self._entries}
        self._seen = state

    def _look_again(self) -> None:
        """While it serves: a file that got damaged meanwhile is told, and what was known stays."""
        try:
            self._look()
        except (HardwareError, DeniedError, InvalidError) as error:
            if str(error) != self._told:
                _log.error("the tokens cannot be read again, the known ones stay", error=str(error))
            self._told = str(error)

    def _keep(self, entries: tuple[_Entry, ...]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_File(entries)), indent=2)
        try:
            write_durably(self._path, data)
        except OSError as error:
            raise from_os_error(error, "write", str(self._path)) from error
        self._look()


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
