"""Hand out /dev/iommu: the node, and an opened one over a socket."""

from __future__ import annotations

from collections.abc import Sequence

from dray.drivers.contract import DescriptorPass, Device, Prepared
from dray.drivers.parcels import node_edits
from dray.hardware.vfio import IOMMUFD

PASS = DescriptorPass(
    node=IOMMUFD,
    directory="/var/run/kubevirt",
    name="iommufd",
    container_path="/var/run/kubevirt/iommufd.sock",
)
"""Where virt-launcher looks. If the socket is there it must get a descriptor, else the virtual machine does not start."""


def prepare(devices: Sequence[Device]) -> Prepared:
    """The node, which must still be there when the container is answered for, and one descriptor of it."""
    required = dict.fromkeys(path for device in devices for path in device.paths)
    return Prepared(node_edits(devices), required=tuple(required), passes=(PASS,) if devices else ())
