from __future__ import annotations

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dray.errors import InvariantError, UnavailableError
from dray.runtime.metrics import CONTENT_TYPE, Metrics, serve_metrics


def _samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_all_kinds_are_rendered_and_read_back_by_prometheus_own_parser() -> None:
    metrics = Metrics()
    metrics.counter("dray_registrations", "How often.", ["resource"]).labels("a/b").inc(3)
    metrics.gauge("dray_up", "Up.").set(1)
    metrics.histogram("dray_wait_seconds", "Wait.", buckets=(0.1, 1)).observe(0.5)
    awkward = 'back\\slash "quoted"\nline'
    metrics.series(
        "dray_devices", "By\nhealth.", lambda: [({"health": "Healthy", "id": awkward}, 2.0), ({}, 0.125)]
    )
    samples = _samples(metrics.render().decode())
    assert samples[("dray_registrations_total", (("resource", "a/b"),))] == 3
    assert samples[("dray_up", ())] == 1
    assert samples[("dray_wait_seconds_bucket", (("le", "1.0"),))] == 1
    assert samples[("dray_devices", (("health", "Healthy"), ("id", awkward)))] == 2
    assert samples[("dray_devices", ())] == 0.125


def test_a_series_is_read_at_scrape_time_and_defined_once() -> None:
    metrics = Metrics()
    values = [1.0]
    metrics.series("dray_x", "X.", lambda: [({}, values[0])])
    assert b"dray_x 1\n" in metrics.render()
    values[0] = 2
    assert b"dray_x 2\n" in metrics.render()
    with pytest.raises(InvariantError):
        metrics.series("dray_x", "X.", list)


async def test_served_over_http() -> None:
    metrics = Metrics()
    metrics.gauge("dray_up", "Up.").set(1)
    async with serve_metrics(metrics) as port, aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            assert "dray_up 1.0" in await answer.text()
        async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
        with pytest.raises(UnavailableError, match="choose another address or port"):
            async with serve_metrics(metrics, port=port):
                pass
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"http://127.0.0.1:{port}/metrics")


async def test_checks_say_what_is_wrong() -> None:
    wrong = ["waiting for the kubelet"]
    checks = {"/readyz": lambda: "".join(wrong)}
    async with serve_metrics(Metrics(), checks=checks) as port, aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            assert (answer.status, await answer.text()) == (503, "waiting for the kubelet\n")
        wrong.clear()
        async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")
        async with session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
