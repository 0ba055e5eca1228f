from __future__ import annotations

import pytest

from dray.cli.kubelet import log_limits
from dray.cli.main import main
from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import LogLimits


def test_limits_of_logs_are_written_as_for_a_kubelet() -> None:
    assert log_limits("10Mi", 5) == LogLimits()
    assert log_limits("64k", 2) == LogLimits(64_000, 2)


@pytest.mark.parametrize(
    ("size", "files", "why"),
    [
        ("much", 5, "--container-log-max-size 'much': "),
        ("0", 5, "--container-log-max-size must be more than 0, not '0'"),
        ("-1Mi", 5, "--container-log-max-size must be more than 0, not '-1Mi'"),
        ("10Mi", 1, "--container-log-max-files must be 2 or more, not 1"),
    ],
)
def test_limits_that_make_no_sense(size: str, files: int, why: str) -> None:
    with pytest.raises(InvalidError) as caught:
        log_limits(size, files)
    assert str(caught.value).startswith(why)


def test_a_gate_is_named_as_for_the_other_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kubelet", "-f", "/no/such", "--feature-gates", "DRAWorkloadResourceClaim=true"]) == 2
    said = "dray: --feature-gates: no gate 'DRAWorkloadResourceClaim': did you mean DRAWorkloadResourceClaims? There are "
    assert capsys.readouterr().err.startswith(said)


def test_they_are_refused_before_anything_is_begun(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kubelet", "-f", "/no/such", "--container-log-max-files", "0"]) == 2
    assert "--container-log-max-files must be 2 or more, not 0" in capsys.readouterr().err
