from __future__ import annotations

from dray.drivers.contract import Device, Health
from dray.inventory.ledger import ClaimDevices


def gpu(
    number: int, kind: str = "gpu", *, shares: int | None = None, hardware: tuple[str, ...] = ()
) -> Device:
    """GPU `number` of a machine, as a device of `kind`: the same hardware in each."""
    return Device(
        f"{kind}-{number}",
        kind,
        f"example.com/{kind}",
        Health.HEALTHY,
        shares=shares,
        hardware=hardware or (f"pci:0000:0{number}:00.0",),
    )


def claim(name: str, *devices: Device, complete: bool = True) -> ClaimDevices:
    return ClaimDevices("default", name, f"uid-{name}", devices, complete)
