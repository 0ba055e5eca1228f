"""What a pod's status says before the pod goes, and that only that pod goes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dray.api.kinds import PODS
from dray.controllers.ending import Ending, PodEnder, status_change, with_condition
from dray.runtime.clock import SystemClock
from tests.controllers.objects import Json, pod_document
from tests.controllers.server import cluster

NOW = datetime(2030, 1, 1, tzinfo=UTC)
STAMP = "2030-01-01T00:00:00Z"
READY: Json = {"type": "Ready", "status": "True"}
TARGET: Json = {"type": "DisruptionTarget", "status": "True", "reason": "R", "message": "m"}


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], [TARGET | {"lastTransitionTime": STAMP}]),
        ([READY], [READY, TARGET | {"lastTransitionTime": STAMP}]),
        ([TARGET | {"lastTransitionTime": "old"}, READY], None),
        (
            [TARGET | {"reason": "other", "lastTransitionTime": "old", "extra": 1}],
            [TARGET | {"lastTransitionTime": "old", "extra": 1}],
        ),
        (
            [TARGET | {"status": "False", "lastTransitionTime": "old"}],
            [TARGET | {"lastTransitionTime": STAMP}],
        ),
    ],
)
def test_a_condition_takes_its_place(before: list[Json], expected: list[Json] | None) -> None:
    assert with_condition(before, TARGET, NOW) == expected


def test_the_status_of_a_pod_that_has_ended_stays() -> None:
    gone = Ending("R", "m", fail=True)
    assert status_change(pod_document(phase="Running"), gone, NOW)["phase"] == "Failed"
    assert status_change(pod_document(phase="Succeeded"), gone, NOW) == {}
    assert status_change(pod_document(phase="Running"), Ending(), NOW) == {}
    assert list(status_change(pod_document(phase="Running"), Ending("R", "m"), NOW)) == ["conditions"]


async def test_only_the_very_pod_goes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        ender = PodEnder(client, "test", SystemClock())
        pod = await api.add_pod(pod_document("p", phase="Running"))
        assert not await ender.end("default", "p", "another-uid", Ending("R", "m"))
        assert not await ender.end("default", "none", "any", Ending("R", "m"))
        assert api.find(PODS, "p")["status"] == pod["status"]
        await api.mark(PODS, "p")
        assert not await ender.end("default", "p", pod["metadata"]["uid"], Ending("R", "m"))
        assert await ender.end("default", "p", pod["metadata"]["uid"], Ending("R", "m", even_deleted=True))
        assert not api.find(PODS, "p")
