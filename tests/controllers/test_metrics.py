from __future__ import annotations

from pathlib import Path

from dray.api.kinds import RESOURCE_CLAIMS
from dray.controllers.metrics import ControllerMetrics
from dray.controllers.pictures import Pictures
from dray.runtime.metrics import Metrics
from tests.controllers.server import cluster


async def test_claims_are_counted_by_allocation_admin_access_and_source(tmp_path: Path) -> None:
    metrics = Metrics()
    async with cluster(tmp_path) as (api, client):
        for name, notes, admin in (
            ("a", {"resource.kubernetes.io/pod-claim-name": "x"}, False),
            ("b", {"resource.kubernetes.io/extended-resource-claim": "true"}, False),
            ("c", {}, True),
            ("d", {}, False),
        ):
            exactly = {"deviceClassName": "gpu"} | ({"adminAccess": True} if admin else {})
            spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
            document = {
                "metadata": {"name": name, "namespace": "default", "annotations": notes},
                "spec": spec,
            }
            await api.add(RESOURCE_CLAIMS, document)
        await api.allocate("b", [])
        pictures = Pictures(client)
        ControllerMetrics(metrics).follow_claims(pictures.of(RESOURCE_CLAIMS))
        async with pictures:
            lines = metrics.render().decode().splitlines()
    name = "resourceclaim_controller_resource_claims"
    assert sorted(line for line in lines if line.startswith(f"{name}{{")) == [
        f'{name}{{allocated="false",admin_access="false",source=""}} 1',
        f'{name}{{allocated="false",admin_access="false",source="resource_claim_template"}} 1',
        f'{name}{{allocated="false",admin_access="true",source=""}} 1',
        f'{name}{{allocated="true",admin_access="false",source="extended_resource"}} 1',
    ]
