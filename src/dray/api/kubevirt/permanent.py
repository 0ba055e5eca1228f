"""The devices KubeVirt serves without being told which: shared nodes and sockets, by its gates and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.kubevirt import gates
from dray.api.kubevirt.types import DEFAULT_QGS_SOCKET, Configuration, TdxAttestation

RESOURCE_PREFIX: Final = "devices.kubevirt.io/"
DEFAULT_MAX_DEVICES: Final = 1000
PR_HELPER_SOCKET: Final = "/var/run/kubevirt/daemons/pr/pr-helper.sock"
HYPERVISORS: Final = ("kvm", "hyperv-direct")


@dataclass(frozen=True, slots=True)
class PermanentNode:
    """A shared device node. `pre_open`: opening it once makes the kernel load its module."""

    name: str
    path: str
    pre_open: bool = True


@dataclass(frozen=True, slots=True)
class PermanentSocket:
    """A socket whose directory is mounted.

    `required`: it is unhealthy while the socket is away. `owned`: socket and directory are given to the user qemu.
    `capacity_key`: how many there are stands under this key of the host's misc.capacity; empty is `max_devices`.
    """

    name: str
    path: str
    required: bool
    owned: bool
    capacity_key: str = ""


_KVM: Final = PermanentNode("kvm", "/dev/kvm", pre_open=False)
_MSHV: Final = PermanentNode("mshv", "/dev/mshv", pre_open=False)
_ALWAYS: Final = (PermanentNode("tun", "/dev/net/tun"), PermanentNode("vhost-net", "/dev/vhost-net"))
_BY_GATE: Final = {
    gates.SEV: PermanentNode("sev", "/dev/sev"),
    gates.VSOCK: PermanentNode("vhost-vsock", "/dev/vhost-vsock"),
}
IOMMUFD: Final = "iommufd"

RESERVED_RESOURCES: Final = frozenset(
    RESOURCE_PREFIX + name
    for name in ("iommufd", "kvm", "mshv", "pr-helper", "sev", "tdx", "tun", "vhost-net", "vhost-vsock")
)
"""The names that KubeVirt gives its own devices, whether the gate is on or not."""


def permanent_nodes(configuration: Configuration) -> tuple[PermanentNode, ...]:
    """The shared nodes: the hypervisor, tun and vhost-net, and what gates add. IOMMUFD is apart: `has_iommufd`."""
    gated = (node for gate, node in _BY_GATE.items() if gates.is_enabled(gate, configuration))
    return (_hypervisor(configuration), *_ALWAYS, *gated)


def _hypervisor(configuration: Configuration) -> PermanentNode:
    """Only the first entry counts, and only behind its gate."""
    if not configuration.hypervisors or not gates.is_enabled(gates.CONFIGURABLE_HYPERVISOR, configuration):
        return _KVM
    return _MSHV if configuration.hypervisors[0].name == "hyperv-direct" else _KVM


def permanent_sockets(configuration: Configuration) -> tuple[PermanentSocket, ...]:
    """The sockets: TDX's quote generation service and pr-helper."""
    found = []
    if gates.is_enabled(gates.TDX, configuration):
        attestation = tdx_attestation(configuration)
        path = attestation.qgs_socket_path or DEFAULT_QGS_SOCKET
        found.append(
            PermanentSocket("tdx", path, bool(attestation.enforced), owned=False, capacity_key="tdx")
        )
    if gates.is_persistent_reservation_enabled(configuration):
        found.append(PermanentSocket("pr-helper", PR_HELPER_SOCKET, required=True, owned=True))
    return tuple(found)


def tdx_attestation(configuration: Configuration) -> TdxAttestation:
    """The settings of the quote generation service, empty where there are none."""
    compute = configuration.confidential_compute
    tdx = compute.tdx if compute is not None else None
    return (tdx.attestation if tdx is not None else None) or TdxAttestation()


def has_iommufd(configuration: Configuration) -> bool:
    """Whether `devices.kubevirt.io/iommufd` is served."""
    return gates.is_enabled(gates.IOMMUFD, configuration)


def max_devices(configuration: Configuration) -> int:
    """How many containers may share a permanent device."""
    limit = configuration.virtual_machine_instances_per_node
    return DEFAULT_MAX_DEVICES if limit is None else limit
