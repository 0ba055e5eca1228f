from __future__ import annotations

from pathlib import Path

from dray.apiserver.access.identity import node
from dray.apiserver.http.measures import Measures
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics
from tests.apiserver.http.asking import MAPS, asking


def test_words_and_codes() -> None:
    measures = Measures(Metrics(), FakeClock())
    for verb, code in (("create", 201), ("list", 200), ("watch", 200)):
        with measures.request("GET") as seen:
            seen.verb, seen.resource, seen.code = verb, "pods", code
    with measures.request("BREW") as seen:
        pass
    text = measures.render().decode()
    assert 'apiserver_request_total{code="201",resource="pods",verb="POST"} 1.0' in text
    assert 'apiserver_request_total{code="200",resource="pods",verb="LIST"} 1.0' in text
    assert 'apiserver_request_total{code="0",resource="",verb="OTHER"} 1.0' in text
    assert 'apiserver_request_duration_seconds_count{resource="pods",verb="LIST"} 1.0' in text
    assert 'duration_seconds_count{resource="pods",verb="WATCH"}' not in text


async def test_the_page(tmp_path: Path) -> None:
    async with asking(tmp_path) as server:
        for name in ("a", "b"):
            await server.done("POST", MAPS, {"metadata": {"name": name}})
        assert (await server.ask("GET", f"{MAPS}/none"))[0] == 404
        text = await server.text("/metrics")
        assert 'apiserver_request_total{code="201",resource="configmaps",verb="POST"} 2.0' in text
        assert 'apiserver_request_total{code="404",resource="configmaps",verb="GET"} 1.0' in text
        assert 'apiserver_storage_objects{resource="configmaps"} 2' in text
        assert "dray_apiserver_revision " in text
        server.become(node("n1"))
        assert (await server.ask("GET", "/metrics"))[0] == 403
