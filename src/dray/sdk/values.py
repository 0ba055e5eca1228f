"""What drivers and Dray hand to each other: devices one way, requests back, and what containers get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Generic, TypeVar

from dray.drivers.naming import env_name
from dray.sdk.host import Host

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Device:
    """One device, at the moment of looking. `id` is unique within the driver, and the same after a restart and replugging.

    What `nodes` and `mounts` name is watched: a device of which one is gone is unhealthy at once.
    """

    id: str
    _: KW_ONLY
    nodes: Sequence[str] = ()
    """Device nodes of the host that a container gets, under the same path, to read and write."""
    mounts: Sequence[str] = ()
    """Files, sockets and directories of the host that a container gets, under the same path, writable."""
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    """What claims can select by. Names are plain (`colour`), texts have 64 bytes at most."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Attributes that are semantic versions (`1.2.3`)."""
    capacity: Mapping[str, str | int] = field(default_factory=dict)
    """Quantities that claims can ask for a minimum of (`{"memory": "16Gi"}`)."""
    shares: int | None = None
    """None: one owner at a time. A number: that many at once."""
    numa_node: int | None = None
    pci_address: str = ""
    """`0000:05:00.0` where it is such a function: another driver that offers the same one is then kept from giving it away."""
    problem: str = ""
    """Why it must not be handed out now, for people; empty: it is healthy."""


@dataclass(frozen=True, slots=True)
class Node:
    """A device node of the host in a container. `permissions` are some of r(ead), w(rite) and m(knod)."""

    host_path: str
    container_path: str = ""
    """Empty: the same as on the host."""
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host in a container."""

    host_path: str
    container_path: str = ""
    """Empty: the same as on the host."""
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """All that one container gets."""

    env: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[Node] = ()
    mounts: Sequence[Mount] = ()


@dataclass(frozen=True, kw_only=True)  # slots and Generic do not go together in Python 3.11
class Request(Generic[C]):
    """What is asked for: these devices, all at once, for one container or one request of a claim.

    `config` is what the claim and its class say, defaults where they say nothing, as a device plugin never does.
    """

    devices: Sequence[Device]
    config: C
    label: str = ""
    """The resource, or `<claim>/<request>` as the pod names them: unique within a pod."""
    claim_uid: str = ""
    """Empty for a container of a device plugin."""
    admin_access: bool = False
    """The claim is for looking after the devices, beside whoever uses them."""
    consumed: Sequence[Mapping[str, str]] = ()
    """For each device what the claim takes of its capacity, where it is shared."""
    host: Host = field(default_factory=lambda: Host("/"), compare=False)

    def variable(self, prefix: str) -> str:
        """The name of an environment variable that no other request of the pod uses: `LAMPS_EXAMPLE_COM_LAMP`."""
        return env_name(prefix, self.label)

    def edits(self) -> Edits:
        """What a driver without `prepare` gives: nodes and mounts of the devices, and their ids in `DEVICES_…`."""
        ids = ",".join(device.id for device in self.devices)
        return Edits(
            env={self.variable("DEVICES"): ids},
            nodes=[Node(path) for device in self.devices for path in device.nodes],
            mounts=[Mount(path) for device in self.devices for path in device.mounts],
        )
