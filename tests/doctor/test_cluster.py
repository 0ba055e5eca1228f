from __future__ import annotations

from pathlib import Path
from typing import Any

from aiohttp import web

from dray.api.kinds import RESOURCE_CLAIMS
from dray.apiserver.http.server import Address
from dray.client.access import ClusterAccess
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.doctor.cluster import RIGHTS, Cluster, clock_skew, look_at_cluster, read_gates
from dray.doctor.cluster_checks import check_cluster, minor
from dray.doctor.places import Places
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import FakeClock, SystemClock
from tests.client.servers import scripted
from tests.doctor.findings_text import text_of, told

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "one", "namespace": "default"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}},
}


async def test_our_own_server_as_an_admin(tmp_path: Path) -> None:
    async with api_server(ApiServerOptions(tmp_path / "data", Address())) as server:
        access = find_access(server.kubeconfig)
        async with Client(access) as client:
            claim = await client.create(RESOURCE_CLAIMS, CLAIM)
        found = await look_at_cluster(Places(access=access, node_name="node-1"), SystemClock())
    assert found.claims == frozenset({claim.metadata.uid})
    assert found.missing == ()
    assert found.has_node is False
    assert told(check_cluster(found)) == {
        ("api-version", "ok"),
        ("dra-served", "ok"),
        ("clock", "ok"),
        ("rights", "ok"),
        ("node", "fault"),
    }
    assert ("node", "fault") not in told(check_cluster(found, is_laptop=True))


def _old(server: dict[str, Any]) -> Any:
    async def handle(request: web.Request) -> web.Response:
        answer = server.get(request.path)
        headers = {"Date": "Mon, 01 Jan 2029 23:00:00 GMT"}
        if isinstance(answer, str):
            return web.Response(text=answer, headers=headers)
        if answer is None:
            return web.json_response(
                {"kind": "Status", "reason": "NotFound", "code": 404}, status=404, headers=headers
            )
        return web.json_response(answer, headers=headers)

    return handle


async def test_an_old_server_with_few_rights_and_another_clock() -> None:
    metrics = (
        'kubernetes_feature_enabled{name="DynamicResourceAllocation",stage="BETA"} 0\n'
        'kubernetes_feature_enabled{name="Other",stage=""} 0\n'
    )
    async with scripted() as server:
        server.answer(
            _old(
                {
                    "/version": {"gitVersion": "v1.33.2"},
                    "/apis/resource.k8s.io": {"versions": [{"version": "v1beta1"}]},
                    "/api/v1/nodes/node-1": {"status": {"nodeInfo": {"kubeletVersion": "v1.34.0"}}},
                    "/api/v1/nodes/node-1/proxy/metrics": metrics,
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": {"status": {"allowed": False}},
                }
            )
        )
        places = Places(access=ClusterAccess(server.url), node_name="node-1")
        found = await look_at_cluster(places, FakeClock())
    assert found.missing is not None
    assert len(found.missing) == len(RIGHTS)
    assert "patch resourceclaims/status" in found.missing
    assert found.claims is None
    assert found.gates == {"DynamicResourceAllocation": False}
    assert found.skew is not None
    findings = list(check_cluster(found))
    assert told(findings) == {
        ("api-version", "fault"),
        ("dra-served", "fault"),
        ("clock", "fault"),
        ("version-skew", "fault"),
        ("feature-gates", "fault"),
        ("rights", "warning"),
    }
    assert "behind this machine's" in text_of(findings, "clock")


async def test_nobody_answers_and_nobody_was_named(tmp_path: Path) -> None:
    found = await look_at_cluster(Places(access=ClusterAccess("http://127.0.0.1:1")), SystemClock())
    assert told(check_cluster(found)) == {("api-server", "fault")}
    none = await look_at_cluster(Places(no_cluster="no kubeconfig; give one"), SystemClock())
    assert text_of(check_cluster(none), "api-server").startswith("not asked: no kubeconfig;")
    assert await clock_skew("https://", SystemClock()) is None


async def test_a_peer_that_speaks_no_http() -> None:
    async with scripted() as server:
        assert await clock_skew(server.url.replace("http:", "https:"), SystemClock()) is None


def test_versions() -> None:
    assert [minor(text) for text in ("v1.36.2+k3s1", "1.34", "", "nonsense")] == [
        (1, 36),
        (1, 34),
        None,
        None,
    ]
    good = Cluster("s", version="v1.36.0", dra_versions=("v1",), kubelet_version="v1.34.1", has_node=True)
    assert ("version-skew", "ok") in told(check_cluster(good))
    newer = Cluster("s", version="v1.36.0", kubelet_version="v1.37.1", has_node=True)
    assert ("version-skew", "fault") in told(check_cluster(newer))
    older = Cluster("s", version="v1.38.0", kubelet_version="v1.34.1", has_node=True)
    assert {("version-skew", "fault"), ("api-version", "note")} <= told(check_cluster(older))


def test_gates_of_a_page_of_metrics() -> None:
    assert read_gates('kubernetes_feature_enabled{name="ResourceHealthStatus",stage="BETA"} 1\n') == {
        "ResourceHealthStatus": True
    }
    assert read_gates("nonsense{") == {}
