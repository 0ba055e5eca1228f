"""What the parts of `dray up` share. The parts themselves are tried together (`test_all_in_one`)."""

from __future__ import annotations

from pathlib import Path

from dray.api.core import Node
from dray.api.core.node import NodeCondition, NodeStatus
from dray.processes.up.parts import METRICS, PATIENCE, SCHEDULER, is_ready, kubelet_options, wait_for
from dray.processes.up.place import UpPlace
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running


def test_a_node_is_ready_when_it_says_so() -> None:
    def node(status: str) -> Node:
        return Node(status=NodeStatus(conditions=(NodeCondition(type="Ready", status=status),)))

    assert is_ready(node("True")) and not is_ready(node("Unknown")) and not is_ready(Node())


def test_pods_that_name_no_scheduler_are_ours_and_those_that_name_dray_too() -> None:
    assert {SCHEDULER.name, *SCHEDULER.also} == {"default-scheduler", "dray"}


def test_the_kubelet_keeps_to_the_data_directory() -> None:
    options = kubelet_options(UpPlace(Path("/d")), "runc")
    places = (
        options.root_dir,
        options.device_plugin_dir,
        options.state_dir,
        options.log_dir,
        *options.cdi_dirs,
    )
    assert all(place.is_relative_to("/d") for place in places)
    assert len(set(METRICS.values())) == 4


async def test_what_never_comes_is_not_waited_for_for_ever() -> None:
    clock, asked = FakeClock(), 0

    async def why() -> str:
        nonlocal asked
        asked += 1
        return "not yet"

    done: list[float] = []

    async def wait() -> None:
        await wait_for(why, clock)
        done.append(clock.monotonic())

    async with running(wait(), name="waiting"):
        await clock.advance_until(lambda: bool(done), step=0.05, limit=PATIENCE * 2)
    assert PATIENCE < done[0] < PATIENCE + 1 and asked > 10
