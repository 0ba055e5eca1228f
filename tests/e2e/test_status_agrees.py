"""Status of a claim's devices on the real API server: it keeps the bytes of parameters, and refuses what changes them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import RESOURCE_CLAIMS
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.status import ClaimStatus
from dray.runtime.clock import SystemClock
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.waiting import PATIENCE, wait_until

DRIVER = "tape.example.com"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
NOTATIONS = {
    "as-kubectl-writes-it": '{"apiVersion":"a/v1","kind":"K","seconds":0.4}',
    "as-go-writes-it": '{"kind":"K","apiVersion":"a/v1","seconds":1}',
    "with-a-zero-more": '{"apiVersion":"a/v1","kind":"K","seconds":1.0}',
    "with-spaces": '{"apiVersion": "a/v1", "kind": "K", "seconds": 1}',
}
WRITTEN = {name: name != "with-spaces" for name in NOTATIONS}


USER = "tape-driver"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RULES = [
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["patch"]},
    {
        "apiGroups": ["resource.k8s.io"],
        "resources": ["resourceclaims/driver"],
        "verbs": ["arbitrary-node:patch"],
        "resourceNames": [DRIVER],
    },
]


@pytest.fixture(scope="module")
def kubeconfig(apiserver: ControlPlane) -> Iterator[Path]:
    """Of an account that may change `status.devices` of its driver and nothing else of a claim."""
    meta, subject = {"metadata": {"name": USER}}, {"kind": "User", "name": USER}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER}
    apiserver.request("POST", f"{RBAC}/clusterroles", {**meta, "rules": RULES})
    apiserver.request("POST", f"{RBAC}/clusterrolebindings", {**meta, "roleRef": role, "subjects": [subject]})
    yield apiserver.kubeconfig_for(USER)
    apiserver.request("DELETE", f"{RBAC}/clusterrolebindings/{USER}")
    apiserver.request("DELETE", f"{RBAC}/clusterroles/{USER}")


def put_in(document: dict[str, Any], parameters: str) -> bytes:
    """As JSON, with the parameters to the letter."""
    return json.dumps(document, separators=(",", ":")).replace('"PARAMETERS"', parameters).encode()


async def make_claim(client: Client, name: str, parameters: str) -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": "PARAMETERS"}}
    request = {"name": "main", "exactly": {"deviceClassName": "tapes"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [request], "config": [opaque]}},
    }
    made = await client.raw(Request("POST", CLAIMS, body=put_in(claim, parameters)))
    made["spec"]["devices"]["config"] = [opaque]
    result = {"request": "main", "driver": DRIVER, "pool": "pool", "device": "dev-1"}
    config = [{"source": "FromClaim", **opaque}]
    made["status"] = {"allocation": {"devices": {"results": [result], "config": config}}}
    await client.raw(Request("PUT", f"{CLAIMS}/{name}/status", body=put_in(made, parameters)))


@pytest.mark.parametrize("name", NOTATIONS)
async def test_status_is_written_whatever_the_notation_of_parameters(
    apiserver: ControlPlane, kubeconfig: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(find_access(apiserver.kubeconfig)) as admin, Client(find_access(kubeconfig)) as client:
        await make_claim(admin, name, NOTATIONS[name])
        claim = await client.get(RESOURCE_CLAIMS, name, namespace="default")
        status = ClaimStatus(client, DRIVER, SystemClock())
        async with asyncio.timeout(PATIENCE), status.writing():
            status.prepared(claim, (PreparedDevice(("main",), "pool", "dev-1"),))
            await wait_until(lambda: status.is_idle)
            found = await client.get(RESOURCE_CLAIMS, name, namespace="default")
            status.unprepared(ClaimRef("default", name, claim.metadata.uid))
            await wait_until(lambda: status.is_idle)
        after = await client.get(RESOURCE_CLAIMS, name, namespace="default")
        await admin.delete(RESOURCE_CLAIMS, name, namespace="default")
    assert [one.device for one in found.status.devices] == (["dev-1"] if WRITTEN[name] else [])
    assert after.status == claim.status
    told = [vars(one)["fields"]["error"] for one in caplog.records if "not written" in one.message]
    assert ["spaces between the JSON" in one for one in told] == ([] if WRITTEN[name] else [True])
