from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.agent.config import MdevTypes, Served
from dray.agent.config.cluster_config import LAYOUT, ClusterConfig
from dray.agent.config.config_place import ConfigMapPlace, KubeVirtPlace, Place, parse_place
from dray.agent.config.config_source import Labels
from dray.agent.config.last_known import LastKnown
from dray.api.core import ObjectReference
from dray.api.kinds import CONFIG_MAPS
from dray.client.client import Client
from dray.errors import Error, InvalidError, NotFoundError, UnavailableError
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.campaign import campaign, seeded
from tests.processes.agent_server import NS, AgentServer, agent_server
from tests.waiting import wait_until

MAP = "configmap:default/agent"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[AgentServer]:
    async with agent_server(tmp_path / "server") as found:
        yield found


class Reader:
    """An agent's view of its configuration: `last` is what it would serve."""

    config: ClusterConfig

    def __init__(self) -> None:
        self.last = Served()
        self.told: list[tuple[str, tuple[str, ...]]] = []

    def refused(self, error: Error, about: tuple[ObjectReference, ...]) -> None:
        self.told.append((str(error), tuple(f"{one.kind} {one.name}" for one in about)))

    async def run(self) -> None:
        self.last = self.config.load()
        async for served in self.config.follow(SystemClock(), self.last):
            self.last = served

    @property
    def count(self) -> int:
        return self.last.generic[0].count if self.last.generic else 0


@asynccontextmanager
async def reading(
    server: AgentServer, state: Path, text: str = MAP, additions: Place | None = None
) -> AsyncIterator[Reader]:
    place = parse_place(text, "--config")
    assert isinstance(place, KubeVirtPlace | ConfigMapPlace) and not isinstance(additions, KubeVirtPlace)
    reader = Reader()
    async with Client(server.access) as client:
        config = ClusterConfig(
            client,
            place,
            Labels(),
            kept=LastKnown(state / "good-config", LAYOUT),
            clock=SystemClock(),
            additions=additions,
            on_refusal=reader.refused,
            patience=(0.5, 0.5),
        )
        reader.config = config
        async with config, running(reader.run(), name="reader"):
            yield reader


def count(number: int) -> str:
    return f"virtualMachineInstancesPerNode: {number}\n"


async def test_a_config_map_is_followed_and_a_bad_edit_changes_nothing(
    server: AgentServer, tmp_path: Path
) -> None:
    await server.put_map(config=count(1))
    async with reading(server, tmp_path) as reader:
        await wait_until(lambda: reader.count == 1, "the first")
        await server.put_map(config=count(2))
        await wait_until(lambda: reader.count == 2, "the second")
        await server.put_map(config=count(3) + "dray: {rolle: x}\n")
        await wait_until(lambda: reader.config.refusals == 1, "the refusal")
        (text, about), *_ = reader.told
        assert text.startswith("configmap:default/agent:2: dray.rolle: ") and about == ("ConfigMap agent",)
        await server.put_map(a=count(4), b=count(5))
        await wait_until(lambda: reader.config.refusals == 2, "another refusal")
        assert "say which key is meant" in reader.told[1][0] and "its keys: a, b" in reader.told[1][0]
        await server.client.delete(CONFIG_MAPS, "agent", namespace=NS)
        await wait_until(lambda: reader.config.refusals == 3, "the deletion")
        assert reader.told[2] == ("configmap:default/agent: there is no such object", ())
        assert (reader.count, reader.config.loads) == (2, 2)
        await server.put_map(config=count(6))
        await wait_until(lambda: reader.count == 6, "the new object")


async def test_the_only_kubevirt_object_is_found_and_served_beside(
    server: AgentServer, tmp_path: Path
) -> None:
    await server.define()
    ours = {
        "pciVendorSelector": "10de:1eb8",
        "resourceName": "nvidia.com/ours",
        "externalResourceProvider": True,
    }
    theirs = {"pciVendorSelector": "10de:20b0", "resourceName": "nvidia.com/theirs"}
    await server.put_kubevirt({"permittedHostDevices": {"pciHostDevices": [ours, theirs]}})
    async with reading(server, tmp_path, "kubevirt:") as reader:
        await wait_until(lambda: reader.last != Served(), "the object")
        assert [rule.resource for rule in reader.last.pci] == ["nvidia.com/ours"]
        assert reader.last.generic == () and reader.last.mdev_types == MdevTypes(managed=False)
        loads = reader.config.loads
        await server.put_kubevirt({"permittedHostDevices": {"pciHostDevices": [theirs]}})
        await wait_until(lambda: reader.last.pci == (), "an entry that is KubeVirt's alone")
        await server.put_kubevirt({"permittedHostDevices": {"pciHostDevices": [ours | {"resourceName": 7}]}})
        await wait_until(lambda: reader.config.refusals == 1, "the refusal")
        text, about = reader.told[0]
        assert "kubevirt:default/kubevirt: spec.configuration.permittedHostDevices.pciHostDevices[0]" in text
        assert about == ("KubeVirt kubevirt",) and reader.config.loads == loads + 1
        await server.put_kubevirt({}, "second")
        await wait_until(lambda: reader.config.refusals == 2, "the second object")
        assert "there are several, name one of default/kubevirt, default/second" in reader.told[1][0]


