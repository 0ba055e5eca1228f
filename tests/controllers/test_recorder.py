"""Events about pods and PodGroups."""

from __future__ import annotations

from pathlib import Path

from dray.api.kinds import EVENTS
from dray.controllers.recorder import Recorder
from dray.errors import DeniedError
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import Place
from tests.controllers.claims.groups import GROUP_UID, group
from tests.controllers.objects import OTHER_UID, pod
from tests.controllers.server import cluster


async def test_the_same_event_is_counted_whoever_tells_it(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        for _ in range(2):
            recorder = Recorder(client, "test", SystemClock())
            await recorder.tell(pod("p" * 253), "Warning", "Failed", "no such thing " * 200)
        await recorder.tell(pod("p" * 253, OTHER_UID), "Warning", "Failed", "no such thing")
        assert sorted(one["count"] for one in api.every(EVENTS)) == [1, 2]
        assert api.refused == []
        assert {one["involvedObject"]["name"] for one in api.every(EVENTS)} == {"p" * 253}


async def test_about_a_group(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        await Recorder(client, "test", SystemClock()).tell(group(), "Warning", "Failed", "no such thing")
        (told,) = api.every(EVENTS)
    assert told["involvedObject"] == {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "name": "g",
        "namespace": "default",
        "uid": GROUP_UID,
    }


async def test_a_refusal_is_only_logged(tmp_path: Path) -> None:
    def refuse(method: str, place: Place, is_done: bool) -> None:
        raise DeniedError("the namespace is being deleted")

    async with cluster(tmp_path) as (api, client):
        api.fails = refuse
        await Recorder(client, "test", SystemClock()).tell(pod(), "Normal", "R", "m")
        assert api.every(EVENTS) == []
