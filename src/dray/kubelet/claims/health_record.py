"""How the devices of drivers are, as their endpoints tell, and the file `dra_health_state` of a kubelet. Pure but for time.

Each endpoint of a driver has its own list, so that the old one's end does not wipe what the new one said; the newest
word about a device counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import msgspec

from dray.errors import InvalidError

HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"
DEFAULT_TIMEOUT = 30.0
MOST_DEVICES = 16384
"""Of one driver; a longer list is cut."""
MESSAGE_BYTES = 1024
RESTORED = ""
"""Stands for the endpoint of what was read from the disk."""
DeviceKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The last word about one device, and how many seconds it holds."""

    pool: str
    device: str
    health: str
    updated: datetime
    timeout: float = DEFAULT_TIMEOUT
    message: str = ""

    @property
    def key(self) -> DeviceKey:
        """Which device of its driver."""
        return (self.pool, self.device)

    def at(self, now: datetime) -> DeviceHealth:
        """As it is to be shown: too old a word is none."""
        if now - self.updated <= timedelta(seconds=self.timeout or DEFAULT_TIMEOUT):
            return self
        return replace(self, health=UNKNOWN, message="")


class HealthRecord:
    """Driver, endpoint, device: the last words of all."""

    def __init__(self, restored: Mapping[str, Iterable[DeviceHealth]] | None = None) -> None:
        self._lists: dict[str, dict[str, dict[DeviceKey, DeviceHealth]]] = {
            driver: {RESTORED: {one.key: one for one in devices}}
            for driver, devices in (restored or {}).items()
        }

    def get(self, driver: str, pool: str, device: str, now: datetime) -> DeviceHealth:
        """How a device is now; Unknown where nobody said anything, or not lately."""
        said = self._newest(driver).get((pool, device))
        return said.at(now) if said is not None else DeviceHealth(pool, device, UNKNOWN, now)

    def update(
        self, driver: str, endpoint: str, devices: Iterable[DeviceHealth], now: datetime
    ) -> frozenset[DeviceKey]:
        """An endpoint's new list; gives the devices that are to be shown differently now.

        A device that is not listed any more keeps its last word until that is too old.
        """
        before = self._shown(driver, now)
        mine = self._lists.setdefault(driver, {}).setdefault(endpoint, {})
        listed = {one.key: replace(one, updated=now) for one in devices}
        kept = {key: one for key, one in mine.items() if one.at(now) is one}
        merged = {**listed, **{key: one for key, one in kept.items() if key not in listed}}
        self._lists[driver][endpoint] = dict(list(merged.items())[:MOST_DEVICES])
        return _differing(before, self._shown(driver, now))

    def clear(self, driver: str, endpoint: str, now: datetime) -> frozenset[DeviceKey]:
        """An endpoint tells nothing any more; with the last one goes what was read from the disk."""
        before = self._shown(driver, now)
        lists = self._lists.get(driver, {})
        lists.pop(endpoint, None)
        if set(lists) <= {RESTORED}:
            self._lists.pop(driver, None)
        return _differing(before, self._shown(driver, now))

    def encode(self) -> bytes:
        """The file."""
        rows = {
            driver: _Driver(
                {f"{one.pool}/{one.device}": _to_row(one) for one in self._newest(driver).values()}
            )
            for driver in self._lists
        }
        return msgspec.json.encode(rows, order="deterministic")

    def _newest(self, driver: str) -> dict[DeviceKey, DeviceHealth]:
        newest: dict[DeviceKey, DeviceHealth] = {}
        for devices in self._lists.get(driver, {}).values():
            for key, one in devices.items():
                if key not in newest or newest[key].updated <= one.updated:
                    newest[key] = one
        return newest

    def _shown(self, driver: str, now: datetime) -> dict[DeviceKey, tuple[str, str, float]]:
        shown = {key: one.at(now) for key, one in self._newest(driver).items()}
        return {key: (one.health, one.message, one.timeout) for key, one in shown.items()}


def cut(message: str) -> str:
    """As long as a pod's status allows, in bytes, never through the middle of a character."""
    data = message.encode("utf-8", "replace")
    if len(data) <= MESSAGE_BYTES:
        return message
    return data[: MESSAGE_BYTES - 3].decode("utf-8", "ignore") + "..."


def decode(content: bytes) -> HealthRecord:
    """What the file holds; InvalidError where it cannot be read."""
    try:
        rows = msgspec.json.decode(content, type=dict[str, _Driver] | None) or {}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidError(f"it cannot be read: {error}") from error
    return HealthRecord(
        {driver: [_from_row(row) for row in (rows[driver].devices or {}).values()] for driver in rows}
    )


class _Device(msgspec.Struct, frozen=True, rename="pascal"):
    pool_name: str = ""
    device_name: str = ""
    health: str = UNKNOWN
    last_updated: datetime = datetime(1, 1, 1, tzinfo=UTC)
    health_check_timeout: int = 0
    message: str = ""


class _Driver(msgspec.Struct, frozen=True, rename="pascal"):
    devices: dict[str, _Device] | None = None


def _to_row(one: DeviceHealth) -> _Device:
    return _Device(
        one.pool, one.device, one.health, one.updated, int(one.timeout * 1_000_000_000), one.message
    )


def _from_row(row: _Device) -> DeviceHealth:
    timeout = row.health_check_timeout / 1_000_000_000
    updated = row.last_updated if row.last_updated.tzinfo else row.last_updated.replace(tzinfo=UTC)
    return DeviceHealth(row.pool_name, row.device_name, row.health, updated, timeout, row.message)


def _differing(
    before: Mapping[DeviceKey, tuple[str, str, float]], after: Mapping[DeviceKey, tuple[str, str, float]]
) -> frozenset[DeviceKey]:
    return frozenset(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
