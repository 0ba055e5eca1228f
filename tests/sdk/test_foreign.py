from __future__ import annotations

import asyncio
import logging

import pytest

from dray.errors import HardwareError, InvalidError, InvariantError
from dray.sdk.foreign import Foreign


@pytest.mark.parametrize(
    "error", [ValueError("loose"), OSError(5, "loose"), SystemExit("loose"), InvariantError("loose")]
)
def test_what_strangers_raise_ends_the_call_alone(error: BaseException) -> None:
    with pytest.raises(HardwareError) as caught, Foreign("lamp").calling("discover"):
        raise error
    assert str(caught.value).startswith(f"lamp: discover failed: {type(error).__name__}: ")
    assert "loose" in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [InvalidError("no"), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_is_meant_goes_through(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, Foreign("lamp").calling("discover"):
        raise error
    assert caught.value is error


def test_a_trace_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    foreign = Foreign("lamp")

    def fail(what: str) -> None:
        with pytest.raises(HardwareError), foreign.calling("discover"):
            raise ValueError(what)

    with caplog.at_level(logging.ERROR):
        fail("one")
        fail("one")
        assert len(caplog.records) == 1
        fail("two")
        assert len(caplog.records) == 2
        with foreign.calling("discover"):
            pass
        fail("two")
        assert len(caplog.records) == 3
