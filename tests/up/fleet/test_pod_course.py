from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from dray.api.codec import view
from dray.api.core import Pod
from dray.up.fleet.pod_course import RUNS_FOR, Course, course

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def pod(runs_for: str = "", restart: str = "Never", **spec: Any) -> Pod:
    annotations = {RUNS_FOR: runs_for} if runs_for else {}
    container = {"name": "c", "image": "i"}
    return view(
        {
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": annotations},
            "spec": {"containers": [container], "restartPolicy": restart, "nodeName": "n", **spec},
        },
        Pod,
    )


def after(one: Pod, found: Course) -> Pod:
    assert found.status is not None
    return replace(one, status=found.status)


def test_a_pod_starts_at_once_and_stays() -> None:
    found = course(pod(), NOW)
    running = after(pod(), found)
    assert running.status.phase == "Running"
    assert running.status.start_time == NOW
    assert {one.type: one.status for one in running.status.conditions}["Ready"] == "True"
    (container,) = running.status.container_statuses
    assert container.ready and container.state.running is not None
    assert container.container_id == "hollow://u-c"
    assert course(running, NOW + timedelta(days=1)) == Course()


def test_it_ends_when_its_time_is_over() -> None:
    first = course(pod("1m30s"), NOW)
    assert first.again_in == 90.0
    running = after(pod("1m30s"), first)
    assert course(running, NOW + timedelta(seconds=60)) == Course(again_in=30.0)
    done = after(running, course(running, NOW + timedelta(seconds=200)))
    assert done.status.phase == "Succeeded"
    (container,) = done.status.container_statuses
    assert container.state.terminated is not None
    assert container.state.terminated.exit_code == 0
    assert container.state.terminated.finished_at == NOW + timedelta(seconds=90)
    assert course(done, NOW + timedelta(days=1)) == Course()


def test_one_that_is_started_again_has_no_end() -> None:
    found = course(pod("1s", restart="Always"), NOW)
    assert found.again_in is None


@pytest.mark.parametrize("text", ["5", "five", "-5s", "s"])
def test_an_annotation_that_is_no_time_is_told(text: str) -> None:
    waiting = after(pod(text), course(pod(text), NOW))
    assert waiting.status.phase == "Pending"
    state = waiting.status.container_statuses[0].state.waiting
    assert state is not None and RUNS_FOR in state.message and "write 5s" in state.message
    assert course(waiting, NOW).status is None


def test_a_pod_waits_for_its_claims_without_having_started() -> None:
    waiting = after(pod(), course(pod(), NOW, "claim a: is not there yet"))
    assert (waiting.status.phase, waiting.status.start_time) == ("Pending", None)
    assert course(waiting, NOW, "claim a: is not there yet") == Course()
    assert after(waiting, course(waiting, NOW + timedelta(seconds=5))).status.start_time == NOW + timedelta(
        seconds=5
    )


def test_a_deleted_pod_may_go_whatever_its_grace() -> None:
    metadata = replace(pod().metadata, deletion_timestamp=NOW + timedelta(seconds=30))
    assert course(replace(pod(), metadata=metadata), NOW) == Course(is_over=True)


def test_init_containers_are_done_and_sidecars_run() -> None:
    inits = [{"name": "i", "image": "i"}, {"name": "s", "image": "i", "restartPolicy": "Always"}]
    one = pod("5s", initContainers=inits)
    running = after(one, course(one, NOW))
    first, sidecar = running.status.init_container_statuses
    assert first.state.terminated is not None and sidecar.state.running is not None
    assert running.status.phase == "Running"
    done = after(running, course(running, NOW + timedelta(seconds=6)))
    assert done.status.phase == "Succeeded"
