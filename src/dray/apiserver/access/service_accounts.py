"""Tokens of service accounts: what they say, and whom they make known while account and pod live.

RBAC grants nothing here, so a service account may only see what is served; programs beside a node use the node's token.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from dray.apiserver.access.identity import Identity
from dray.apiserver.access.signing import Signer
from dray.apiserver.store.contract import Key, Lookup
from dray.errors import DeniedError
from dray.runtime.clock import Clock

ISSUER: Final = "https://kubernetes.default.svc"
"""Also the audience that this server is, and so the one of a token that names none."""
ACCOUNTS: Final = "serviceaccounts"
_PRIVATE: Final = "kubernetes.io"
BOUND: Final = ("pod", "secret", "node")
"""What a token can be bound to."""


class Reference(NamedTuple):
    """An object by name, and by the uid that a later one of the same name has not."""

    name: str
    uid: str

    def claim(self) -> dict[str, str]:
        """As a token says it."""
        return {"name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class Grant:
    """What one token is for. It ends with the `holder`, where it has one; `bound` is its kind: pod, secret or node."""

    namespace: str
    account: Reference
    bound: str = ""
    holder: Reference | None = None
    audiences: Sequence[str] = (ISSUER,)


def _uid_of(objects: Lookup, resource: str, namespace: str, name: str) -> str:
    """The uid of an object; empty where it is gone."""
    found = objects.get(Key(resource, namespace, name))
    return "" if found is None else found.uid


class ServiceAccountTokens:
    """Issues and knows them. Asked for every request that has such a token, so an account's end is its tokens' end."""

    def __init__(self, signer: Signer, clock: Clock, objects: Lookup) -> None:
        self._signer = signer
        self._clock = clock
        self._objects = objects

    def issue(self, grant: Grant, seconds: int) -> tuple[str, datetime]:
        """A token, and when it ends."""
        now = self._clock.now()
        end = now + timedelta(seconds=seconds)
        private: dict[str, Any] = {"namespace": grant.namespace, "serviceaccount": grant.account.claim()}
        if grant.holder is not None:
            private[grant.bound] = grant.holder.claim()
        claims = {
            "iss": ISSUER,
            "sub": _user(grant.namespace, grant.account.name),
            "aud": list(grant.audiences),
            "iat": int(now.timestamp()),
            "nbf": int(now.timestamp()),
            "exp": int(end.timestamp()),
            "jti": secrets.token_hex(16),
            _PRIVATE: private,
        }
        return self._signer.sign(claims), end

    def known(self, token: str, audiences: Collection[str] = (ISSUER,)) -> tuple[Identity, tuple[str, ...]]:
        """Who has this token, and for which of the audiences it is. DeniedError (401) where it is no good, or no more."""
        claims = self._signer.read(token)
        if claims is None:
            raise _unknown("is not known to this server")
        if claims["exp"] <= self._clock.now().timestamp():
            raise _unknown("has expired")
        meant = tuple(one for one in claims["aud"] if one in audiences)
        if not meant:
            raise _unknown("is for another audience")
        self._check_alive(claims[_PRIVATE])
        return _identity(claims[_PRIVATE]), meant

    def _check_alive(self, private: Mapping[str, Any]) -> None:
        namespace, account = private["namespace"], private["serviceaccount"]
        if _uid_of(self._objects, ACCOUNTS, namespace, account["name"]) != account["uid"]:
            raise _unknown("is of a service account that is gone")
        for kind in BOUND:
            bound = private.get(kind)
            place = "" if kind == "node" else namespace
            if bound and _uid_of(self._objects, f"{kind}s", place, bound["name"]) != bound["uid"]:
                raise _unknown(f"is of a {kind} that is gone")


def _identity(private: Mapping[str, Any]) -> Identity:
    namespace, account = private["namespace"], private["serviceaccount"]["name"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Identity(_user(namespace, account), groups)


def _user(namespace: str, account: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def _unknown(why: str) -> DeniedError:
    return DeniedError(f"the bearer token {why}", authenticated=False)
