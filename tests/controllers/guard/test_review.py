from __future__ import annotations

import json
from http import HTTPStatus

import msgspec
import pytest

from dray.controllers.guard.review import ALLOWED, Answer, documents_in, read_review, subject_of, write_answer
from dray.errors import InvalidError
from tests.controllers.guard.reviews import allocated, review_body
from tests.controllers.objects import Json

CLAIM: Json = {
    "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    "status": {},
}


def test_a_review_is_read() -> None:
    new = allocated(CLAIM, {"device": "g0"})
    found = read_review(review_body(CLAIM, new, version="v1beta1", dry_run=True))
    assert (found.resource.resource, found.resource.version, found.sub_resource) == (
        "resourceclaims",
        "v1beta1",
        "status",
    )
    assert found.dry_run and documents_in(found) == (new, CLAIM)
    subject = subject_of(found)
    assert (subject.namespace, subject.name, subject.uid, subject.version) == ("default", "c", "u", 7)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b"{}",
        b'{"apiVersion": "admission.k8s.io/v1"}',
        b'{"apiVersion": "admission.k8s.io/v1", "request": {}}',
        b'{"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "object": {}',
        b"[" * 5000,
    ],
)
def test_what_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidError):
        read_review(body)


@pytest.mark.parametrize("version", ["", "x", None])
def test_a_version_that_cannot_be_compared_is_refused(version: str | None) -> None:
    old = {"metadata": {**CLAIM["metadata"], "resourceVersion": version}}
    with pytest.raises(InvalidError, match=r"oldObject\.metadata"):
        subject_of(read_review(review_body(CLAIM | old, CLAIM)))


def test_an_object_that_is_none_is_refused() -> None:
    found = msgspec.structs.replace(read_review(review_body(CLAIM, CLAIM)), object=msgspec.Raw(b"null"))
    with pytest.raises(InvalidError, match="object"):
        documents_in(found)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ALLOWED, {"uid": "u", "allowed": True}),
        (
            Answer(HTTPStatus.FORBIDDEN, "no"),
            {"uid": "u", "allowed": False, "status": {"code": 403, "message": "no", "reason": "Forbidden"}},
        ),
        (
            Answer(HTTPStatus.FORBIDDEN, "no"),
            {"uid": "u", "allowed": False, "status": {"code": 403, "message": "no", "reason": "Forbidden"}},
        ),
    ],
)
def test_answers(answer: Answer, expected: Json) -> None:
    assert json.loads(write_answer("u", answer)) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": expected,
    }
