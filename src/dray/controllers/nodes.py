"""Marks nodes whose kubelet fell silent: conditions Unknown, and taints that keep pods away and drive them out.

A node lives as long as its Lease (or its status) changes. What counts is when the change was seen here, by a clock that
cannot jump; times written by the node are never compared with ours. Time in which the API server was away does not
count against anybody.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from dray.api.codec import to_raw
from dray.api.core import Lease, Node
from dray.api.core.node import NodeCondition
from dray.api.kinds import LEASES, NODES
from dray.api.meta import format_time
from dray.api.taints import Effect, Taint
from dray.client.client import Client
from dray.client.requests import Selection, WriteOptions
from dray.controllers.pictures import Surroundings
from dray.errors import ConflictError, Error, NotFoundError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

_log = get_log("controllers.nodes")
NAME: Final = "node-lifecycle-controller"
_MANAGER: Final = "node-lifecycle"
LEASE_NAMESPACE: Final = "kube-node-lease"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
NOT_READY: Final = "node.kubernetes.io/not-ready"
_WATCHED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_EFFECTS: Final = (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Seconds: how long a node may be silent, and how often that is looked at."""

    grace: float = 40.0
    period: float = 5.0


class Heartbeat(msgspec.Struct, frozen=True):
    """The last sign of life: what the node wrote, and when (monotonic) it was first seen here."""

    sign: tuple[str, str]
    since: float


class NodePlan(msgspec.Struct, frozen=True):
    """Whole new lists to write; None where the list is right as it is."""

    conditions: tuple[NodeCondition, ...] | None = None
    taints: tuple[Taint, ...] | None = None


def heartbeat(before: Heartbeat | None, node: Node, lease: Lease | None, now: float) -> Heartbeat:
    """The heartbeat as of now: a new one where the lease or the node's own status changed."""
    renewed = lease.spec.renew_time if lease is not None else None
    ready = _condition(node, "Ready")
    posted = ready.last_heartbeat_time if ready is not None else None
    sign = (renewed or "", format_time(posted) if posted is not None else "")
    return before if before is not None and before.sign == sign else Heartbeat(sign, now)


def plan_node(node: Node, *, is_silent: bool, now: datetime) -> NodePlan:
    """Conditions of a silent node become Unknown; the taints follow the condition Ready, and go when it is True again."""
    conditions = _silenced(node, now) if is_silent else node.status.conditions
    ready = next(
        (one.status for one in conditions if one.type == "Ready"), "Unknown" if is_silent else "True"
    )
    key = {"True": "", "False": NOT_READY}.get(ready, UNREACHABLE)
    taints = _tainted(node.spec.taints, key, now)
    return NodePlan(
        None if conditions == node.status.conditions else conditions,
        None if taints == node.spec.taints else taints,
    )


def _silenced(node: Node, now: datetime) -> tuple[NodeCondition, ...]:
    moment = now.replace(microsecond=0)
    conditions = [
        msgspec.structs.replace(
            one,
            status="Unknown",
            reason="NodeStatusUnknown",
            message="Kubelet stopped posting node status.",
            last_transition_time=moment,
        )
        if one.type in _WATCHED and one.status != "Unknown"
        else one
        for one in node.status.conditions
    ]
    for kind in _WATCHED:
        if _condition(node, kind) is None:
            never = NodeCondition(
                type=kind,
                status="Unknown",
                reason="NodeStatusNeverUpdated",
                message="Kubelet never posted node status.",
                last_heartbeat_time=node.metadata.creation_timestamp,
                last_transition_time=moment,
            )
            conditions.append(never)
    return tuple(conditions)


def _tainted(taints: tuple[Taint, ...], key: str, now: datetime) -> tuple[Taint, ...]:
    """With the two taints of `key`, the time of one that is there kept, and without those of the other key."""
    kept = [
        one
        for one in taints
        if one.key not in (UNREACHABLE, NOT_READY) or (one.key == key and one.effect in _EFFECTS)
    ]
    there = {(one.key, one.effect) for one in kept}
    moment = now.replace(microsecond=0)
    lacking = [effect.value for effect in _EFFECTS if key and (key, effect) not in there]
    return (*kept, *(Taint(key=key, effect=effect, time_added=moment) for effect in lacking))


def _condition(node: Node, kind: str) -> NodeCondition | None:
    return next((one for one in node.status.conditions if one.type == kind), None)


