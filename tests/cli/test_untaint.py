from __future__ import annotations

import pytest

from dray.cli.main import main


def test_a_wrong_effect_is_told_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["untaint", "node-1/gpu-0", "fix:Never", "--kubeconfig", "/nonexistent"]) == 2
    assert "must be KEY, KEY:EFFECT or KEY=VALUE:EFFECT" in capsys.readouterr().err
