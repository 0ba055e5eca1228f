"""POST to `serviceaccounts/NAME/token`: `kubectl create token`, and a kubelet for the volumes of its pods. Nothing is kept."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from dray.api.codec import view
from dray.api.field_errors import Path
from dray.api.meta import Model, ObjectMeta, format_time
from dray.api.validation.faults import invalid
from dray.apiserver.access.authorize import check_token
from dray.apiserver.access.identity import Identity
from dray.apiserver.access.roles import Asked
from dray.apiserver.access.service_accounts import (
    ACCOUNTS,
    BOUND,
    ISSUER,
    Grant,
    Reference,
    ServiceAccountTokens,
)
from dray.apiserver.store.contract import Key, Lookup, Stored
from dray.apiserver.writing.faults import BadRequestError, ObjectInvalidError, conflict
from dray.errors import InvalidError, NotFoundError

_PATH: Final = re.compile(r"/api/v1/namespaces/([^/%]+)/serviceaccounts/([^/%]+)/token/?")
_KIND: Final = "TokenRequest.authentication.k8s.io"
_SHORTEST, _LONGEST = 600, 1 << 32


class _Bound(Model, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Spec(Model, frozen=True, kw_only=True):
    audiences: tuple[str, ...] = ()
    expiration_seconds: int | None = None
    bound_object_ref: _Bound | None = None


class _TokenRequest(Model, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: _Spec = _Spec()


def token_request(path: str) -> Asked | None:
    """What is asked with a path that stands for the tokens of an account; None for all other paths."""
    found = _PATH.fullmatch(path)
    return Asked("create", ACCOUNTS, found[1], found[2], "token") if found else None


def requested_token(
    asked: Asked, document: Any, identity: Identity, objects: Lookup, tokens: ServiceAccountTokens
) -> bytes:
    """The request with its answer. `check_request` was asked before; whether the pod is the node's own is asked here."""
    request = _read(asked, document)
    account = _existing(objects, ACCOUNTS, asked.namespace, asked.name)
    _check_uid(asked.name, request.metadata.uid, account.uid, "token request")
    seconds = request.spec.expiration_seconds
    seconds = 3600 if seconds is None else seconds
    bound = request.spec.bound_object_ref
    holder = None if bound is None else _holder(objects, asked, bound)
    kind = bound.kind.lower() if bound is not None else ""
    pod = msgspec.json.decode(holder.raw) if holder and kind == "pod" else None
    has_uid = bool(bound and bound.uid)
    check_token(identity, asked, pod, has_uid=has_uid, audiences=request.spec.audiences)
    audiences = request.spec.audiences or (ISSUER,)
    reference = None if holder is None else Reference(holder.key.name, holder.uid)
    grant = Grant(asked.namespace, Reference(asked.name, account.uid), kind, reference, audiences)
    token, end = tokens.issue(grant, seconds)
    told = dict(document)
    told["spec"] = (told.get("spec") or {}) | {"audiences": list(audiences), "expirationSeconds": seconds}
    told["metadata"] = (told.get("metadata") or {}) | {"name": asked.name, "namespace": asked.namespace}
    return msgspec.json.encode(told | {"status": {"token": token, "expirationTimestamp": format_time(end)}})


def _read(asked: Asked, document: Any) -> _TokenRequest:
    try:
        request = view(document, _TokenRequest)
    except InvalidError as error:
        text = f'TokenRequest in version "v1" cannot be handled as a TokenRequest: {error}'
        raise BadRequestError(text, field=error.field) from None
    faults = []
    meta, seconds = request.metadata, request.spec.expiration_seconds
    for field, told, wanted in (
        ("name", meta.name, asked.name),
        ("namespace", meta.namespace, asked.namespace),
    ):
        if told and told != wanted:
            why = f"must match the service account {field} if specified"
            faults.append(invalid(Path("metadata").child(field), told, why))
    if seconds is not None and not _SHORTEST <= seconds <= _LONGEST:
        why = "less than 10 minutes" if seconds < _SHORTEST else "larger than 2^32 seconds"
        faults.append(
            invalid(Path("spec").child("expirationSeconds"), seconds, f"may not specify a duration {why}")
        )
    if faults:
        raise ObjectInvalidError(_KIND, "", faults)
    return request


def _holder(objects: Lookup, asked: Asked, bound: _Bound) -> Stored:
    kind = bound.kind.lower()
    if bound.api_version not in ("", "v1") or kind not in BOUND or bound.kind != kind.capitalize():
        raise BadRequestError(f"cannot bind token to object of type {bound.api_version}, Kind={bound.kind}")
    found = _existing(objects, f"{kind}s", "" if kind == "node" else asked.namespace, bound.name)
    spec = msgspec.json.decode(found.raw).get("spec") or {}
    if kind == "pod" and (spec.get("serviceAccountName") or "") != asked.name:
        raise BadRequestError(
            f'cannot bind token for serviceaccount "{asked.name}" to pod running with different serviceaccount name.'
        )
    _check_uid(bound.name, bound.uid, found.uid, "bound object reference")
    return found


def _existing(objects: Lookup, resource: str, namespace: str, name: str) -> Stored:
    found = objects.get(Key(resource, namespace, name)) if name else None
    if found is None:
        raise NotFoundError(f'{resource} "{name}" not found', kind=resource, name=name)
    return found


def _check_uid(name: str, wanted: str, found: str, where: str) -> None:
    if wanted and wanted != found:
        why = f"the UID in the {where} ({wanted}) does not match the UID of the object ({found})"
        raise conflict(_KIND, name, why)
