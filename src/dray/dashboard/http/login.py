"""How the page is let in: it sends the token once and has a cookie from then on."""

from __future__ import annotations

import msgspec

from dray.dashboard.http.security import Doorkeeper
from dray.errors import InvalidError


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the page sends."""

    token: str


def log_in(doorkeeper: Doorkeeper, body: bytes) -> None:
    """Nothing where the token in the body is the right one; else the error to tell."""
    try:
        given = msgspec.json.decode(body, type=Login)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidError('send {"token": "…"}', field="token") from None
    doorkeeper.log_in(given.token)
