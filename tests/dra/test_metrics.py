from __future__ import annotations

import asyncio

import pytest

from dray.dra.metrics import DraMetrics, NoMetrics
from dray.errors import Error, HardwareError, UnavailableError
from dray.runtime.metrics import Metrics


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    inside = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    for line in metrics.render().decode().splitlines():
        if line.startswith(f"{name}{{{inside}}} "):
            return float(line.rpartition(" ")[2])
    return None


def test_calls_begin_at_zero_and_are_counted_by_result() -> None:
    metrics = Metrics()
    one = DraMetrics(metrics).of("a.io")
    zero = {"driver": "a.io", "method": "unprepare"}
    assert sample(metrics, "dray_dra_requests_total", **zero, result="success") == 0
    assert sample(metrics, "dray_dra_registrations_total", driver="a.io") == 0
    labels = {"driver": "a.io", "method": "prepare"}
    with one.calling("prepare"):
        assert sample(metrics, "dray_dra_requests_inflight", **labels) == 1
    with pytest.raises(HardwareError), one.calling("prepare"):
        raise HardwareError("no")
    with pytest.raises(asyncio.CancelledError), one.calling("prepare"):
        raise asyncio.CancelledError
    for result in ("success", "error", "cancelled"):
        assert sample(metrics, "dray_dra_requests_total", **labels, result=result) == 1
    assert sample(metrics, "dray_dra_requests_inflight", **labels) == 0
    assert sample(metrics, "dray_dra_request_seconds_count", **labels) == 3


def test_claims_errors_and_registrations() -> None:
    metrics = Metrics()
    one = DraMetrics(metrics).of("a.io")
    one.answered("prepare", good=3, bad=2)
    one.failed("prepare", UnavailableError("away"))
    one.failed("prepare", Error("?"))
    one.registered()
    labels = {"driver": "a.io", "method": "prepare"}
    assert sample(metrics, "dray_dra_claims_total", **labels, result="success") == 3
    assert sample(metrics, "dray_dra_claims_total", **labels, result="error") == 2
    assert sample(metrics, "dray_dra_errors_total", **labels, error="unavailable") == 1
    assert sample(metrics, "dray_dra_errors_total", **labels, error="other") == 1
    assert sample(metrics, "dray_dra_registrations_total", driver="a.io") == 1


def test_states_are_read_at_each_scrape() -> None:
    metrics, prepared = Metrics(), {"a.io": 0}
    DraMetrics(metrics).follow(lambda: {"a.io": True, "b.io": False}, lambda: prepared, dict)
    prepared["a.io"] = 7
    assert sample(metrics, "dray_dra_registered", driver="a.io") == 1
    assert sample(metrics, "dray_dra_registered", driver="b.io") == 0
    assert sample(metrics, "dray_dra_prepared_devices", driver="a.io") == 7


def test_without_metrics_nothing_is_counted() -> None:
    none = NoMetrics()
    with none.calling("prepare"):
        none.answered("prepare", good=1, bad=0)
        none.failed("prepare", Error("x"))
        none.registered()
