"""Which types of mediated devices a node should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dray.api.kubevirt.types import (
    Configuration,
    MediatedDevicesConfiguration,
    NodeMediatedDeviceTypes,
    PermittedHostDevices,
)
from dray.api.selectors.labels import match_labels


def normalize_type_name(name: str) -> str:
    """A type's name as it is compared: KubeVirt writes underscores for spaces."""
    return name.replace(" ", "_")


def desired_mdev_types(configuration: Configuration, node_labels: Mapping[str, str]) -> tuple[str, ...]:
    """Ids or normalised names, in the order of the configuration, none twice.

    The lists of all entries that match the node are joined, and *replace* the default list where they hold anything.
    KubeVirt compares a name with spaces literally and so never finds it; here it means what it says.
    """
    wanted = configuration.mediated_devices_configuration
    if wanted is None:
        return ()
    chosen: list[str] = []
    for entry in wanted.node_mediated_device_types:
        if match_labels(entry.node_selector).matches(node_labels):
            chosen += listed_types(entry)
    return _distinct(map(normalize_type_name, chosen or listed_types(wanted)))


def listed_types(entry: MediatedDevicesConfiguration | NodeMediatedDeviceTypes) -> tuple[str, ...]:
    """The types of one entry; the deprecated spelling counts only where the other list is empty."""
    return entry.mediated_device_types or entry.mediated_devices_types


def external_mdev_types(configuration: Configuration) -> tuple[str, ...]:
    """Normalised names of the types that another provider serves; their devices are never removed."""
    permitted = configuration.permitted_host_devices or PermittedHostDevices()
    return _distinct(
        normalize_type_name(entry.mdev_name_selector)
        for entry in permitted.mediated_devices
        if entry.external_resource_provider
    )


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
