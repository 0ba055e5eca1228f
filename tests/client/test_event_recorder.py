"""Events of any part, against the small API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from dray.api.core import ObjectReference
from dray.api.kinds import EVENTS
from dray.client.client import Client
from dray.client.event_recorder import FIRST_REST, FOR_ONE_NODE, LONGEST_REST, EventRecorder, Pace, refer_to
from dray.client.event_series import SIMILAR
from dray.client.rate_limit import RateLimit
from dray.errors import DeniedError, UnavailableError
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from dray.testing.check.api_server import Place
from tests.controllers.claims.groups import GROUP_UID, group
from tests.controllers.objects import pod
from tests.controllers.server import Cluster, cluster

POD = ObjectReference(kind="Pod", namespace="default", name="p", uid="u1", api_version="v1")
FAST = RateLimit(1000.0, 100)
WAITING = FOR_ONE_NODE.waiting
NODE = ObjectReference(kind="Node", name="n", uid="u2", api_version="v1")


class Scene:
    def __init__(self, api: Cluster, client: Client, writers: int = 1) -> None:
        self.api, self.clock = api, FakeClock()
        self.recorder = EventRecorder(client, "test", self.clock, host="n", pace=Pace(FAST, writers=writers))

    def tell(self, message: str, about: ObjectReference = POD, times: int = 1) -> None:
        for _ in range(times):
            self.recorder.tell(about, "Warning", "Failed", message)

    @property
    def counts(self) -> dict[str, int]:
        return {one["message"]: one["count"] for one in self.api.every(EVENTS)}

    async def settle(self, seconds: float = 0.0) -> None:
        """Until nothing waits, or what waits is not due; time passes in small steps."""
        async with asyncio.timeout(60):
            while seconds > 0 or self.recorder.waiting:
                await self.clock.advance(0.5)
                seconds -= 0.5
                await asyncio.sleep(0.01)


@pytest.fixture(params=[1, 4])
async def scene(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with cluster(tmp_path) as (api, client):
        yield Scene(api, client, request.param)


@asynccontextmanager
async def recording(scene: Scene) -> AsyncIterator[None]:
    async with running(scene.recorder.run(), name="events"):
        yield


async def test_the_same_again_is_counted_and_written_now_and_then(scene: Scene) -> None:
    scene.tell("no", times=3)
    scene.tell("no", NODE)
    async with recording(scene):
        await scene.settle()
        told = {one["involvedObject"]["kind"]: one for one in scene.api.every(EVENTS)}
        assert {kind: one["count"] for kind, one in told.items()} == {"Pod": 3, "Node": 1}
        assert told["Node"]["metadata"]["namespace"] == "default"
        assert (told["Pod"]["source"], told["Pod"]["type"]) == ({"component": "test", "host": "n"}, "Warning")
        version = scene.api.version
        scene.tell("no", times=50)
        assert scene.recorder.waiting == 1
        await asyncio.sleep(0.05)
        assert scene.api.version == version, "not so soon"
        await scene.settle()
        assert sorted(one["count"] for one in scene.api.every(EVENTS)) == [1, 53]
        assert scene.api.version == version + 1
        assert scene.api.refused == []


async def test_the_more_often_it_was_written_the_longer_it_rests(scene: Scene) -> None:
    written: list[float] = []
    scene.tell("no")
    async with recording(scene):
        before = -1
        while scene.clock.monotonic() < 4 * LONGEST_REST:
            if scene.api.version != before:
                before = scene.api.version
                written.append(scene.clock.monotonic())
            scene.tell("no")
            await scene.clock.advance(0.5 if len(written) < 5 else 20.0)
            await asyncio.sleep(0.002)
    pauses = [later - earlier for earlier, later in pairwise(written)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 2 * FIRST_REST
    assert LONGEST_REST <= pauses[-1] <= LONGEST_REST + 60.0
    assert len(written) <= 14


async def test_what_is_told_now_and_then_is_written_at_once(scene: Scene) -> None:
    async with recording(scene):
        for number in range(1, 15):
            scene.tell("no")
            await scene.settle()
            assert scene.counts == {"no": number}
            await scene.clock.advance(LONGEST_REST)


async def test_one_that_is_to_wait_is_written_later_with_the_time_it_happened(scene: Scene) -> None:
    scene.recorder.tell(POD, "Normal", "Done", "prepared", after=2.0)
    scene.recorder.tell(NODE, "Normal", "Done", "prepared", after=2.0)
    scene.tell("no")
    began = scene.clock.now()
    async with recording(scene):
        async with asyncio.timeout(10):
            while not scene.counts:
                await asyncio.sleep(0.01)
        await scene.clock.advance(1.5)
        await asyncio.sleep(0.05)
        assert scene.counts == {"no": 1}
        await scene.settle(1.0)
    assert scene.counts == {"no": 1, "prepared": 1}
    told = [one for one in scene.api.every(EVENTS) if one["message"] == "prepared"]
    assert len(told) == 2
    assert {one["firstTimestamp"] for one in told} == {began.strftime("%Y-%m-%dT%H:%M:%SZ")}


async def test_one_that_waits_is_among_the_last_words(scene: Scene) -> None:
    async with scene.recorder.recording(1.0):
        scene.recorder.tell(POD, "Normal", "Done", "prepared", after=60.0)
        await asyncio.sleep(0.02)
    assert scene.counts == {"prepared": 1}


async def test_a_flood_of_different_messages_becomes_one_event(scene: Scene) -> None:
    for number in range(40):
        scene.tell(f"no {number}")
    scene.tell("no 3")
    async with recording(scene):
        await scene.settle()
    assert len(scene.counts) == SIMILAR + 1
    assert scene.counts["(combined from similar events): no 39"] == 40 - SIMILAR
    assert scene.counts["no 3"] == 2


async def test_events_wait_for_a_server_that_is_away_and_the_oldest_give_way(scene: Scene) -> None:
    scene.api.is_away = True
    async with recording(scene):
        scene.tell("first")
        await scene.clock.advance(1)
        for number in range(WAITING):
            about = ObjectReference(kind="Pod", namespace="default", name=f"p{number}", uid=str(number))
            scene.tell("later", about)
        assert (scene.recorder.waiting, scene.recorder.dropped) == (WAITING, 1)
        scene.api.is_away = False
        await scene.settle()
    names = {one["involvedObject"]["name"] for one in scene.api.every(EVENTS)}
    assert "p999" in names and "p" not in names and len(names) == WAITING


async def test_an_answer_that_is_lost_makes_no_second_event(scene: Scene) -> None:
    lost = [True]

    def fails(method: str, place: Place, is_done: bool) -> None:
        if is_done and method == "POST" and lost:
            lost.pop()
            raise UnavailableError("lost")

    scene.api.fails = fails
    scene.tell("no")
    async with recording(scene):
        await scene.settle()
    assert scene.counts == {"no": 1} and lost == []


async def test_an_event_that_the_server_forgot_is_made_again(scene: Scene) -> None:
    scene.tell("no")
    async with recording(scene):
        await scene.settle()
        (told,) = scene.api.every(EVENTS)
        await scene.api.remove(EVENTS, told["metadata"]["name"])
        scene.tell("no")
        await scene.settle(FIRST_REST)
    assert scene.counts == {"no": 2}


async def test_one_that_is_refused_does_not_stop_the_others(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    refusals = [True, True]

    def fails(method: str, place: Place, is_done: bool) -> None:
        if refusals:
            refusals.pop()
            raise DeniedError("the namespace is being deleted")

    scene.api.fails = fails
    for number in range(3):
        scene.tell(f"no {number}")
    async with recording(scene):
        await scene.settle()
    assert scene.counts == {"no 2": 1} and scene.recorder.dropped == 2
    assert caplog.text.count("some are left out") == 1


async def test_at_the_end_what_waits_is_written_for_a_limited_time(scene: Scene) -> None:
    scene.tell("last words")
    await scene.recorder.flush(5)
    assert scene.counts == {"last words": 1}
    scene.api.stuck = EVENTS
    scene.tell("too late")
    await scene.recorder.flush(0.1)
    scene.api.stuck = None
    assert "too late" not in scene.counts


async def test_last_words_are_written(scene: Scene) -> None:
    async with scene.recorder.recording(5):
        scene.tell("no")
        await scene.settle()
        scene.tell("no", times=2)
        scene.tell("last words")
    assert scene.counts == {"no": 3, "last words": 1}


async def test_one_that_is_refused_at_the_end_does_not_stop_the_others(scene: Scene) -> None:
    def fails(method: str, place: Place, is_done: bool) -> None:
        if scene.recorder.dropped < 2:
            raise DeniedError("the namespace is being deleted")

    scene.api.fails = fails
    for number in range(3):
        scene.tell(f"no {number}")
    await scene.recorder.flush(5)
    assert scene.counts == {"no 2": 1}


async def test_the_rate_is_limited(tmp_path: Path) -> None:
    clock = FakeClock()
    async with cluster(tmp_path) as (api, client):
        recorder = EventRecorder(client, "test", clock, pace=Pace(RateLimit(1.0, 1), writers=4))
        async with running(recorder.run(), name="events"):
            for number in range(4):
                recorder.tell(POD, "Normal", "R", f"m {number}")
            for number in range(1, 5):
                async with asyncio.timeout(10):
                    while len(api.every(EVENTS)) < number:
                        await asyncio.sleep(0.005)
                await asyncio.sleep(0.02)
                assert len(api.every(EVENTS)) == number
                await clock.advance(1.0)


def test_objects_are_named_as_what_they_are() -> None:
    found = refer_to(group())
    assert (found.api_version, found.kind) == ("scheduling.k8s.io/v1alpha2", "PodGroup")
    assert (found.namespace, found.name, found.uid) == ("default", "g", GROUP_UID)
    assert (refer_to(pod()).api_version, refer_to(pod()).kind) == ("v1", "Pod")


async def test_long_names_and_messages_are_cut(scene: Scene) -> None:
    scene.tell("x" * 5000, ObjectReference(kind="Pod", namespace="default", name="p" * 253, uid="u"))
    await scene.recorder.flush(5)
    (told,) = scene.api.every(EVENTS)
    assert len(told["message"]) == 1024 and len(told["metadata"]["name"]) == 253
    assert scene.api.refused == []
