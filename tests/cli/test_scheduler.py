from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli.main import main, make_parser
from dray.cli.scheduler import make_options
from dray.client.lease import LeaseTimes
from dray.errors import InvalidError
from dray.processes.scheduler import SchedulerOptions
from dray.scheduler.cycle import Score


def options(*flags: str) -> SchedulerOptions:
    words = ["scheduler", *flags]
    return make_options(make_parser(words).parse_args(words))


def test_defaults() -> None:
    found = options()
    assert (found.config.name, found.config.in_flight, found.config.preempt) == ("dray", 64, False)
    assert found.config.cycle.score is Score.KUBERNETES and found.lease is None
    assert found.metrics == ("127.0.0.1", 9618)
    assert found.config.settings.options.profile.name == "correct"
    assert found.config.settings.workload_claims is False


def test_flags() -> None:
    found = options(
        "--kubeconfig=/k", "--scheduler-name=default-scheduler", "--metrics-address=none", "--in-flight=8",
        "--seed=5", "--score=spread", "--preempt", "--profile=k8s-1.36", "--nodes-to-score=-1",
        "--feature-gates=DRAWorkloadResourceClaims=true", "--leader-elect",
        "--leader-elect-resource-namespace=a", "--leader-elect-resource-name=b", "--leader-elect-lease-duration=9",
        "--leader-elect-renew-deadline=6", "--leader-elect-retry-period=1",
    )  # fmt: skip
    config = found.config
    assert found.kubeconfig == Path("/k") and found.metrics is None
    assert (config.name, config.in_flight, config.preempt) == ("default-scheduler", 8, True)
    assert (config.cycle.score, config.cycle.seed, config.cycle.percent) == (Score.SPREAD, 5, -1)
    assert config.settings.options.profile.name == "k8s-1.36" and config.settings.workload_claims
    assert found.lease is not None and (found.lease.namespace, found.lease.name) == ("a", "b")
    assert found.lease.times == LeaseTimes(9.0, 6.0, 1.0)


def test_times_of_decisions() -> None:
    config = options().config
    assert (config.settings.options.seconds, config.apart.limits.seconds) == (10, 10)
    config = options("--filter-timeout=2.5", "--decision-timeout=30").config
    assert (config.settings.options.seconds, config.apart.limits.seconds) == (2.5, 30)


@pytest.mark.parametrize(
    "flag",
    [
        "--in-flight=0",
        "--nodes-to-score=101",
        "--scheduler-name=",
        "--profile=k8s-1.20",
        "--feature-gates=X=true",
        "--metrics-address=x",
        "--filter-timeout=0.01",
        "--filter-timeout=nan",
        "--decision-timeout=0",
        "--decision-timeout=3601",
    ],
)
def test_bad_flags_are_named(flag: str) -> None:
    with pytest.raises(InvalidError) as caught:
        options(flag)
    assert caught.value.field == flag.partition("=")[0]


def test_without_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert main(["scheduler", "--metrics-address=none"]) == 2
    assert "no kubeconfig" in capsys.readouterr().err