async def test_additions_of_a_kubevirt_object(server: AgentServer, tmp_path: Path) -> None:
    await server.define()
    await server.put_kubevirt({"virtualMachineInstancesPerNode": 5})
    await server.put_map("additions", x="dray: {generic: [{name: fuse, path: /dev/fuse}]}")
    place = ConfigMapPlace(NS, "additions")
    async with reading(server, tmp_path, "kubevirt:default/kubevirt", place) as reader:
        await wait_until(lambda: reader.last.resources == ("dray.internal/fuse",), "the addition")
        await server.put_map("additions", x="dray: {role: replace}")
        await wait_until(lambda: reader.count == 5, "the other role")
        await server.put_map("additions", x="virtualMachineInstancesPerNode: 6")
        await wait_until(lambda: reader.config.refusals == 1, "the refusal")
        assert reader.told[0] == (
            "configmap:default/additions: must be one map with the key `dray` and no other",
            ("KubeVirt kubevirt", "ConfigMap additions"),
        )
        assert reader.count == 5
    file = tmp_path / "additions.yaml"
    file.write_text("dray: {generic: [{name: kvm, path: /dev/kvm}]}")
    async with reading(server, tmp_path, "kubevirt:", file) as reader:
        await wait_until(lambda: reader.last.resources == ("dray.internal/kvm",), "the addition")
        file.write_text("dray: {role: replace}")
        await wait_until(lambda: reader.count == 5, "the edited file")


async def test_while_the_server_is_away_nothing_changes_and_then_it_goes_on(
    server: AgentServer, tmp_path: Path
) -> None:
    await server.put_map(config=count(1))
    async with reading(server, tmp_path) as reader:
        await wait_until(lambda: reader.count == 1, "the first")
        await server.stop()
        await server.start()
        await server.put_map(config=count(2))
        await wait_until(lambda: reader.count == 2, "an edit after a restart of the server")
        assert reader.config.refusals == 0


async def test_the_last_good_one_is_used_after_a_restart(server: AgentServer, tmp_path: Path) -> None:
    await server.put_map(config=count(1))
    async with reading(server, tmp_path) as reader:
        await wait_until(lambda: reader.count == 1, "the first")
    await server.put_map(config="dray: {unit: x}")
    async with reading(server, tmp_path) as reader:
        await wait_until(lambda: reader.config.refusals == 1, "the refusal")
        assert reader.count == 1
    await server.stop()
    async with reading(server, tmp_path) as reader:
        await wait_until(lambda: reader.count == 1, "the last good one")
        assert reader.config.refusals == 0 and reader.told == []
        await server.start()
        await wait_until(lambda: reader.config.refusals == 1, "the bad edit")
        await server.put_map(config=count(2))
        await wait_until(lambda: reader.count == 2, "the newest")


async def test_without_a_good_one_the_reason_is_an_error(server: AgentServer, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="configmap:default/agent: there is no such object"):
        async with reading(server, tmp_path) as reader:
            await wait_until(lambda: reader.count == 1, "nothing")
    await server.put_map(config="dray: {unit: x}")
    with pytest.raises(InvalidError, match=r"dray\.unit"):
        async with reading(server, tmp_path) as reader:
            await wait_until(lambda: reader.count == 1, "nothing")
    assert [about for _, about in reader.told] == [("ConfigMap agent",)]
    with pytest.raises(NotFoundError, match="kubevirt: there is no such object"):
        async with reading(server, tmp_path, "kubevirt:") as reader:
            await wait_until(lambda: reader.count == 1, "nothing")
    await server.stop()
    with pytest.raises(UnavailableError, match="cannot connect"):
        async with reading(server, tmp_path):
            pytest.fail("nobody answers")
    await server.start()


async def test_the_text_of_another_place_is_not_used(server: AgentServer, tmp_path: Path) -> None:
    await server.put_map(config=count(1))
    async with reading(server, tmp_path) as reader:
        await wait_until(lambda: reader.count == 1, "the first")
    with pytest.raises(NotFoundError):
        async with reading(server, tmp_path, "configmap:default/other") as reader:
            await wait_until(lambda: reader.count == 1, "nothing")


async def test_additions_are_for_kubevirt_objects(server: AgentServer, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="--additions"):
        async with reading(server, tmp_path, MAP, Path("x")):
            pytest.fail("a ConfigMap has room for them")


async def test_after_any_story_the_newest_good_text_counts(server: AgentServer, tmp_path: Path) -> None:
    """Good and bad edits, deletions, outages and restarts in random order; an agent may be down while things change."""
    dice, good, is_up = seeded(7), 1, True
    await server.put_map(config=count(good))
    for _ in range(campaign(6, 300)):
        async with reading(server, tmp_path) as reader:
            await wait_until(lambda: reader.count > 0, "something to serve")
            for _ in range(dice.randrange(4)):
                step = dice.choice(("good", "good", "bad", "gone", "away"))
                if step == "away":
                    await (server.stop() if is_up else server.start())
                    is_up = not is_up
                elif step == "gone":
                    with contextlib.suppress(NotFoundError):
                        await server.client.delete(CONFIG_MAPS, "agent", namespace=NS)
                else:
                    good += step == "good"
                    await server.put_map(config=count(good) if step == "good" else "dray: {unit: x}")
            if not is_up:
                await server.start()
                is_up = True
            good += 1
            await server.put_map(config=count(good))
            await wait_until(lambda: reader.count == good, f"{good}")  # noqa: B023  awaited here
        if dice.random() < 0.5:
            await server.put_map(config="nonsense: [")
