"""The two questions of every request: may this be asked at all, and may this object be changed in this way? Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dray.apiserver.access import node_role
from dray.apiserver.access.identity import Identity
from dray.apiserver.access.roles import READS, Asked, Cluster, Document, denied


def check_request(identity: Identity, asked: Asked, cluster: Cluster) -> None:
    """Before anything is read or decoded. DeniedError where it may not be asked."""
    if identity.is_admin or (identity.is_reader and asked.verb in READS):
        return
    if identity.node:
        node_role.check_request(identity, asked, cluster)
        return
    raise denied(identity, asked)


def check_change(
    identity: Identity, asked: Asked, old: Document | None, new: Document | None, cluster: Cluster
) -> None:
    """Inside the transaction, with the object as it is (`old`, None: created) and as it would be (`new`, None: deleted).

    It is for those whose right depends on the object; `check_request` was asked before.
    """
    if is_checked_by_change(identity):
        node_role.check_change(identity, asked, old, new, cluster)


def is_checked_by_change(identity: Identity) -> bool:
    """Whether `check_change` may refuse anything; for others the objects need not be read for it."""
    return bool(identity.node) and not identity.is_admin


def check_token(
    identity: Identity,
    asked: Asked,
    pod: Document | None,
    *,
    has_uid: bool = True,
    audiences: Iterable[str] = (),
) -> None:
    """Whether a token of a service account may be had that ends with this pod (None: with no pod).

    `has_uid`: whether the request named the pod's uid; `audiences`: those it asked for, none where it left them open.
    """
    if identity.node and not identity.is_admin:
        node_role.check_token(identity, asked, pod, has_uid=has_uid, audiences=audiences)
