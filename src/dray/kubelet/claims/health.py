"""Watch the devices' health at every endpoint that tells it, and say which pods are touched by a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from dray.errors import Error
from dray.kubelet.claims.cache import ClaimCache
from dray.kubelet.claims.endpoint import DriverEndpoint
from dray.kubelet.claims.health_record import (
    DEFAULT_TIMEOUT,
    HEALTHY,
    MOST_DEVICES,
    UNHEALTHY,
    UNKNOWN,
    DeviceHealth,
    DeviceKey,
    HealthRecord,
    cut,
    decode,
)
from dray.kubelet.newest import Newest
from dray.kubelet.turns import Pace
from dray.runtime.clock import Clock
from dray.runtime.files.durable import put_in_place
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.wire.gen import dra_health_v1_pb2 as pb
from dray.wire.health import health_client
from dray.wire.status import Code, status_of
from dray.wire.transport.room import SMALL

FILE_NAME = "dra_health_state"
RETRY_SECONDS = 5.0
LONGEST_NAME = 253
"""Of a pool or device: no claim can name one that is longer."""
LONGEST_TIMEOUT = 2**33
"""Seconds; the wire has room for more than a date can be away, and the file counts nanoseconds."""
_READ_PAUSE = 2e-6
_log = get_log("kubelet.claims.health")
_WORDS = {pb.HealthStatus.HEALTHY: HEALTHY, pb.HealthStatus.UNHEALTHY: UNHEALTHY}


class HealthWatch:
    """`pods_changed` gets the uids of pods whose status is to be written again. `load` once, then `follow` each endpoint."""

    def __init__(
        self, path: Path, cache: ClaimCache, clock: Clock, pods_changed: Callable[[frozenset[str]], None]
    ) -> None:
        self._path = path
        self._cache = cache
        self._clock = clock
        self._pods_changed = pods_changed
        self._record = HealthRecord()
        self._pace = Pace()

    def load(self) -> None:
        """What was known before a restart; a file that cannot be used is told and forgotten, it is only health."""
        try:
            self._record = decode(self._path.read_bytes())
        except FileNotFoundError:
            pass
        except (Error, OSError) as error:
            _log.warning("health of devices is unknown until told again", path=self._path, error=str(error))

    def get(self, driver: str, pool: str, device: str) -> DeviceHealth:
        """How a device is now."""
        return self._record.get(driver, pool, device, self._clock.now())

    async def follow(self, endpoint: DriverEndpoint) -> None:
        """Read the endpoint's stream, again whenever it ended; until cancelled, or it turns out that there is none."""
        while True:
            try:
                await self._read(endpoint)
                _log.info("health stream ended", driver=endpoint.driver, endpoint=endpoint.path)
            except Error as error:
                if (status := status_of(error)) is not None and status.code is Code.UNIMPLEMENTED:
                    _log.warning("driver names a health service it lacks", driver=endpoint.driver)
                    return
                _log.info("health stream failed", driver=endpoint.driver, error=str(error))
            finally:
                self._clear(endpoint)
            await self._clock.sleep(RETRY_SECONDS)

    async def _read(self, endpoint: DriverEndpoint) -> None:
        """Where lists come faster than they can be taken in, only the newest is."""
        client = health_client(endpoint.channel, endpoint.health)
        newest = Newest[pb.NodeWatchResourcesResponse](lambda answer: self._take(endpoint, answer))
        try:
            async with (
                running(newest.run(self._pace, endpoint.path), name=f"health of {endpoint.driver}"),
                client.node_watch_resources(pb.NodeWatchResourcesRequest()) as answers,
            ):
                async for answer in answers:
                    newest.put(answer)
                    await asyncio.sleep(len(answer.devices) * _READ_PAUSE)
                    if answer.ByteSize() > SMALL:
                        await newest.wait_taken()
                    del answer  # the next one may be long in coming
        finally:
            newest.flush()

    def _take(self, endpoint: DriverEndpoint, answer: pb.NodeWatchResourcesResponse) -> None:
        sane = (device for device in answer.devices if _is_sane(device.device))
        devices = [self._told(device) for device in islice(sane, MOST_DEVICES)]
        changed = self._record.update(endpoint.driver, endpoint.path, devices, self._clock.now())
        self._tell(endpoint.driver, changed)

    def _told(self, device: pb.DeviceHealth) -> DeviceHealth:
        """The time is ours: the driver's clock is not looked at."""
        seconds = device.health_check_timeout_seconds
        return DeviceHealth(
            device.device.pool_name,
            device.device.device_name,
            _WORDS.get(device.health, UNKNOWN),
            self._clock.now(),
            float(min(seconds, LONGEST_TIMEOUT)) if seconds > 0 else DEFAULT_TIMEOUT,
            cut(device.message),
        )

    def _clear(self, endpoint: DriverEndpoint) -> None:
        self._tell(endpoint.driver, self._record.clear(endpoint.driver, endpoint.path, self._clock.now()))

    def _tell(self, driver: str, changed: frozenset[DeviceKey]) -> None:
        if not changed:
            return
        self._save()
        pods = frozenset(self._users(driver, changed))
        if pods:
            self._pods_changed(pods)

    def _users(self, driver: str, changed: frozenset[DeviceKey]) -> Iterable[str]:
        for claim in self._cache.claims():
            if any((device.pool, device.name) in changed for device in claim.drivers.get(driver, ())):
                yield from claim.pods

    def _save(self) -> None:
        """Whole or not at all, but not synced: after a power cut nobody needs it, and a driver may tell often."""
        hidden = str(self._path.with_name(f".{self._path.name}.tmp"))
        data = self._record.encode()
        try:
            put_in_place(None, str(self._path), data, mode=0o600, temporary=hidden, is_synced=False)
        except OSError as error:
            _log.warning("health of devices is not kept", path=self._path, error=str(error))


def _is_sane(device: pb.DeviceIdentifier) -> bool:
    return len(device.pool_name) <= LONGEST_NAME and len(device.device_name) <= LONGEST_NAME
