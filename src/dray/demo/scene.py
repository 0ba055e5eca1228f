"""What all acts of a demonstration stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.core import Pod
from dray.api.kinds import PODS
from dray.client.client import Client
from dray.demo.journal import Journal
from dray.demo.pods import NAMESPACE, Json, is_running, read_output
from dray.demo.story import Story
from dray.runtime.clock import Clock
from dray.up.place import RunningUp, UpPlace

USER, ADMIN, AGENT, KUBELET = "user", "admin", "agent", "kubelet"
SCHEDULER, CONTROLLER, DRIVER = "scheduler", "controllers", "driver"
_MEANS: Final = {
    "process": "a plain process of this machine: no device nodes, and nothing is isolated",
    "runc": "a real container: processes, files and devices of its own",
}


@dataclass(frozen=True, slots=True)
class Scene:
    """The running stack, who watches it and who tells."""

    up: RunningUp
    place: UpPlace
    client: Client
    journal: Journal
    story: Story
    clock: Clock

    async def create(self, document: Json) -> float:
        """Create a pod; when that was done."""
        await self.client.create(PODS, document, namespace=NAMESPACE)
        return self.clock.monotonic()

    async def bound(self, name: str) -> tuple[Pod, float]:
        """The pod once it has a node."""
        return await self.journal.first(
            PODS, lambda one: one.metadata.name == name and one.spec.node_name, f"a node for pod {name}"
        )

    async def started(self, name: str) -> None:
        """Tell that the container runs, and what it says."""
        pod, at = await self.journal.first(
            PODS, lambda one: one.metadata.name == name and is_running(one), f"the start of pod {name}"
        )
        container = pod.status.container_statuses[0].container_id.rpartition("/")[2]
        self.story.step(
            KUBELET,
            f"started the container of pod {name} ({container[:12]})",
            _MEANS.get(self.up.runtime, f"run by {self.up.runtime}"),
            at=at,
        )
        self.story.output(name, await read_output(self.client, name))

    async def delete(self, name: str) -> None:
        """Delete a pod, and tell it."""
        await self.client.delete(PODS, name, namespace=NAMESPACE)
        self.story.step(USER, f"deleted pod {name}", at=self.clock.monotonic())
