from __future__ import annotations

import pytest

from dray.hardware.nvml.codes import Code, NvmlError


@pytest.mark.parametrize("code", list(Code))
def test_every_code_has_words(code: Code) -> None:
    error = NvmlError("do it", code, device="GPU-1")
    assert error.code is code
    assert str(error).startswith("cannot do it: ")
    assert "\n" not in str(error)
    assert error.device == "GPU-1"


def test_a_number_nobody_knows_is_shown() -> None:
    error = NvmlError("do it", 4711)
    assert error.code is Code.UNKNOWN
    assert str(error) == "cannot do it: it failed (NVML error 4711)"
