"""Questions to the allocator: the same answers as the command line gives, few at once, nothing written."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from pathlib import Path

import pytest

from dray.allocation.cluster.workloads import workloads_of
from dray.allocation.explanation.explain import explain_workload
from dray.api.codec import dump_yaml
from dray.api.core import ObjectReference
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.cli.main import main
from dray.client.event_recorder import EventRecorder
from dray.dashboard.fleet.fleet import Fleet
from dray.dashboard.telling.explanations import BusyError, Check, Questions
from dray.errors import NotFoundError, UnavailableError
from dray.runtime.clock import SystemClock
from dray.runtime.quarantine import PLACE, Quarantine, object_key
from dray.semantics.features import Gate
from tests.allocation.dumps import claims, situation, slices
from tests.allocation.world import claim, device, piece, request
from tests.dashboard import small_fleet as objects
from tests.dashboard.fleet_script import fill, make
from tests.dashboard.looking import with_cluster
from tests.deadly import make_deadly
from tests.waiting import until


async def test_the_answers_are_those_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    async with with_cluster(tmp_path) as (client, looker):
        await fill(client)
        await make(client, RESOURCE_CLAIMS, objects.claim("dream", objects.request(objects.IMPOSSIBLE)))

        async def is_known() -> bool:
            return bool((await looker.get("/api/claims"))["total"])

        await until(is_known)
        kubeconfig = f"--kubeconfig={tmp_path / 'server' / 'admin.kubeconfig'}"

        async def dray(*words: str) -> object:
            await asyncio.to_thread(main, [*words, kubeconfig, "-o", "json", "--log-level=error"])
            return json.loads(capsys.readouterr().out)

        said = await looker.get("/api/explain?claim=team-a/dream")
        assert said.pop("fits") is False
        assert said == await dray("explain", "dream", "-n", objects.NS)
        template = objects.template("more", objects.request(objects.WHOLE))
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
        text = dump_yaml(head | template)
        (tmp_path / "more.yaml").write_text(text)
        asked = {"manifests": text, "claims": 30, "policy": "best-fit"}
        status, _, said = await looker.ask("/api/whatif", method="POST", body=asked)
        assert status == 200
        words = ("simulate", "-f", str(tmp_path / "more.yaml"), "--claims=30", "--policy=best-fit")
        assert said == await dray(*words)


async def test_a_pod_that_has_its_devices_and_does_not_start(tmp_path: Path) -> None:
    async with with_cluster(tmp_path) as (client, looker):
        await fill(client)
        document = objects.pod("late", fpga=1)
        document["spec"]["nodeName"] = "gpu-a"
        pod = await make(client, PODS, document)
        about = ObjectReference(
            api_version="v1", kind="Pod", namespace=objects.NS, name="late", uid=pod.metadata.uid
        )
        recorder = EventRecorder(client, "kubelet", SystemClock(), host="gpu-a")
        recorder.tell(about, "Warning", "FailedPrepareDynamicResources", "the driver is not registered")
        recorder.tell(about, "Normal", "Scheduled", "to gpu-a")
        await recorder.flush(5.0)

        async def said() -> object:
            status, _, answer = await looker.ask("/api/explain?pod=team-a/late")
            return answer["workloads"][0]["notStarted"] if status == 200 else None

        assert await until(said) == "FailedPrepareDynamicResources: the driver is not registered"


async def test_answers_go_by_the_gates_of_the_cluster() -> None:
    assert Questions(Fleet("s", "l"))._known().features().device_taints
    off = Questions(Fleet("s", "l"), switches={Gate.DEVICE_TAINTS: False})
    assert not off._known().features().device_taints


async def test_more_questions_than_at_once() -> None:
    usual = sys.getswitchinterval()
    questions, go = Questions(Fleet("s", "l"), at_once=2, most=1), threading.Event()
    try:
        async with asyncio.TaskGroup() as group:
            thinking = [
                group.create_task(questions._think(lambda *_: go.wait(60), "think")) for _ in range(3)
            ]
            await asyncio.sleep(0)
            with pytest.raises(BusyError, match="ask again"):
                await questions.explain(claim="a/b")
            go.set()
    finally:
        go.set()
    assert [one.result() for one in thinking] == [True] * 3  # the third had its turn after the others
    assert await questions._think(lambda *_: sys.getswitchinterval(), "think") < usual
    assert sys.getswitchinterval() == usual


async def test_what_ended_the_dashboard_three_times_is_not_explained_again(tmp_path: Path) -> None:
    """A page asks again by itself, and in `dray up` everything would end with it."""
    make_deadly(tmp_path, object_key("resourceclaims", "a", "b", ""))
    with Quarantine(tmp_path / PLACE, SystemClock()) as quarantine:
        questions = Questions(Fleet("s", "l"), quarantine=quarantine)
        with pytest.raises(
            UnavailableError, match=r"cannot explain a/b: set aside until .* Dray ended 3 times"
        ):
            await questions.explain(claim="a/b")
        with pytest.raises(NotFoundError):  # others are looked for
            await questions.explain(claim="a/c")
        assert quarantine.handled() == []


async def test_the_work_for_somebody_who_left_ends() -> None:
    questions, started, ended = Questions(Fleet("s", "l")), threading.Event(), threading.Event()
    one = situation(slices(piece(device("d"))), claims(claim(request(2))))
    workload = workloads_of(one.cluster)[0]

    def work(known: object, check: Check) -> None:
        started.set()
        try:
            for _ in range(100_000):
                assert explain_workload(one.checked(check), workload, one.cluster.nodes).tried == 1
        finally:
            ended.set()

    asking = asyncio.ensure_future(questions._think(work, "think"))
    assert await asyncio.to_thread(started.wait, 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(ended.wait, 10)


async def test_a_question_that_takes_too_long_keeps_its_place_until_it_ends() -> None:
    questions, go = Questions(Fleet("s", "l"), at_once=1, seconds=0.05), threading.Event()
    with pytest.raises(UnavailableError, match=r"in 0\.05 s"):
        await questions._think(lambda *_: go.wait(60), "think")
    with pytest.raises(UnavailableError):
        await questions._think(lambda *_: 7, "think")
    go.set()

    async def is_free() -> int | None:
        try:
            return await questions._think(lambda *_: 7, "think")
        except UnavailableError:
            return None

    assert await until(is_free) == 7
