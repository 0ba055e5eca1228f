"""A device plugin for /dev/kvm through Dray's lifetime, as an agent would run it. Ends on SIGTERM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dray.cdi.edits import ContainerEdits, DeviceNode
from dray.deviceplugin.directory import following
from dray.deviceplugin.lifetime import PluginLifetime
from dray.deviceplugin.plugin import Offer, ResourcePlugin
from dray.drivers.contract import Device, Discovery, Health, Prepared
from dray.hardware.host_root import Place
from dray.inventory.inventory import InventoryFeed
from dray.runtime.clock import SystemClock
from dray.runtime.logs import setup_logs
from dray.runtime.tasks import run_until_signalled
from dray.wire.deviceplugin import DIRECTORY

RESOURCE = "devices.kubevirt.io/kvm"
SHARES = 10


class KvmDriver:
    """One shared node."""

    kind = "generic"

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """One device."""
        return Discovery((Device("kvm", "generic", RESOURCE, Health.HEALTHY, shares=SHARES),), (), ())

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """The node, and a variable that the test looks for."""
        return Prepared(
            ContainerEdits((("DRAY_DEVICE", "kvm"),), (DeviceNode("/dev/kvm", "/dev/kvm", "rw"),))
        )


async def main() -> None:
    async def carry_out(prepared: Prepared) -> None:
        """Nothing to do on this host."""

    driver, feed = KvmDriver(), InventoryFeed()
    feed.publish([Device("kvm", "generic", RESOURCE, Health.HEALTHY, shares=SHARES)])
    offer = Offer(RESOURCE, driver, "kubevirt-kvm.sock")
    async with following(Path(DIRECTORY)) as directory:
        await PluginLifetime(lambda: ResourcePlugin(offer, feed, carry_out), directory, SystemClock()).run()


if __name__ == "__main__":
    setup_logs()
    run_until_signalled(main)
