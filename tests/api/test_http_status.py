from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray import errors
from dray.api.codec import encode, loads
from dray.api.field_errors import FieldError, Reason, to_error
from dray.api.http_status import (
    HTTP_STATUS,
    error_from_status,
    is_already_there,
    is_expired,
    status_for,
    to_status,
)
from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    InvalidError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from tests.campaign import campaign

CLASSES = [value for _, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, Exception)]


def test_every_class_is_mapped() -> None:
    assert set(HTTP_STATUS) == set(CLASSES)
    assert {kind.__name__: code for kind, (code, _) in HTTP_STATUS.items()} == {
        "Error": 500, "InvalidError": 422, "NotFoundError": 404, "ConflictError": 409, "DeniedError": 403,
        "UnavailableError": 503, "ProtocolError": 502, "HardwareError": 500, "InvariantError": 500,
    }  # fmt: skip


def test_a_subclass_is_answered_like_its_parent() -> None:
    class StaleError(ConflictError):
        pass

    assert status_for(StaleError("x")) == (409, "Conflict")


def test_who_is_unknown_gets_401() -> None:
    assert status_for(DeniedError("x")) == (403, "Forbidden")
    assert status_for(DeniedError("x", authenticated=False)) == (401, "Unauthorized")


@pytest.mark.parametrize("kind", [InvalidError, NotFoundError, ConflictError, DeniedError, UnavailableError])
def test_what_one_side_answers_the_other_understands(kind: type[Error]) -> None:
    status = to_status(kind("what happened"))
    back = error_from_status(status.code, loads(encode(status)))
    assert (type(back), str(back)) == (kind, "what happened")


def test_all_facts_travel() -> None:
    causes = [
        FieldError("spec.devices[0].name", Reason.REQUIRED, "Required value"),
        FieldError("spec.pool", Reason.INVALID, 'Invalid value: "x": bad'),
    ]
    sent = to_error("ResourceSlice", "s", causes)
    status = to_status(sent, kind="resourceslices", name="s")
    assert status.details is not None
    assert (status.code, status.reason, status.details.name) == (422, "Invalid", "s")
    back = error_from_status(422, encode(status))
    assert isinstance(back, InvalidError)
    assert (back.causes, back.field, str(back)) == (tuple(causes), "spec.devices[0].name", str(sent))

    missing = error_from_status(404, encode(to_status(NotFoundError("gone", kind="Pod", name="p"))))
    assert isinstance(missing, NotFoundError)
    assert (missing.kind, missing.name) == ("Pod", "p")

    denied = error_from_status(401, encode(to_status(DeniedError("no", authenticated=False))))
    assert isinstance(denied, DeniedError)
    assert not denied.authenticated

    busy = error_from_status(503, encode(to_status(UnavailableError("busy", retry_after=2.4))), retry_after=9)
    assert isinstance(busy, UnavailableError)
    assert busy.retry_after == 2.0
    assert to_status(UnavailableError("busy", retry_after=0.1)).details is not None
    assert to_status(UnavailableError("busy")).details is None


def answer(code: int, reason: str, **details: object) -> dict[str, object]:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "said so",
        "reason": reason, "code": code, "details": details,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", InvalidError), (401, "Unauthorized", DeniedError), (403, "Forbidden", DeniedError),
        (404, "NotFound", NotFoundError), (405, "MethodNotAllowed", InvalidError), (406, "NotAcceptable", InvalidError),
        (409, "AlreadyExists", ConflictError), (409, "Conflict", ConflictError), (410, "Expired", ConflictError),
        (410, "Gone", ConflictError), (413, "RequestEntityTooLarge", InvalidError),
        (415, "UnsupportedMediaType", InvalidError), (422, "Invalid", InvalidError),
        (429, "TooManyRequests", UnavailableError), (500, "InternalError", UnavailableError),
        (500, "ServerTimeout", UnavailableError), (503, "ServiceUnavailable", UnavailableError),
        (504, "Timeout", UnavailableError), (418, "Teapot", ProtocolError), (404, "Teapot", NotFoundError),
    ],
)  # fmt: skip
def test_answers_of_a_real_server(code: int, reason: str, kind: type[Error]) -> None:
    error = error_from_status(code, answer(code, reason), what="get pods/p")
    assert (type(error), str(error)) == (kind, "get pods/p: said so")
    bare = error_from_status(code, b"")
    assert type(bare) is (kind if reason != "Teapot" else type(bare))
    assert str(code) in str(bare)


def test_retry_after_of_the_body_wins() -> None:
    for body, expected in (
        (answer(429, "TooManyRequests", retryAfterSeconds=3), 3.0),
        (answer(429, "TooManyRequests"), 7.0),
    ):
        error = error_from_status(429, body, retry_after=7.0)
        assert isinstance(error, UnavailableError)
        assert error.retry_after == expected
    none = error_from_status(503, None)
    assert isinstance(none, UnavailableError)
    assert none.retry_after is None


def test_a_proxy_explains_itself_in_plain_text() -> None:
    error = error_from_status(502, b"<html>\n bad   gateway\n</html>")
    assert isinstance(error, UnavailableError)
    assert str(error) == "the server answered 502 InternalError: <html> bad gateway </html>"
    assert len(str(error_from_status(502, b"x" * 100_000))) < 2000


@pytest.mark.parametrize("code", [100, 200, 302, 418, 600])
def test_other_codes_break_the_contract(code: int) -> None:
    assert isinstance(error_from_status(code, None), ProtocolError)


def test_unknown_reasons_of_causes() -> None:
    error = error_from_status(
        422, answer(422, "Invalid", causes=[{"reason": "New", "message": "m", "field": "f"}])
    )
    assert isinstance(error, InvalidError)
    assert error.causes == (FieldError("f", Reason.INTERNAL, "m"),)


def test_expired_and_taken() -> None:
    assert is_expired(410, b"")
    assert is_expired(200, answer(410, "Expired"))
    assert is_expired(200, json.dumps(answer(500, "Expired")).encode())
    assert not is_expired(404, answer(404, "NotFound"))
    assert is_already_there(409, answer(409, "AlreadyExists"))
    assert not is_already_there(409, answer(409, "Conflict"))


bodies = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["Status", "NotFound"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["kind", "reason", "message", "details", "causes", "code", "field"]), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=campaign(200, 20_000))
@given(st.integers(0, 700), bodies | st.binary(max_size=20))
def test_any_answer_becomes_an_error(code: int, body: object) -> None:
    error = error_from_status(code, {"kind": "Status", **body} if isinstance(body, dict) else body)
    assert isinstance(error, Error)
    assert "\n" not in str(error)
