"""What the machine has, as the agent's configuration file: written at the start, and again when a device is new."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from dray.agent.discovery import discover
from dray.api.codec import to_raw
from dray.drivers.contract import Device
from dray.drivers.sim.profile import SimProfile
from dray.errors import Error
from dray.runtime.clock import Clock
from dray.runtime.files.durable import make_directory, write_durably
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.up.config import usable_config
from dray.up.place import UpPlace

_log = get_log("up")

LOOK_SECONDS: Final = 5.0


@dataclass
class MachineConfig:
    """The file of one `dray up`. What was found once stays in it until the next start: who looks after devices that come
    and go is the agent, and one that a pod has must not be taken out of its hands."""

    place: UpPlace
    host_root: str
    profile: SimProfile
    _found: dict[str, Device] | None = None

    def write(self) -> Path:
        """Blocking. The file is replaced where something is new, or at the first call."""
        path = self.place.agent_config
        fresh = {one.id: one for one in discover(self.host_root).devices}
        if self._found is not None and fresh.keys() <= self._found.keys():
            return path
        found = fresh | (self._found or {})
        sim = to_raw(self.profile.local) if self.profile.local.devices else None
        text = usable_config(tuple(found.values()), sim)
        try:
            make_directory(path.parent)
            write_durably(path, text.encode())
        except OSError as error:
            raise from_os_error(error, "write", str(path)) from error
        self._found = found
        return path

    async def run(self, clock: Clock) -> NoReturn:
        """Look again and again; a disk that is full now may not be so later."""
        while True:
            await clock.sleep(LOOK_SECONDS)
            try:
                await asyncio.to_thread(self.write)
            except Error as error:
                _log.warning("new devices are not offered yet", error=str(error))
