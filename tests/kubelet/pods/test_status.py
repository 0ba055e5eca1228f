from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dray.api.core import Pod
from dray.api.core.container import ContainerStateWaiting, ResourceHealth, ResourceStatus
from dray.api.core.pod import PodCondition, PodStatus
from dray.kubelet.pods.status import BACK_OFF, Facts, pod_status
from dray.kubelet.rejection import misaligned
from dray.kubelet.runtimes.contract import Container, State
from tests.kubelet.pods.pods import START, pod, run

EXITED, RUNNING, CREATED, UNKNOWN = State.EXITED, State.RUNNING, State.CREATED, State.UNKNOWN


def status(wanted: Pod, *containers: Container, **more: Any) -> PodStatus:
    return pod_status(wanted, Facts(now=START, runtime="runc", containers=containers, **more))


@pytest.mark.parametrize(
    ("policy", "containers", "is_ended", "phase"),
    [
        ("Always", [], False, "Pending"),
        ("Always", [run("a")], False, "Pending"),
        ("Always", [run("a"), run("b")], False, "Running"),
        ("Always", [run("a"), run("b", CREATED)], False, "Pending"),
        ("Always", [run("a", EXITED, 1), run("b", EXITED)], False, "Running"),
        ("Never", [run("a", EXITED), run("b")], False, "Running"),
        ("Never", [run("a", EXITED), run("b", EXITED)], False, "Running"),
        ("Never", [run("a", EXITED), run("b", EXITED)], True, "Succeeded"),
        ("Never", [run("a", EXITED), run("b", EXITED, 3)], True, "Failed"),
        ("Never", [run("a", EXITED), run("b", UNKNOWN)], True, "Failed"),
    ],
)
def test_the_phase(policy: str, containers: list[Container], is_ended: bool, phase: str) -> None:
    assert status(pod("a", "b", policy=policy), *containers, is_ended=is_ended).phase == phase


def test_a_failed_init_container_fails_the_pod_only_with_never_and_at_the_end() -> None:
    broken = run("i", EXITED, 1)
    assert status(pod("a", inits=("i",), policy="Never"), broken).phase == "Pending"
    assert status(pod("a", inits=("i",), policy="Never"), broken, is_ended=True).phase == "Failed"
    assert status(pod("a", inits=("i",)), broken).phase == "Pending"


def test_states_of_containers() -> None:
    found = status(pod("a", "b", "c", "d"), run("a"), run("b", EXITED, 2), run("d", UNKNOWN))
    a, b, c, d = found.container_statuses
    assert a.state.running is not None
    assert (a.ready, a.started, a.container_id, a.state.running.started_at) == (
        True,
        True,
        "runc://a-0",
        START,
    )
    assert b.state.terminated is not None
    assert (b.state.terminated.exit_code, b.state.terminated.reason) == (2, "Error")
    assert c.state.waiting is not None
    assert (c.state.waiting.reason, c.container_id) == ("ContainerCreating", "")
    assert d.state.terminated is not None
    assert (d.state.terminated.exit_code, d.state.terminated.reason) == (137, "ContainerStatusUnknown")


def test_a_container_that_waits_for_its_next_run_shows_the_last_one() -> None:
    wait = {"a": ContainerStateWaiting(reason=BACK_OFF, message="back-off")}
    (found,) = status(pod("a"), run("a", EXITED, 1, attempt=3), waits=wait).container_statuses
    assert found.state.waiting is not None
    assert found.state.waiting.reason == BACK_OFF
    assert found.last_state.terminated is not None
    assert (found.last_state.terminated.exit_code, found.restart_count) == (1, 3)
    assert status(pod("a"), run("a", EXITED, 1, attempt=3), waits=wait).phase == "Running"


def test_the_run_before_is_the_last_state() -> None:
    (found,) = status(pod("a"), run("a", EXITED, 7), run("a", attempt=1)).container_statuses
    assert found.state.running is not None
    assert found.last_state.terminated is not None
    assert (found.last_state.terminated.exit_code, found.restart_count) == (7, 1)


def test_init_containers_are_ready_when_done_and_sidecars_when_they_run() -> None:
    wanted = pod("a", inits=("side", "i"))
    found = status(wanted, run("side"), run("i", EXITED), run("a"))
    assert [one.ready for one in found.init_container_statuses] == [True, True]
    assert found.phase == "Running"
    assert status(wanted, run("side")).phase == "Pending"
    ended = status(wanted, run("side", EXITED), run("i", EXITED), run("a", EXITED), is_ended=True)
    assert ended.phase == "Succeeded"


def test_conditions_keep_the_time_of_their_last_change() -> None:
    old = START - timedelta(hours=1)
    before = PodStatus(
        conditions=(
            PodCondition(type="Ready", status="True", last_transition_time=old),
            PodCondition(type="Initialized", status="False", last_transition_time=old),
            PodCondition(type="example.com/gate", status="True"),
        )
    )
    wanted = msgspec.structs.replace(pod("a"), status=before)
    found = {one.type: one for one in status(wanted, run("a"), has_sandbox=True).conditions}
    assert found["Ready"].last_transition_time == old
    assert found["Initialized"].last_transition_time == START
    assert found["PodReadyToStartContainers"].status == "True"
    assert "example.com/gate" in found
    unready = {one.type: one for one in status(wanted, run("a", EXITED, 1)).conditions}
    assert (unready["Ready"].status, unready["Ready"].message) == (
        "False",
        "containers with unready status: [a]",
    )


def test_a_rejected_pod_has_failed_with_the_reason() -> None:
    found = status(pod("a"), rejection=misaligned())
    assert (found.phase, found.reason) == ("Failed", "TopologyAffinityError")
    assert found.message == "Pod was rejected: Resources cannot be allocated with Topology locality"


def test_devices_are_shown_for_main_containers_only() -> None:
    held = {
        name: (ResourceStatus(name="x/gpu", resources=(ResourceHealth(resource_id="g0", health="Healthy"),)),)
        for name in ("a", "i")
    }
    found = status(pod("a", inits=("i",)), run("i", EXITED), run("a"), devices=held)
    assert found.container_statuses[0].allocated_resources_status == held["a"]
    assert found.init_container_statuses[0].allocated_resources_status == ()
