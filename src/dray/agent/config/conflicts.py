"""Entries that contradict each other: one resource with two owners or of two kinds, one selector for two resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dray.agent.config.additions import Additions, Role, resource_of
from dray.api.field_errors import FieldError, Path, Reason
from dray.api.kubevirt.mdev_types import normalize_type_name
from dray.api.kubevirt.permanent import RESOURCE_PREFIX, has_iommufd, permanent_nodes, permanent_sockets
from dray.api.kubevirt.types import Configuration, PermittedHostDevices
from dray.api.validation.faults import shown
from dray.drivers.sim.config import resource_of as sim_resource_of


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry that names a resource. `ours`: served by this agent. `selector` is empty where an entry has none."""

    path: Path
    resource: str
    kind: str
    ours: bool
    selector: str = ""
    selector_field: str = ""


def is_ours(external: bool, role: Role) -> bool:
    """Whether the agent serves a permitted entry: what virt-handler would, or what it leaves to others."""
    return external == (role is Role.BESIDE_KUBEVIRT)


def find_conflicts(
    configuration: Configuration, additions: Additions, role: Role, path: Path, added: Path
) -> list[FieldError]:
    """Faults between entries. `path` is where KubeVirt's configuration stands, `added` where ours does.

    Entries that another owner serves may contradict each other as they like. So may USB selectors: an earlier entry
    takes the devices first, and configurations with one entry per stick rely on it.
    """
    entries = [entry for entry in _entries(configuration, additions, role, path, added) if entry.resource]
    return [
        *_two_owners(entries),
        *_two_resources(entry for entry in entries if entry.ours and entry.selector),
    ]


def resource_names(configuration: Configuration, additions: Additions, role: Role) -> frozenset[str]:
    """All resources that this agent may serve."""
    entries = _entries(configuration, additions, role, Path(), Path())
    named = {entry.resource for entry in entries if entry.ours and entry.resource}
    return frozenset(named | (_permanent(configuration) if role is Role.REPLACE else set()))


def _permanent(configuration: Configuration) -> set[str]:
    found = {node.name for node in permanent_nodes(configuration)}
    found |= {socket.name for socket in permanent_sockets(configuration)}
    return {RESOURCE_PREFIX + name for name in found | ({"iommufd"} if has_iommufd(configuration) else set())}


def _entries(
    configuration: Configuration, additions: Additions, role: Role, path: Path, added: Path
) -> Iterator[_Entry]:
    yield from _permitted(configuration, role, path.child("permittedHostDevices"))
    for at, generic in enumerate(additions.generic):
        yield _Entry(added.child("generic").index(at), resource_of(generic, additions), "generic", True)
    for at, selection in enumerate(additions.select):
        kind = "PCI" if selection.pci_address else "USB"
        yield _Entry(added.child("select").index(at), selection.resource_name, kind, True)
    for at, entry in enumerate(additions.sim.devices):
        resource = sim_resource_of(entry, additions.domain)
        yield _Entry(added.child("sim", "devices").index(at), resource, "simulated", True)
    if additions.nvidia is not None:
        resource, _ = additions.nvidia.offer(additions.nvidia.resource_name)
        yield _Entry(added.child("nvidia"), resource, "NVIDIA", True)


def _permitted(configuration: Configuration, role: Role, path: Path) -> Iterator[_Entry]:
    permitted = configuration.permitted_host_devices or PermittedHostDevices()
    for at, pci in enumerate(permitted.pci_host_devices):
        here, ours = path.child("pciHostDevices").index(at), is_ours(pci.external_resource_provider, role)
        selector = pci.pci_vendor_selector.lower()
        yield _Entry(here, pci.resource_name, "PCI", ours, selector, "pciVendorSelector")
    for at, mdev in enumerate(permitted.mediated_devices):
        here = path.child("mediatedDevices").index(at)
        ours = role is Role.REPLACE and not mdev.external_resource_provider
        selector = normalize_type_name(mdev.mdev_name_selector)
        yield _Entry(here, mdev.resource_name, "mediated", ours, selector, "mdevNameSelector")
    for at, usb in enumerate(permitted.usb):
        here, ours = path.child("usb").index(at), is_ours(usb.external_resource_provider, role)
        yield _Entry(here, usb.resource_name, "USB", ours)


def _two_owners(entries: Iterable[_Entry]) -> Iterator[FieldError]:
    """A kubelet knows one plugin for a resource; the second to register takes it from the first."""
    first: dict[str, _Entry] = {}
    for entry in entries:
        before = first.setdefault(entry.resource, entry)
        if why := _why(entry, before):
            yield _duplicate(entry, "resourceName", entry.resource, why)


def _why(entry: _Entry, before: _Entry) -> str:
    """What is wrong with two entries of one resource; empty where nothing is, or it is others' business."""
    if not entry.ours and not before.ours:
        return ""
    if entry.ours and not before.ours:
        return f"{before.path} has it, which another owner serves"
    if not entry.ours:
        return f"another owner serves it here, and this agent serves {before.path}"
    return "" if entry.kind == before.kind else f"{before.path} has it for {before.kind} devices"


def _two_resources(entries: Iterable[_Entry]) -> Iterator[FieldError]:
    """KubeVirt lets the last one win. The very same entry twice does no harm."""
    first: dict[tuple[str, str], _Entry] = {}
    for entry in entries:
        before = first.setdefault((entry.kind, entry.selector), entry)
        if before.resource != entry.resource:
            text = f"{before.path} gives the same devices to {before.resource}"
            yield _duplicate(entry, entry.selector_field, entry.selector, text)


def _duplicate(entry: _Entry, field: str, value: str, detail: str) -> FieldError:
    message = f"Duplicate value: {shown(value)}: {detail}"
    return FieldError(entry.path.child(field).text, Reason.DUPLICATE, message, value)
