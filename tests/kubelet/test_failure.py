from __future__ import annotations

import pytest

from dray.errors import ConflictError, Error, UnavailableError
from dray.kubelet.failure import code_name, prefixed, rpc_code, rpc_text
from dray.wire.status import Code, StatusError, to_error


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (Code.OK, "OK"),
        (Code.CANCELLED, "Canceled"),
        (Code.DEADLINE_EXCEEDED, "DeadlineExceeded"),
        (Code.UNKNOWN, "Unknown"),
    ],
)
def test_names_of_codes_are_those_of_go(code: Code, name: str) -> None:
    assert code_name(code) == name


def test_the_kind_of_an_error_stays() -> None:
    error = prefixed("here", UnavailableError("away", retry_after=3))
    assert isinstance(error, UnavailableError)
    assert (str(error), error.retry_after) == ("here: away", 3)
    assert isinstance(prefixed("here", ConflictError("x"), "y"), ConflictError)
    assert str(prefixed("here", ConflictError("x"), "y")) == "here: y"
    assert type(prefixed("here", Error("x"))) is Error


def test_texts_of_calls() -> None:
    cause = StatusError(Code.INTERNAL, "broke")
    error = to_error(cause, "calling")
    error.__cause__ = cause
    assert (rpc_text(error), rpc_code(error)) == ("rpc error: code = Internal desc = broke", "Internal")
    gone = UnavailableError("no socket")
    assert rpc_text(gone) == "rpc error: code = Unavailable desc = no socket"