class NodeController:
    """Made by `node_controller`; `passes` counts the finished looks at all nodes."""

    def __init__(self, around: Surroundings, config: NodeConfig) -> None:
        self.passes = 0
        self.nodes = around.pictures.of(NODES)
        self.leases = around.pictures.of(LEASES, Selection(LEASE_NAMESPACE))
        self._client, self._config, self._clock = around.client, config, around.clock
        self._beats: dict[str, Heartbeat] = {}
        # Apart from those of the pictures: where a watch is stuck, old and new signs would take turns and never grow old.
        self._live_beats: dict[str, Heartbeat] = {}

    async def run(self) -> None:
        """Until cancelled; both pictures must be entered."""
        while True:
            nodes = sorted(self.nodes.values(), key=lambda node: node.metadata.name)
            self._beats = {one.metadata.name: self._beat(one) for one in nodes}
            self._live_beats = {name: one for name, one in self._live_beats.items() if name in self._beats}
            if await self._is_served():
                for node in nodes:
                    await self._judge(node)
            else:
                self._forgive()
            self.passes += 1
            await self._clock.sleep(self._config.period)

    async def _is_served(self) -> bool:
        """Whether the API server answers, and soon: the client itself tries again for a while."""
        started = self._clock.monotonic()
        try:
            await self._client.check_ready()
        except UnavailableError:
            return False
        return self._clock.monotonic() - started < self._config.grace / 4

    def _beat(self, node: Node) -> Heartbeat:
        name = node.metadata.name
        lease = self.leases.get(name, LEASE_NAMESPACE)
        return heartbeat(self._beats.get(name), node, lease, self._clock.monotonic())

    async def _judge(self, node: Node) -> None:
        try:
            is_silent = self._is_late(self._beats[node.metadata.name]) and await self._is_silent(node)
            plan = plan_node(node, is_silent=is_silent, now=self._clock.now())
            await self._write(node, plan)
        except UnavailableError:
            self._forgive()
        except (ConflictError, NotFoundError):
            return  # it changed: the next pass sees how
        except Error as error:
            _log.warning("node not updated", node=node.metadata.name, error=str(error))

    def _is_late(self, beat: Heartbeat) -> bool:
        return self._clock.monotonic() - beat.since > self._config.grace

    async def _is_silent(self, node: Node) -> bool:
        """Asked live: a watch that was cut must not look like a node that died."""
        name = node.metadata.name
        try:
            lease = await self._client.get(LEASES, name, namespace=LEASE_NAMESPACE)
        except NotFoundError:
            lease = None
        fresh = await self._client.get(NODES, name)
        seen, now = self._beats[name], self._clock.monotonic()
        beat = heartbeat(seen, fresh, lease, now)
        if beat is not seen:
            beat = self._live_beats[name] = heartbeat(self._live_beats.get(name), fresh, lease, now)
        return self._is_late(beat)

    def _forgive(self) -> None:
        """The API server is away: nobody can renew anything, so everybody's time starts anew."""
        now = self._clock.monotonic()
        self._beats = {name: Heartbeat(one.sign, now) for name, one in self._beats.items()}
        self._live_beats = {name: Heartbeat(one.sign, now) for name, one in self._live_beats.items()}

    async def _write(self, node: Node, plan: NodePlan) -> None:
        version = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
        options = WriteOptions(field_manager=_MANAGER)
        if plan.conditions is not None:
            change: dict[str, Any] = {"status": {"conditions": [to_raw(one) for one in plan.conditions]}}
            _log.warning("node is silent", node=node.metadata.name, silent_s=self._config.grace)
            written = await self._client.patch(
                NODES,
                node.metadata.name,
                {"metadata": version, **change},
                subresource="status",
                options=options,
            )
            version["resourceVersion"] = written.metadata.resource_version
        if plan.taints is not None:
            change = {"spec": {"taints": [to_raw(one) for one in plan.taints] or None}}
            await self._client.patch(
                NODES, node.metadata.name, {"metadata": version, **change}, options=options
            )


@asynccontextmanager
async def node_controller(
    client: Client, config: NodeConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[NodeController]:
    """Runs while entered. Entered: the pictures are there."""
    around = Surroundings.of(client, clock)
    controller = NodeController(around, config or NodeConfig())
    async with around.pictures, running(controller.run(), name=NAME):
        yield controller
