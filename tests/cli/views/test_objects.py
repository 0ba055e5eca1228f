"""Reading what explains a view, with the rights that a user has."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dray.api.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS
from dray.cli.cluster import Asked
from dray.cli.views.objects import list_raw, read_related
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import Selection
from dray.errors import DeniedError
from tests.cli.gpu_cluster import CLAIM, CLUSTER
from tests.cli.small_api import SmallApi, dray, kubeconfig, serving

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def tenant() -> SmallApi:
    """May list pods in its namespace, and no classes at all."""
    api = SmallApi(denied={"pods", "deviceclasses"})
    api.add(CLUSTER)
    api.add(CLAIM)
    for space in ("default", "other"):
        api.add(
            "{apiVersion: v1, kind: Pod, metadata: {name: job}, spec: {containers: [{name: m, image: i}],"
            " resourceClaims: [{name: c, resourceClaimName: train}]}}",
            space,
        )
    return api


async def test_what_may_not_be_read_is_left_out_and_told(tmp_path: Path) -> None:
    async with serving(tenant()) as api:
        access = find_access(kubeconfig(tmp_path, api.server.url))
        async with Client(access) as client:
            found = await read_related(
                Asked(client, "default"), [PODS, DEVICE_CLASSES, RESOURCE_CLAIMS], lambda: NOW
            )
    assert [pod.metadata.namespace for pod in found.pods] == ["default"]
    assert (found.classes, len(found.claims), found.now) == ((), 2, NOW)
    assert found.notes == (
        "may not list deviceclasses.resource.k8s.io cluster-wide, so some cells are empty",
        "may not list pods cluster-wide, so some cells are empty",
    )


async def test_a_table_comes_with_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(tenant()) as api:
        words = ["get", "claims", "-A", "--kubeconfig", kubeconfig(tmp_path, api.server.url)]
        assert await dray(*words) == 0
        out, err = capsys.readouterr()
        assert "train" in out and err.startswith("dray: note: may not list deviceclasses")
        # The kind that is asked for itself must be readable.
        assert await dray("get", "pods", "-A", *words[3:]) == 1
        assert "cannot list resource" in capsys.readouterr().err


async def test_pages_are_put_together(tmp_path: Path) -> None:
    async with (
        serving(tenant()) as api,
        Client(find_access(kubeconfig(tmp_path, api.server.url))) as client,
    ):
        found = await list_raw(client, RESOURCE_CLAIMS, Selection())
        with pytest.raises(DeniedError):
            await list_raw(client, PODS, Selection())
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ResourceClaim", "old"),
        ("ResourceClaim", "train"),
    ]
