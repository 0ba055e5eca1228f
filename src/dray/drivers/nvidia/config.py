"""What the NVIDIA kind serves. These structs are `dray.nvidia` of the agent's file too, so every field has a default."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from dray.api.meta import Int64, Model

RESOURCE: Final = "nvidia.com/gpu"
SHARED_SUFFIX: Final = ".shared"


class MigStrategy(StrEnum):
    """How device plugins offer MIG devices: not at all, in place of GPUs where all are alike, or each profile by itself.

    DRA offers them whatever it says.
    """

    NONE = "none"
    SINGLE = "single"
    MIXED = "mixed"


class ListStrategy(StrEnum):
    """How a container of a device plugin gets its GPUs.

    By a variable or by mounts that NVIDIA's runtime reads, by CDI devices that NVIDIA's toolkit described, or by nodes and
    libraries that need neither.
    """

    ENVVAR = "envvar"
    VOLUME_MOUNTS = "volume-mounts"
    CDI = "cdi"
    DEVICE_SPECS = "device-specs"


class IdStrategy(StrEnum):
    """What NVIDIA's runtime is told: UUIDs, or numbers that may change with every restart of the machine."""

    UUID = "uuid"
    INDEX = "index"


class NvidiaReplicas(Model, frozen=True, kw_only=True):
    """Each device of a resource is handed out to that many at once."""

    name: str = ""
    replicas: Int64 = 0


class NvidiaTimeSlicing(Model, frozen=True, kw_only=True):
    """As in the config of NVIDIA's device plugin. A renamed resource ends in `.shared`."""

    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False
    resources: tuple[NvidiaReplicas, ...] = ()

    def shares_of(self, resource: str) -> int | None:
        """How many share a device of a resource; None: one has it."""
        return next((entry.replicas for entry in self.resources if entry.name == resource), None)


class NvidiaHealth(Model, frozen=True, kw_only=True):
    """`ignored_xids` say nothing about the card, beside those that programs cause. Without `xids` no errors are listened for.

    A card is asked every `poll_seconds`. One that reported an error is well again `recovery_seconds` later, where the
    driver says that nothing needs to be done about it.
    """

    xids: bool = True
    ignored_xids: tuple[Int64, ...] = ()
    poll_seconds: float = 5.0
    recovery_seconds: float = 60.0


class NvidiaConfig(Model, frozen=True, kw_only=True):
    """`enabled` None: where NVIDIA's driver is. `pass_through` offers whole cards to VMs too.

    `driver_root` is where the driver's libraries are on the host, `/run/nvidia/driver` where a container installed them;
    `graphics` hands out nodes of /dev/dri with a card.
    """

    enabled: bool | None = None
    resource_name: str = RESOURCE
    dynamic_mig: bool = False
    pass_through: bool = False
    mig_strategy: str = MigStrategy.NONE.value
    time_slicing: NvidiaTimeSlicing = NvidiaTimeSlicing()
    device_list_strategy: tuple[str, ...] = (ListStrategy.DEVICE_SPECS.value,)
    device_id_strategy: str = msgspec.field(default=IdStrategy.UUID.value, name="deviceIDStrategy")
    driver_root: str = "/"
    graphics: bool = False
    health: NvidiaHealth = NvidiaHealth()

    @property
    def listens(self) -> bool:
        """Whether errors are listened for. Who listens has the card open, and then it can neither be divided nor passed."""
        return self.health.xids and not self.dynamic_mig and not self.pass_through

    def offer(self, resource: str) -> tuple[str, int | None]:
        """The name a resource is offered under, and how many share each device of it."""
        shares = self.time_slicing.shares_of(resource)
        renamed = shares is not None and self.time_slicing.rename_by_default
        return (f"{resource}{SHARED_SUFFIX}" if renamed else resource), shares
