"""Many random days of a node: whatever fails, no device is held twice, none leaks, and a restart changes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from dray.api.core import Pod
from dray.errors import Error, ProtocolError
from dray.kubelet.devices.checkpoint import decode
from dray.kubelet.devices.known import Device
from dray.kubelet.topology.hints import Hint
from tests.campaign import seeds
from tests.kubelet.devices.small_node import (
    OTHER,
    RESOURCE,
    SmallNode,
    SmallPlugin,
    container,
    pod_of,
)

IDS = [f"d{one}" for one in range(8)]


class Day:
    """One node and what happens to it, step by step."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = Random(seed)
        self.node = SmallNode(directory)
        self.node.active = set()
        self.plugins: dict[str, list[SmallPlugin]] = {RESOURCE: [], OTHER: []}
        self.number = 0

    async def run(self, steps: int) -> None:
        actions = [
            self.list,
            self.list,
            self.admit,
            self.admit,
            self.end,
            self.unplug,
            self.restart,
            self.rush,
        ]
        for _ in range(steps):
            await self.random.choice(actions)()
            self.check()
        self.node.manager.close()

    def resource(self) -> str:
        return self.random.choice((RESOURCE, OTHER))

    async def list(self) -> None:
        resource = self.resource()
        if not self.plugins[resource] or self.random.random() < 0.2:
            plugin = SmallPlugin(preferred=self.random.random() < 0.5)
            plugin.before = self.trouble
            self.plugins[resource].append(plugin)
            self.node.manager.connected(resource, plugin)
        plugin = self.random.choice(self.plugins[resource])
        plugin.wish = self.random.sample([*IDS, "bogus"], 3)
        chosen = self.random.sample(IDS, self.random.randint(0, 8))
        listed = [
            Device(one, self.random.random() < 0.8, nodes, bool(nodes))
            for one in chosen
            for nodes in [self.random.choice(((), (0,), (1,), (0, 1)))]
        ]
        self.node.manager.listed(resource, listed, plugin)

    async def trouble(self, call: str) -> None:
        await asyncio.sleep(0)
        if self.random.random() < 0.2:
            await self.random.choice((self.list, self.end, self.unplug))()
        if self.random.random() < 0.1:
            raise ProtocolError("broken")

    def pod(self) -> Pod:
        self.number += 1
        some = [{"res1": self.random.randint(0, 2), "res2": self.random.randint(0, 1)} for _ in range(4)]
        init = [container("i", None, **some[0]), container("s", "Always", **some[1])]
        return pod_of(
            f"p{self.number}", container("c", None, **some[2]), container("d", None, **some[3]), init=init
        )

    async def admit(self) -> None:
        pod = self.pod()
        assert self.node.active is not None
        self.node.active.add(pod.metadata.uid)
        for one in (*pod.spec.init_containers, *pod.spec.containers):
            self.node.hints[pod.metadata.uid, one.name] = Hint(self.random.choice((None, 1, 2, 3)), True)
            self.node.manager.topology_hints(pod, one)
        try:
            await self.node.admit(pod)
        except Error:
            if self.random.random() < 0.7:
                self.node.active.discard(pod.metadata.uid)

    async def rush(self) -> None:
        """Three pods at once, one of them cancelled somewhere."""
        tasks = [asyncio.ensure_future(self.admit()) for _ in range(3)]
        for _ in range(self.random.randint(0, 4)):
            await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def end(self) -> None:
        assert self.node.active is not None
        if self.node.active:
            self.node.active.discard(self.random.choice(sorted(self.node.active)))
        if self.random.random() < 0.5:
            self.node.manager.forget_inactive()

    async def unplug(self) -> None:
        resource = self.resource()
        if self.plugins[resource]:
            plugin = self.plugins[resource].pop(self.random.randrange(len(self.plugins[resource])))
            self.node.manager.disconnected(resource, plugin)
        if self.random.random() < 0.1:
            await self.node.clock.advance(200)
            self.node.manager.capacity()

    async def restart(self) -> None:
        if self.random.random() < 0.5:
            return
        before = [grant for grant in self.node.manager._ledger.grants if self.is_active(grant.pod_uid)]
        self.plugins = {RESOURCE: [], OTHER: []}
        self.node.restart()
        assert self.node.aside is None
        after = [grant for grant in self.node.manager._ledger.grants if self.is_active(grant.pod_uid)]
        assert after == before

    def is_active(self, uid: str) -> bool:
        assert self.node.active is not None
        return uid in self.node.active

    def check(self) -> None:
        ledger = self.node.manager._ledger
        for resource in (RESOURCE, OTHER):
            held: dict[str, str] = {}
            kept: set[tuple[str, str]] = set()
            for grant in ledger.grants:
                if grant.resource != resource:
                    continue
                for one in grant.ids:
                    assert held.setdefault(one, grant.pod_uid) == grant.pod_uid, "two pods hold one device"
                    if grant.container != "i":
                        assert (grant.pod_uid, one) not in kept, "two containers hold one device"
                        kept.add((grant.pod_uid, one))
            known = ledger.known.get(resource)
            if known is not None:
                assert ledger.free(resource) == known.healthy - held.keys(), "something leaks"
        if self.node.path.exists():
            saved = {grant.key: grant for grant in decode(self.node.path.read_bytes()).grants}
            assert all(saved[grant.key] == grant for grant in ledger.grants), "a grant is not on the disk"


@pytest.mark.parametrize("seed", seeds(8, 400))
async def test_a_random_day(tmp_path: Path, seed: int) -> None:
    await Day(tmp_path, seed).run(60)
