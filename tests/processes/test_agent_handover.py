"""A rolling update where the new process starts beside the old one: device plugins change hands when the old one ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from dray.processes.agent import Agent, run_agent
from dray.runtime.tasks import running
from dray.wire.registration_state import RegistrationPhase
from dray.wire.serve import serve
from tests.processes.conftest import Node

SIM = "dray:\n  sim:\n    devices: [{name: gpu, shape: gpu, count: 2, resourceName: x.io/sim}]\n"
RESOURCE = "x.io/sim"


@asynccontextmanager
async def agent_of(node: Node, instance: str) -> AsyncIterator[Agent]:
    told: list[Agent] = []
    options = replace(node.options, instance=instance)
    async with running(run_agent(options, serving=told.append), name=instance, stop_timeout=20):
        await node.wait(lambda: bool(told), f"agent {instance}")
        yield told[0]


async def test_the_next_one_is_ready_while_the_old_one_serves_and_takes_over_at_its_end(node: Node) -> None:
    node.configure(SIM)
    lists = node.kubelet.lists
    async with node.kubelet.running(), AsyncExitStack() as old_life:
        old = await old_life.enter_async_context(agent_of(node, "old"))
        await node.wait(lambda: RESOURCE in lists and old.why_unready() == "", "the old one")
        async with agent_of(node, "new") as new:
            await node.wait(lambda: RESOURCE in new.plugins.states(), "its offers")
            await node.wait(lambda: new.why_unready() == "", "the new one")
            assert new.plugins.states()[RESOURCE].phase is RegistrationPhase.REFUSED
            assert node.kubelet.registered.count(RESOURCE) == 1, "the old one is not disturbed"
            assert (await node.kubelet.allocate(RESOURCE, "gpu-0")).envs
            await old_life.aclose()
            # The next try by the clock would be up to 10 s away.
            await node.wait(lambda: new.plugins.is_initialized, "the takeover", 4)
            assert node.kubelet.registered.count(RESOURCE) == 2
            await node.wait(lambda: new.why_unready() == "", "that it is ready again")
            assert (await node.kubelet.allocate(RESOURCE, "gpu-1")).envs


async def test_alone_a_stranger_with_its_socket_keeps_it_unready(node: Node) -> None:
    """Nobody would end that one when we are ready."""
    node.configure(SIM)
    async with node.kubelet.running():
        async with agent_of(node, "old"):
            await node.wait(lambda: RESOURCE in node.kubelet.lists, "its socket")
            socket = next(one.endpoint for one in node.kubelet.requests if one.resource_name == RESOURCE)
        async with serve(node.kubelet.directory / socket, []), agent_of(node, "new") as new:
            states = new.plugins.states
            await node.wait(lambda: RESOURCE in states() and new.plugins.is_in_line, "the refusal")
            assert f"{RESOURCE}: refused" in new.why_unready()
