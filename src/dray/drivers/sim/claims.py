"""What a claim for simulated devices gets: the same as a container of a device plugin, and what its parameters say."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dray.cdi.edits import ContainerEdits, merge
from dray.drivers.contract import Asked, Prepared
from dray.drivers.naming import env_name
from dray.drivers.sim.parameters import SimParameters, joined
from dray.drivers.sim.prepare import prepare
from dray.errors import HardwareError
from dray.hardware.host_root import HostRoot

MODE_PREFIX = "SIM_MODE"
INTERVAL_PREFIX = "SIM_INTERVAL"
CONSUMED_PREFIX = "SIM_CONSUMED"
ADMIN_ACCESS = "DRA_ADMIN_ACCESS"


@dataclass(frozen=True, slots=True)
class Trial:
    """The last step of a prepare that is to be slow or to fail; it runs in a thread."""

    seconds: float
    failure: str

    def __call__(self, root: HostRoot) -> ContainerEdits:
        """Nothing more for the container. HardwareError where the parameters ask for one."""
        time.sleep(self.seconds)
        if self.failure:
            raise HardwareError(f"{self.failure} (the claim's failPrepare says so)")
        return ContainerEdits()


def prepare_claim(asked: Asked) -> Prepared:
    """Out of the values alone. NotFoundError without devices, InvalidError for bad parameters."""
    parameters = joined(asked.parameters)
    prepared = prepare(asked.label, asked.devices)
    is_trial = parameters.prepare_seconds or parameters.fail_prepare
    return Prepared(
        merge([prepared.edits, ContainerEdits(env=_env(asked, parameters))]),
        required=prepared.required,
        finish=Trial(parameters.prepare_seconds or 0.0, parameters.fail_prepare) if is_trial else None,
    )


def _env(asked: Asked, parameters: SimParameters) -> tuple[tuple[str, str], ...]:
    env = dict(sorted(parameters.env.items()))
    if parameters.mode:
        env[env_name(MODE_PREFIX, asked.label)] = parameters.mode
    if parameters.interval:
        env[env_name(INTERVAL_PREFIX, asked.label)] = parameters.interval
    if consumed := _consumed(asked):
        env[env_name(CONSUMED_PREFIX, asked.label)] = consumed
    if asked.admin_access:
        env[ADMIN_ACCESS] = "true"
    return tuple(env.items())


def _consumed(asked: Asked) -> str:
    """`gpu-0/memory=10Gi,gpu-1/memory=20Gi`: what of each device the claim was given."""
    pairs = zip(asked.devices, asked.consumed, strict=False)
    return ",".join(
        f"{device.id}/{name}={amount}" for device, taken in pairs for name, amount in sorted(taken.items())
    )
