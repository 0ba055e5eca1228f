"""What simulated devices do right before a container starts: reset, fail or hang, as the config says."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.drivers.contract import Device
from dray.drivers.sim.config import Action, SimConfig, SimPreStart
from dray.errors import HardwareError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("drivers.sim")


@dataclass(slots=True)
class Record:
    """What happened to the devices since `started`, on the clock's `monotonic`. It outlives a change of the config.

    `begun` counts what failed or was cancelled too, for each script by itself.
    """

    started: float
    begun: Counter[tuple[str, SimPreStart]] = field(default_factory=Counter)
    resets: Counter[str] = field(default_factory=Counter)


async def pre_start(config: SimConfig, devices: Sequence[Device], record: Record, clock: Clock) -> None:
    """All devices of one container at once: the slowest counts, and a hang counts more than a failure."""
    due = {device: script for device in _ids(devices) if (script := _script(config, device, record))}
    record.begun.update(due.items())
    if hanging := _with(due, Action.HANG):
        _log.warning("simulated hang", devices=",".join(hanging))
        await asyncio.Event().wait()
    if due:
        await clock.sleep(max(script.seconds for script in due.values()))
    if done := _with(due, Action.RESET):
        record.resets.update(done)
        _log.info("simulated reset", devices=",".join(done))
    if failed := _with(due, Action.FAIL):
        raise HardwareError(
            f"simulated failure to reset {', '.join(failed)}: the config's preStart says so", device=failed[0]
        )


def _ids(devices: Sequence[Device]) -> list[str]:
    return list(dict.fromkeys(device.id for device in devices))


def _with(due: dict[str, SimPreStart], action: Action) -> list[str]:
    return [device for device, script in due.items() if script.action == action]


def _script(config: SimConfig, device: str, record: Record) -> SimPreStart | None:
    """What is to happen to a device this time."""
    script = next((entry.pre_start for entry in config.devices if entry.has(device)), None)
    if script is None or script.device not in ("", device):
        return None
    return script if script.times is None or record.begun[device, script] < script.times else None
