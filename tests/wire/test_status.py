from __future__ import annotations

import inspect

import grpc
import pytest
from grpclib.const import Status

from dray import errors
from dray.errors import DeniedError, Error, HardwareError, InvalidError, ProtocolError, UnavailableError
from dray.wire.status import (
    CODES,
    ERRORS,
    MESSAGE_BYTES,
    Code,
    StatusError,
    cut,
    status_of,
    to_error,
    to_status,
)

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, Error | errors.InvariantError)
]


def test_every_class_of_ours_has_a_code() -> None:
    assert set(CODES) == set(CLASSES)


def test_every_code_but_ok_has_a_class() -> None:
    assert set(ERRORS) == set(Code) - {Code.OK}


def test_the_codes_are_those_of_two_other_implementations() -> None:
    assert {code.name: code.value for code in Code} == {code.name: code.value[0] for code in grpc.StatusCode}
    assert {code.name: code.value for code in Code} == {code.name: code.value for code in Status}


def test_the_table_of_the_house() -> None:
    told = {kind.__name__: CODES[kind].name for kind in CLASSES if kind is not Error}
    assert told == {
        "InvalidError": "INVALID_ARGUMENT",
        "NotFoundError": "NOT_FOUND",
        "ConflictError": "ABORTED",
        "DeniedError": "PERMISSION_DENIED",
        "UnavailableError": "UNAVAILABLE",
        "ProtocolError": "INTERNAL",
        "HardwareError": "FAILED_PRECONDITION",
        "InvariantError": "INTERNAL",
    }


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind not in (Error, errors.InvariantError)])
def test_there_and_back_is_the_same_class(kind: type[Error]) -> None:
    assert type(to_error(to_status(kind("x")), "call")) is kind


def test_subclasses_count_as_what_they_are() -> None:
    class GoneError(HardwareError):
        pass

    assert to_status(GoneError("card fell out")).code is Code.FAILED_PRECONDITION


def test_an_unknown_caller_is_not_the_same_as_a_forbidden_one() -> None:
    status = to_status(DeniedError("who are you", authenticated=False))
    assert status.code is Code.UNAUTHENTICATED
    back = to_error(status, "call")
    assert isinstance(back, DeniedError)
    assert not back.authenticated


def test_a_foreign_exception_keeps_its_text_to_itself() -> None:
    status = to_status(ValueError("password=1234"))
    assert status.code is Code.INTERNAL
    assert "1234" not in status.message


def test_the_message_names_the_call_and_is_one_line() -> None:
    error = to_error(StatusError(Code.UNKNOWN, "first\nsecond"), "Allocate at '/x'")
    assert str(error) == "Allocate at '/x': first second (gRPC status UNKNOWN)"
    assert isinstance(error, ProtocolError)
    assert str(to_error(StatusError(Code.UNAVAILABLE, ""), "Get")) == "Get: UNAVAILABLE"


def test_the_status_behind_an_error_can_be_had() -> None:
    status = StatusError(Code.UNIMPLEMENTED, "no")
    try:
        raise to_error(status, "call") from status
    except Error as error:
        assert status_of(error) is status
    assert status_of(InvalidError("x")) is None
    assert str(status) == "UNIMPLEMENTED: no"
    assert isinstance(to_error(StatusError(Code.RESOURCE_EXHAUSTED, ""), "x"), UnavailableError)


@pytest.mark.parametrize("text", ["x", "ä", "🚚", "\ud800"])
def test_a_text_is_cut_between_characters(text: str) -> None:
    short = cut(text * 5000)
    assert len(short.encode()) <= MESSAGE_BYTES
    assert short.endswith("...")
    assert cut("x" * MESSAGE_BYTES) == "x" * MESSAGE_BYTES
