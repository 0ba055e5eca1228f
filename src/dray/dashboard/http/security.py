"""Who may look: a token, our own Host and Origin, a cookie that only this page sends, and headers that forbid the rest."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.errors import DeniedError, InvalidError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.http_hosts import Hosts, is_own_origin

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "Server": "dray",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
MIN_TOKEN: Final = 16
MIN_DIFFERENT: Final = 6
"""Characters of a token that somebody chose: guessing is kept hopeless by its length, not by locking anybody out."""
_TRIES: Final = 10
_WINDOW: Final = 10.0
_PAUSE: Final = 0.25
_WAITING: Final = 64


def new_token() -> str:
    """One that nobody guesses."""
    return secrets.token_urlsafe(32)


def check_token_text(text: str, source: str) -> str:
    """A token that somebody chose; InvalidError where it is easily guessed, or cannot be sent in a header."""
    token = text.strip()
    if len(token) < MIN_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidError(
            f"{source}: a token must be at least {MIN_TOKEN} ASCII characters on one line, without spaces; "
            "remove the file to have a new one made",
            field=source,
        )
    if len(set(token)) < MIN_DIFFERENT:
        raise InvalidError(
            f"{source}: a token must have at least {MIN_DIFFERENT} different characters; "
            "remove the file to have a new one made",
            field=source,
        )
    return token


@dataclass(slots=True)
class Doorkeeper:
    """Decides for each request whether it is answered. `cookie` is the name of ours: browsers mix up those of several ports."""

    token: str = field(repr=False)
    hosts: Hosts
    cookie: str
    clock: Clock
    _failed: deque[float] = field(default_factory=lambda: deque(maxlen=_TRIES))
    _waiting: int = 0

    @property
    def cookie_value(self) -> str:
        """Stands for the token, from which it is made: it is good as long as that is."""
        return hmac.new(self.token.encode(), b"dray dashboard cookie", hashlib.sha256).hexdigest()

    def check_place(self, headers: Mapping[str, str], *, is_api: bool) -> None:
        """DeniedError where the request is not for us, or comes from another page than ours."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if not self.hosts.has(host):
            raise DeniedError(
                "this name is not the dashboard's: open the address it printed, or start it with --allow-host",
                what="Host",
            )
        if origin is not None and not is_own_origin(origin, host):
            raise DeniedError("a page of another origin may not ask the dashboard", what="Origin")
        if is_api and headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise DeniedError("a page of another site may not ask the dashboard", what="Sec-Fetch-Site")

    def check_user(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> None:
        """DeniedError (not authenticated) without the token, as a bearer or as our cookie."""
        kind, _, given = headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer":
            if _same(given.strip(), self.token):
                return
            raise DeniedError("the token is not the dashboard's", authenticated=False)
        if _same(cookies.get(self.cookie, ""), self.cookie_value):
            return
        raise DeniedError(
            "no token: open the address that the dashboard printed, or log in with its token",
            authenticated=False,
        )

    def log_in(self, given: str) -> None:
        """DeniedError for another token. The right one is let in whatever others tried before."""
        if not _same(given.strip(), self.token):
            raise DeniedError("the token is not the dashboard's", authenticated=False)

    async def slow_down(self) -> None:
        """Before the answer to a wrong token: after ten in ten seconds it comes a little later.

        UnavailableError where too many wait already, so that guessers cost no memory.
        """
        now = self.clock.monotonic()
        is_much = len(self._failed) == _TRIES and now - self._failed[0] < _WINDOW
        self._failed.append(now)
        if not is_much:
            return
        if self._waiting >= _WAITING:
            raise UnavailableError(f"too many wrong tokens: try again in {_PAUSE:g} s", retry_after=_PAUSE)
        self._waiting += 1
        try:
            await self.clock.sleep(_PAUSE)
        finally:
            self._waiting -= 1


def _same(given: str, known: str) -> bool:
    """In a time that tells nothing."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())
