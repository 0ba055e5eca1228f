"""The rules of who may hold what, in memory. Pure: no file, no socket; time is passed in.

There are two doors. Through the plugin's the kubelet says who has a device, and nobody says when it is given back; so a
hold ends when the kubelet does not list it any more. Through DRA's a claim has a device from its allocation on, is
answered for when it is prepared, and gives it back when it is unprepared and no longer allocated.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import msgspec

from dray.drivers.contract import Device
from dray.errors import ConflictError
from dray.inventory.handouts import UNTOLD

LOOKS: Final = 2
"""How often in a row the kubelet must leave out a device before it counts as given back."""


class Door(StrEnum):
    """How a device gets to a container."""

    PLUGIN = "plugin"
    DRA = "dra"


Way = tuple[Door, str]
"""A door, and the kind as which something is given through it."""
Key = tuple[str, str, str, str]
Listed = tuple[str, str]
"""Resource and id, as the kubelet names a device of a plugin."""


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device that somebody has through one door; `parts` are those of the moment when it was given.

    `owner` is the claim, or the pod once the kubelet has told of it, as `namespace/name`. `confirmed`: the kubelet listed
    it, or the claim is prepared; before that it was just given, or is allocated only. `since` is wall-clock time.
    """

    door: Door
    kind: str
    device: str
    parts: tuple[str, ...]
    resource: str = ""
    owner: str = ""
    uid: str = ""
    since: float = 0.0
    confirmed: bool = False

    @property
    def key(self) -> Key:
        """Who has it through which door: a resource has each device once, a claim too."""
        return self.door.value, self.kind, self.device, self.uid or self.resource

    @property
    def holder(self) -> str:
        """For people."""
        if self.door is Door.DRA:
            return f"claim {self.owner}"
        return f"pod {self.owner}" if self.owner else "a new pod"

    def covers(self, device: Device) -> bool:
        """Whether both are made of the same hardware. What many share is held by nobody."""
        return device.is_exclusive and not set(self.parts).isdisjoint(device.parts)


@dataclass(frozen=True, slots=True)
class ClaimDevices:
    """A claim and those of its devices that it has for itself: none with adminAccess.

    Not `complete`: it has others that are not known here at the moment.
    """

    namespace: str
    name: str
    uid: str
    devices: tuple[Device, ...]
    complete: bool = True


@dataclass(frozen=True, slots=True)
class KubeletLook:
    """What the kubelet says containers of device plugins have, with their pods. It was asked `at` that time, monotonic.

    `lingering` are devices that its own notes still have for a pod that exists: plain init containers are never listed.
    """

    at: float
    listed: Mapping[Listed, tuple[str, ...]] = field(default_factory=dict)
    lingering: frozenset[Listed] = frozenset()


def foreign(hold: Hold, device: Device, door: Door) -> bool:
    """Whether the hold keeps the device from being offered through `door`.

    Holds of the same door and kind are not ours to judge: the kubelet or the scheduler knows them, and partitions of a
    device may be made of it together.
    """
    return hold.covers(device) and (hold.door is not door or hold.kind != device.kind)


@dataclass(slots=True)
class _Watched:
    """A hold of the plugin's door: when the kubelet was answered by this process, and how often it was not listed since."""

    given: float
    missed: int = 0


