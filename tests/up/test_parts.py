"""What the parts of `dray up` share. The parts themselves are tried together (`test_all_in_one`)."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from dray.api.core import Node
from dray.api.core.node import NodeCondition, NodeStatus
from dray.errors import UnavailableError
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.tasks import running
from dray.up.parts import (
    METRICS,
    PATIENCE,
    SCHEDULER,
    enter_part,
    is_ready,
    kubelet_options,
    wait_for,
)
from dray.up.place import UpPlace


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


async def test_a_port_that_was_taken_meanwhile_is_chosen_anew() -> None:
    tried: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]

        def part() -> AbstractAsyncContextManager[int]:
            tried.append(0 if tried else taken)
            return serve_metrics(Metrics(), port=tried[-1])

        async with AsyncExitStack() as stack:
            assert await enter_part(stack, part) not in (0, taken)
    assert tried == [taken, 0]


async def test_a_part_that_cannot_be_had_otherwise_is_not_tried_again() -> None:
    tried = 0

    @asynccontextmanager
    async def part() -> AsyncIterator[None]:
        nonlocal tried
        tried += 1
        raise UnavailableError("the disk is away")
        yield

    async with AsyncExitStack() as stack:
        with pytest.raises(UnavailableError, match="the disk is away"):
            await enter_part(stack, part)
    assert tried == 1
