"""Random hardware, drivers, configs and owners: a group is never on offer under a second id."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dray.drivers.contract import Device, Discovery
from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig, PciSelector, PciUnit
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, PciFunction
from tests.campaign import campaign, seeds

SELECTORS = (PciSelector("x/a", id="10de:000a"), PciSelector("x/b", id="10de:000b"))


class Bus:
    """Ten functions in at most six groups, and who holds what."""

    def __init__(self, host: Host, seed: int) -> None:
        self.dice, self.host = random.Random(seed), host
        self.functions = [
            host.pci(
                f"0000:{number:02x}:00.0",
                vendor="10de",
                device=self.dice.choice(("000a", "000b")),
                driver="vfio-pci",
                iommu_group=self.dice.randint(1, 6),
            )
            for number in range(10)
        ]
        self.held: dict[str, Device] = {}
        self.known: tuple[Device, ...] = ()

    def happen(self) -> None:
        function = self.dice.choice(self.functions)
        act = self.dice.choice(("vfio-pci", "e1000e", "unbind", "unplug", "replug", "move"))
        if act in ("unplug", "move"):
            function.unplug()
            self.forget(function)
            if act == "move":  # other hardware was added meanwhile: the kernel counts anew
                function.set(iommu_group=self.dice.randint(1, 6))
                function.replug("vfio-pci")
        elif act == "unbind":
            function.unbind()
        elif act == "replug":
            function.replug("vfio-pci")
        elif function.present:
            function.bind(act)

    def forget(self, function: PciFunction) -> None:
        """Whoever held the function has lost it, and with it the group."""
        for name, device in list(self.held.items()):
            if function.address in (*device.addresses, *str(device.attributes.get("functions")).split(",")):
                del self.held[name]

    def look(self, unit: PciUnit) -> Discovery:
        selectors = self.dice.choice((SELECTORS, SELECTORS[:1], SELECTORS[1:], ()))
        driver = PciDriver(PciConfig(selectors, unit=unit))
        known = self.known if self.dice.random() < 0.9 else ()  # a restart: only what is held is known
        found = driver.discover(HostRoot(self.host.root), [*known, *self.held.values()])
        self.known = found.devices
        return found

    def hand_out(self) -> None:
        for device in self.known:
            if device.health == "Healthy" and self.dice.random() < 0.2:
                self.held.setdefault(device.id, device)
        for name in list(self.held):
            if self.dice.random() < 0.1:
                del self.held[name]


@pytest.mark.parametrize("unit", PciUnit)
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_no_two_owners_share_a_group(tmp_path: Path, unit: PciUnit, seed: int) -> None:
    bus = Bus(Host(tmp_path), seed)
    handed = 0
    for _ in range(campaign(40, 400)):
        bus.happen()
        found = bus.look(bus.dice.choice(list(PciUnit)) if seed % 2 else unit)
        groups = [device.iommu_group for device in found.devices]
        assert len(groups) == len(set(groups)) == len({device.id for device in found.devices})
        for device in found.devices:
            owners = {one.id for one in bus.held.values() if one.iommu_group == device.iommu_group}
            assert owners <= {device.id}
        bus.hand_out()
        handed += len(bus.held)
    assert handed > 0
