"""An AdmissionReview as the API server sends it, and the answer to it. Pure."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from dray.errors import InvalidError

_API_VERSION: Final = "admission.k8s.io/v1"
# A device that is taken is Forbidden, the default. Conflict would be wrong: it tells clients to read the claim anew and
# to send the same devices again; kube-scheduler does so four times before it looks for others.
_REASONS: Final = {
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


class _Resource(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class Review(msgspec.Struct, frozen=True, rename="camel"):
    """One write that waits for an answer. The objects are as they would be stored, and as they are (`{}`: none)."""

    uid: str
    resource: _Resource = _Resource()
    operation: str = ""
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    dry_run: bool | None = None
    object: msgspec.Raw = msgspec.Raw(b"null")
    old_object: msgspec.Raw = msgspec.Raw(b"null")


class _AdmissionReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    request: Review


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    resource_version: str
    name: str
    namespace: str = ""


class _Subject(msgspec.Struct, frozen=True):
    metadata: _Metadata


class Subject(msgspec.Struct, frozen=True):
    """The stored object that a write is based on: it is stored only while the object is still at this version."""

    namespace: str
    name: str
    uid: str
    version: int


class Answer(msgspec.Struct, frozen=True):
    """What to tell the API server; `message` is for whoever wrote."""

    status: HTTPStatus
    message: str = ""


ALLOWED: Final = Answer(HTTPStatus.OK)


def read_review(body: bytes) -> Review:
    """InvalidError where it is none that this server understands."""
    try:
        found = msgspec.json.decode(body, type=_AdmissionReview)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidError(f"not an AdmissionReview: {error}") from error
    if found.api_version != _API_VERSION:
        raise InvalidError(
            f"apiVersion: is {found.api_version!r}, must be {_API_VERSION}", field="apiVersion"
        )
    return found.request


def subject_of(review: Review) -> Subject:
    """The object as it is stored; InvalidError where its version is no number, so that it cannot be compared."""
    try:
        meta = msgspec.json.decode(review.old_object, type=_Subject).metadata
        return Subject(meta.namespace, meta.name, meta.uid, int(meta.resource_version))
    except (msgspec.MsgspecError, ValueError) as error:
        raise InvalidError(f"oldObject.metadata: {error}", field="oldObject.metadata") from error


def documents_in(review: Review) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The new object and the old one, where there is one, as documents; InvalidError where they are none."""
    try:
        return (
            msgspec.json.decode(review.object, type=dict[str, Any]),
            msgspec.json.decode(review.old_object, type=dict[str, Any] | None),
        )
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidError(f"object: {error}", field="object") from error


def write_answer(uid: str, answer: Answer) -> bytes:
    """As the API server reads it."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.status is HTTPStatus.OK}
    if answer.status is not HTTPStatus.OK:
        response["status"] = {
            "code": answer.status.value,
            "message": answer.message,
            "reason": _REASONS.get(answer.status, "Forbidden"),
        }
    return msgspec.json.encode({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})
