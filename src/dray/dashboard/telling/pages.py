"""The answers themselves, by question: what each address of the API tells. Knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dray.dashboard.fleet.devices import details
from dray.dashboard.fleet.fleet import Fleet
from dray.dashboard.fleet.model import DeviceId, DeviceView, json
from dray.dashboard.fleet.nodes import node_details
from dray.dashboard.fleet.workloads import key_of
from dray.dashboard.telling.explanations import Questions
from dray.dashboard.telling.rows import Filter, Found, claim_rows, event_row, pod_rows
from dray.dashboard.telling.story import Sources, story
from dray.dashboard.telling.topology import topology
from dray.errors import NotFoundError
from dray.runtime.clock import Clock

Query = Mapping[str, str]


class Pages:
    """Each gives JSON, as bytes or as what becomes it, or raises the error to tell."""

    def __init__(self, fleet: Fleet, questions: Questions, clock: Clock) -> None:
        self._fleet = fleet
        self._questions = questions
        self._clock = clock

    async def fleet(self, query: Query) -> bytes:
        """All nodes with all devices, each node as it was encoded when it changed."""
        fleet = self._fleet
        fleet.picture.settle()
        lag = None if fleet.lag is None else {"since": fleet.lag.since, "reason": fleet.lag.reason}
        return json(
            {
                "revision": fleet.log.revision(),
                "time": self._clock.now(),
                "server": {"address": fleet.server, "version": fleet.version.git_version},
                "notes": fleet.notes,
                "lag": lag,
                "summary": fleet.picture.summary(),
                "nodes": [fleet.picture.encoded(name) for name in fleet.picture.names()],
            }
        )

    async def node(self, name: str, query: Query) -> dict[str, Any]:
        """One node, with all that is known about its devices."""
        self._fleet.picture.settle()
        view = self._fleet.picture.view(name)
        if view is None:
            raise NotFoundError(f"there is no node {name}", kind="Node", name=name)
        node = self._fleet.picture.nodes.get(name)
        return {
            **msgspec.to_builtins(view),
            **(node_details(node) if node is not None else {}),
            "devices": [self._with_details(one) for one in view.devices],
            "topology": topology(view.devices),
            "revision": self._fleet.log.revision(),
        }

    async def device(self, driver: str, pool: str, name: str, query: Query) -> dict[str, Any]:
        """One device and its story."""
        picture = self._fleet.picture
        picture.settle()
        key = DeviceId(driver, pool, name)
        found = picture.device(key)
        if found is None:
            raise NotFoundError(f"there is no device {key}", kind="Device", name=str(key))
        view, offered = found
        claims = (picture.claims.get(key_of(holder.claim)) for holder in view.holders if holder.claim)
        moments, notes = story(
            Sources(
                view,
                offered,
                [one for one in claims if one is not None],
                self._fleet.events.told_on(view.node),
                self._fleet.past.of(key),
            )
        )
        return {"device": self._with_details(view), "story": moments, "notes": notes}

    async def claims(self, query: Query) -> dict[str, Any]:
        """Claims in a list."""
        return self._list(claim_rows(self._fleet.picture, Filter.of(query), self._clock.now()))

    async def pods(self, query: Query) -> dict[str, Any]:
        """Pods that ask for devices."""
        return self._list(pod_rows(self._fleet.picture, Filter.of(query), self._clock.now()))

    async def events(self, query: Query) -> dict[str, Any]:
        """The last events, newest first."""
        found = self._fleet.events.newest(Filter.of(query).limit)
        return {"rows": [event_row(one) for one in found], "revision": self._fleet.log.revision()}

    async def explain(self, query: Query) -> dict[str, Any]:
        """Why a claim or a pod does not fit."""
        return await self._questions.explain(claim=query.get("claim", ""), pod=query.get("pod", ""))

    async def what_if(self, body: bytes) -> dict[str, Any]:
        """How many more of these claims fit."""
        return await self._questions.what_if(body)

    def _list(self, found: Found[Any]) -> dict[str, Any]:
        revision = self._fleet.log.revision()
        return {"total": found.total, "states": found.states, "rows": found.rows, "revision": revision}

    def _with_details(self, view: DeviceView) -> dict[str, Any]:
        offered = self._fleet.picture.device(DeviceId.parse(view.id))
        devices = offered[1].spec.devices if offered is not None else ()
        device = next((one for one in devices or () if one.name == view.name), None)
        return {**msgspec.to_builtins(view), **(details(device) if device is not None else {})}
