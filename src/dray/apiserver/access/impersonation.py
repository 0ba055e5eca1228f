"""Another user's rights for one request (`kubectl --as`), for those who have all rights anyway. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dray.apiserver.access.identity import ANONYMOUS, Identity
from dray.apiserver.access.roles import Asked, denied
from dray.errors import InvalidError

USER = "Impersonate-User"
GROUP = "Impersonate-Group"
AUTHENTICATED = "system:authenticated"


def acting(identity: Identity, users: Sequence[str], groups: Sequence[str]) -> Identity:
    """Who a request is to be judged as, out of its `Impersonate-User` and `Impersonate-Group` headers.

    DeniedError where the sender may not: then the request must not be answered at all, least of all as the sender.
    """
    if not users:
        if groups:
            raise InvalidError(f"requested {GROUP} without impersonating a user", field=GROUP)
        return identity
    if not identity.is_admin:
        raise denied(identity, Asked("impersonate", "users", name=users[0]))
    if users[0] == ANONYMOUS.name:
        return ANONYMOUS
    return Identity(users[0], tuple(dict.fromkeys((*groups, AUTHENTICATED))))