class Ledger:
    """Who holds what. Each change is whole before the method returns; `holds` is a new value then."""

    def __init__(self, holds: Iterable[Hold] = (), now: float = 0.0) -> None:
        self._holds = {hold.key: hold for hold in holds}
        self._watched = {key: _Watched(now) for key in self._holds if key[0] == Door.PLUGIN}
        self._allocated: frozenset[str] | None = None

    @property
    def holds(self) -> tuple[Hold, ...]:
        """All, sorted."""
        return tuple(self._holds[key] for key in sorted(self._holds))

    def get(self, key: Key) -> Hold | None:
        """One of them."""
        return self._holds.get(key)

    def unsettled(self) -> tuple[Hold, ...]:
        """What the next look of the kubelet may confirm or end."""
        found = (
            self._holds[key]
            for key, one in self._watched.items()
            if one.missed or not self._holds[key].confirmed
        )
        return tuple(found)

    def take_plugin(self, resource: str, devices: Collection[Device], since: float) -> tuple[Hold, ...]:
        """A container is about to get these; what was noted. ConflictError, and nothing noted, where a claim has one.

        They stay at least until `answered` is called.

        A device that the plugin gave before may be given again, as the kubelet knows best who has it, unless a claim
        is prepared with it all the same.
        """
        mine, holds = [device for device in devices if device.is_exclusive], self.holds
        for device in mine:
            before = self._holds.get((Door.PLUGIN.value, device.kind, device.id, resource))
            is_kept = before is not None and set(device.parts) <= set(before.parts)
            for hold in holds:
                if foreign(hold, device, Door.PLUGIN) and (hold.confirmed or not is_kept):
                    raise _in_use(device, hold)
        taken = tuple(_plugin_hold(resource, device, since) for device in mine)
        for hold in taken:
            self._holds[hold.key] = hold
            self._watched[hold.key] = _Watched(math.inf)
        return taken

    def answered(self, taken: Iterable[Hold], now: float) -> None:
        """The kubelet has these from now on, and will tell of them."""
        for hold in taken:
            if hold.key in self._watched:
                self._watched[hold.key] = _Watched(now)

    def take_claim(self, claim: ClaimDevices, since: float) -> tuple[Hold, ...]:
        """A claim is about to be prepared with these. ConflictError, and nothing noted, where somebody else has one.

        Another claim that is only allocated keeps nobody away: else two could wait for each other.
        """
        holds = self.holds
        for device in claim.devices:
            for hold in holds:
                is_others = foreign(hold, device, Door.DRA) and hold.uid != claim.uid
                if is_others and (hold.door is Door.PLUGIN or hold.confirmed):
                    raise _in_use(device, hold)
        return self._prepare(claim, since)

    def adopt(self, holds: Iterable[Hold], now: float) -> None:
        """What another process gave to pods before it ended; what is known here stays."""
        for hold in holds:
            if hold.door is Door.PLUGIN and hold.key not in self._holds:
                self._holds[hold.key] = hold
                self._watched[hold.key] = _Watched(now)

    def restore(self, claim: ClaimDevices, since: float) -> tuple[Hold, ...]:
        """The claim is prepared with these, whoever else is noted for one; what of them was not known."""
        before = set(self._holds)
        return tuple(hold for hold in self._prepare(claim, since) if hold.key not in before)

    def undo(self, noted: Iterable[Hold], before: Mapping[Key, Hold]) -> None:
        """Take back what was noted, where it is still so."""
        for hold in noted:
            if self._holds.get(hold.key) is hold:
                if hold.key in before:
                    self._holds[hold.key] = before[hold.key]
                else:
                    self._drop(hold)

    def give_back(self, kind: str, uid: str) -> None:
        """The claim has nothing of this kind any more. While it is allocated, it may come again."""
        for hold in self._of_claims():
            if hold.uid == uid and hold.kind == kind and hold.confirmed:
                self._holds[hold.key] = msgspec.structs.replace(hold, confirmed=False)
        self._drop_unallocated()

    def allocated(self, claims: Collection[ClaimDevices], since: float) -> None:
        """All claims that have devices of ours now: theirs are kept for them."""
        found = {hold.key: hold for claim in claims for hold in _claim_holds(claim, since)}
        whole = {claim.uid for claim in claims if claim.complete}
        for hold in self._of_claims():
            if not hold.confirmed and hold.uid in whole and hold.key not in found:
                self._drop(hold)
        for key, hold in found.items():
            self._holds.setdefault(key, hold)
        self._allocated = frozenset(claim.uid for claim in claims)
        self._drop_unallocated()

    def looked(
        self, look: KubeletLook, devices: Iterable[Device], since: float, *, is_lost: bool = False
    ) -> tuple[Hold, ...]:
        """The kubelet was asked. What it lists and nobody noted is added, and returned; what it left out long enough goes.

        `devices` are all that there are, and those that had other names. What was given after it was asked stays. Where
        all was lost, what lingers is added too.
        """
        known = {(hold.resource, hold.device): hold for hold in self.holds if hold.door is Door.PLUGIN}
        for listed, hold in known.items():
            if look.at > self._watched[hold.key].given:
                self._judge(hold, look, listed)
        by_name = {(one.resource, one.share_ids[0]): one for one in devices if one.is_exclusive}
        told = look.listed.keys() | (look.lingering if is_lost else set())
        added = [
            msgspec.structs.replace(
                _plugin_hold(listed[0], by_name[listed], since),
                owner=look.listed.get(listed, ("",))[0],
                confirmed=listed in look.listed,
            )
            for listed in sorted(told & by_name.keys() - known.keys())
        ]
        for hold in added:
            self._holds[hold.key] = hold
            self._watched[hold.key] = _Watched(look.at)
        return tuple(added)

    def _judge(self, hold: Hold, look: KubeletLook, listed: Listed) -> None:
        watched, pods = self._watched[hold.key], look.listed.get(listed, ())
        if pods:
            watched.missed = 0
            if hold.owner not in pods or not hold.confirmed:
                self._holds[hold.key] = msgspec.structs.replace(hold, owner=pods[0], confirmed=True)
            return
        watched.missed += 1
        is_over = watched.missed >= LOOKS and look.at - watched.given >= UNTOLD
        if is_over and (hold.confirmed or listed not in look.lingering):
            self._drop(hold)

    def _prepare(self, claim: ClaimDevices, since: float) -> tuple[Hold, ...]:
        taken = []
        for hold in _claim_holds(claim, since):
            before = self._holds.get(hold.key)
            if before is None or not before.confirmed:
                since_then = since if before is None else before.since
                self._holds[hold.key] = msgspec.structs.replace(hold, since=since_then, confirmed=True)
            taken.append(self._holds[hold.key])
        return tuple(taken)

    def _of_claims(self) -> list[Hold]:
        return [hold for hold in self._holds.values() if hold.door is Door.DRA]

    def _drop_unallocated(self) -> None:
        """Before it is known which claims are allocated, nothing goes."""
        if self._allocated is not None:
            for hold in self._of_claims():
                if not hold.confirmed and hold.uid not in self._allocated:
                    self._drop(hold)

    def _drop(self, hold: Hold) -> None:
        del self._holds[hold.key]
        self._watched.pop(hold.key, None)


def _in_use(device: Device, hold: Hold) -> ConflictError:
    return ConflictError(
        f"device {device.id} of {device.resource or device.kind} is in use: {hold.holder} has it"
        f"{_as(hold, device)}; it is free when that has ended"
    )


def _as(hold: Hold, device: Device) -> str:
    """Under which name, where that is not the device's own."""
    if hold.door is Door.PLUGIN:
        return f" as {hold.resource} {hold.device}"
    return f" as {hold.kind} {hold.device}" if hold.kind != device.kind else ""


def _plugin_hold(resource: str, device: Device, since: float) -> Hold:
    return Hold(Door.PLUGIN, device.kind, device.share_ids[0], device.parts, resource=resource, since=since)


def _claim_holds(claim: ClaimDevices, since: float) -> Iterable[Hold]:
    for device in claim.devices:
        if device.is_exclusive:
            owner = f"{claim.namespace}/{claim.name}"
            yield Hold(
                Door.DRA,
                device.kind,
                device.id,
                device.parts,
                resource=device.resource,
                owner=owner,
                uid=claim.uid,
                since=since,
            )
