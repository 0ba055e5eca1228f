from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.processes.agent import AgentOptions, run_agent
from dray.runtime.tasks import running
from tests.drivers.machine import Machine, build
from tests.small_kubelet import SmallKubelet
from tests.waiting import PATIENCE, wait_until


@dataclass
class Node:
    """A machine with something of every kind, a small kubelet, and a config file for the agent."""

    path: Path
    machine: Machine
    kubelet: SmallKubelet
    options: AgentOptions = field(init=False)

    def __post_init__(self) -> None:
        self.kubelet.directory.mkdir(parents=True)
        self.options = AgentOptions(
            config=self.config,
            kubelet_dir=self.kubelet.directory.parent,
            device_plugin_dir=self.kubelet.directory,
            state_dir=self.path / "state",
            host_root=str(self.machine.host.root),
        )

    @property
    def config(self) -> Path:
        """The file."""
        return self.path / "agent.yaml"

    def configure(self, text: str) -> None:
        """Replace the config file as an editor does."""
        fresh = self.config.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.config)

    @asynccontextmanager
    async def agent(self, config: str = "") -> AsyncIterator[SmallKubelet]:
        if config:
            self.configure(config)
        async with running(run_agent(self.options), name="agent"):
            yield self.kubelet

    @asynccontextmanager
    async def serving(self, config: str) -> AsyncIterator[SmallKubelet]:
        """The kubelet and the agent, whose every resource is listed."""
        async with self.kubelet.running(), self.agent(config):
            yield self.kubelet

    async def wait(self, condition: Callable[[], bool], what: str, limit: float = PATIENCE) -> None:
        await wait_until(condition, what, lambda: f"the kubelet has {self.kubelet.lists}", limit)

    async def wait_list(self, resource: str, wanted: dict[str, str]) -> None:
        await self.wait(
            lambda: dict(self.kubelet.lists.get(resource, [("never", "listed")])) == wanted,
            f"{resource} to be {wanted}",
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, build(tmp_path / "host"), SmallKubelet(tmp_path / "kubelet" / "device-plugins"))
