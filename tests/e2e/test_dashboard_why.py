"""The page that tells why: at once that somebody works on it, nothing for those who left, and what a kubelet says.

Kubelets and drivers are played, as in test_dashboard_browser.py: what a kubelet says is written by the tests.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import Request, Route, expect

from dray.api.core import ObjectReference
from dray.api.kinds import PODS
from dray.client.event_recorder import EventRecorder
from dray.client.requests import DeleteOptions
from dray.runtime.clock import SystemClock
from tests.dashboard import small_fleet as objects
from tests.dashboard.fleet_script import make
from tests.e2e.dashboard_person import Person
from tests.e2e.dashboard_world import World

AT_ONCE = DeleteOptions(grace_period=0)
"""No kubelet is there that would end a pod."""
pytest_plugins = ("tests.e2e.dashboard_fixtures",)


def test_a_slow_answer_is_waited_for_in_sight(visitor: Person) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    visitor.page.route("**/api/explain*", hold)
    visitor.open("#/claims/team-a/dream")
    expect(visitor.look(".explanation .working")).to_contain_text("Working out why")
    expect(visitor.look(".explanation .working")).to_contain_text(
        re.compile(r"asking \d+ nodes about \d+ devices, \d s")
    )
    held.pop().continue_()
    expect(visitor.look(".explanation .funnel").first).to_be_visible()
    expect(visitor.look(".working")).to_have_count(0)
    expect(visitor.look(".explanation")).not_to_have_attribute("aria-busy", "true")


def test_who_leaves_the_page_takes_the_question_back(visitor: Person) -> None:
    gone: list[str] = []

    def note(request: Request) -> None:
        gone.append(urlsplit(request.url).path)

    visitor.page.on("requestfailed", note)
    visitor.page.route("**/api/explain*", lambda route: None)
    visitor.open("#/claims/team-a/dream")
    expect(visitor.look(".explanation .working")).to_be_visible()
    with visitor.page.expect_event("requestfailed"):
        visitor.open("#/fleet")
        expect(visitor.look(".row").first).to_be_visible()
    visitor.page.remove_listener("requestfailed", note)
    assert gone == ["/api/explain"]


def test_a_pod_with_devices_that_does_not_start(visitor: Person, world: World) -> None:
    document = objects.pod("stuck", fpga=1)
    document["metadata"]["labels"] = {"starts": "never"}
    document["spec"]["nodeName"] = "gpu-a"
    client = world.shown.client
    pod = world.do(make(client, PODS, document))

    async def warn() -> None:
        recorder = EventRecorder(client, "kubelet", SystemClock(), host="gpu-a")
        about = ObjectReference(
            api_version="v1", kind="Pod", namespace=objects.NS, name="stuck", uid=pod.metadata.uid
        )
        recorder.tell(about, "Warning", "FailedMount", "no such volume: data")
        await recorder.flush(5.0)

    try:
        visitor.open(f"#/pods/{objects.NS}/stuck")
        expect(visitor.look(".explanation")).to_contain_text("its containers do not run yet")
        world.do(warn())
        verdict = "It has its devices, but does not start on gpu-a."
        expect(visitor.look(".explanation .verdict")).to_have_text(verdict)
        expect(visitor.look(".explanation .error")).to_have_text("FailedMount: no such volume: data")
    finally:
        world.do(client.delete(PODS, "stuck", namespace=objects.NS, options=AT_ONCE))


def test_a_pod_whose_program_ends_again_and_again(visitor: Person, world: World) -> None:
    document = objects.pod("flaky", fpga=1)
    document["metadata"]["labels"] = {"starts": "never"}
    document["spec"]["nodeName"] = "gpu-a"
    client = world.shown.client
    pod = world.do(make(client, PODS, document))
    container = {
        "name": pod.spec.containers[0].name,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 3}},
        "image": "none",
        "imageID": "none",
        "ready": False,
        "restartCount": 4,
    }
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    world.do(client.patch(PODS, "flaky", status, namespace=objects.NS, subresource="status"))
    try:
        visitor.open("#/pods?q=flaky")
        expect(visitor.look("tbody tr")).to_contain_text(["crashing"])
        visitor.page.get_by_role("link", name="why? team-a/flaky is crashing").click()
        verdict = "It has its devices, but does not keep running on gpu-a."
        expect(visitor.look(".explanation .verdict")).to_have_text(verdict)
        expect(visitor.look(".explanation .error")).to_contain_text("exit code 3")
    finally:
        world.do(client.delete(PODS, "flaky", namespace=objects.NS, options=AT_ONCE))
