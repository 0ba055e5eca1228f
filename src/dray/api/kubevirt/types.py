"""Views of the KubeVirt object and of its `.spec.configuration`, as far as devices go. Unknown fields are ignored."""

from __future__ import annotations

from typing import Final

import msgspec

from dray.api.meta import Int64, Model, ObjectMeta

API_GROUP: Final = "kubevirt.io"
KIND: Final = "KubeVirt"
DEFAULT_QGS_SOCKET: Final = "/var/run/tdx-qgs/qgs.socket"


class PciHostDevice(Model, frozen=True, kw_only=True):
    """PCI functions by `vendor:device`; several selectors may share a resource."""

    pci_vendor_selector: str = ""
    resource_name: str = ""
    external_resource_provider: bool = False


class MediatedHostDevice(Model, frozen=True, kw_only=True):
    """Mediated devices by the name of their type, or by its id where the type has no name."""

    mdev_name_selector: str = ""
    resource_name: str = ""
    external_resource_provider: bool = False


class UsbSelector(Model, frozen=True, kw_only=True):
    """USB devices by vendor and product, both hexadecimal without 0x."""

    vendor: str = ""
    product: str = ""


class UsbHostDevice(Model, frozen=True, kw_only=True):
    """A set of USB devices, one for each selector, handed out as one device."""

    resource_name: str = ""
    selectors: tuple[UsbSelector, ...] = ()
    external_resource_provider: bool = False


class PermittedHostDevices(Model, frozen=True, kw_only=True):
    """What virtual machines may have of the host. `external_resource_provider`: KubeVirt permits, another serves it."""

    pci_host_devices: tuple[PciHostDevice, ...] = ()
    mediated_devices: tuple[MediatedHostDevice, ...] = ()
    usb: tuple[UsbHostDevice, ...] = ()


class NodeMediatedDeviceTypes(Model, frozen=True, kw_only=True):
    """Types for the nodes that carry all these labels; an empty selector is every node."""

    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    mediated_device_types: tuple[str, ...] = ()
    mediated_devices_types: tuple[str, ...] = ()
    """Deprecated spelling; counts only where the other list is empty."""


class MediatedDevicesConfiguration(Model, frozen=True, kw_only=True):
    """Which types of mediated devices to create. `enabled` absent is not the same as true: see `gates`."""

    enabled: bool | None = None
    mediated_device_types: tuple[str, ...] = ()
    mediated_devices_types: tuple[str, ...] = ()
    """Deprecated spelling; counts only where the other list is empty."""
    node_mediated_device_types: tuple[NodeMediatedDeviceTypes, ...] = ()


class DeveloperConfiguration(Model, frozen=True, kw_only=True):
    """The feature gates that were set by hand."""

    feature_gates: tuple[str, ...] = ()
    disabled_feature_gates: tuple[str, ...] = ()


class PersistentReservationConfiguration(Model, frozen=True, kw_only=True):
    """SCSI persistent reservations through the pr-helper socket."""

    enabled: bool | None = None


class TdxAttestation(Model, frozen=True, kw_only=True):
    """The quote generation service. Not enforced, the `tdx` resource is healthy also without it."""

    enforced: bool | None = None
    qgs_socket_path: str | None = None


class Tdx(Model, frozen=True, kw_only=True):
    """Intel TDX."""

    attestation: TdxAttestation | None = None


class ConfidentialCompute(Model, frozen=True, kw_only=True):
    """Encrypted guests."""

    tdx: Tdx | None = None


class Hypervisor(Model, frozen=True, kw_only=True):
    """`kvm` or `hyperv-direct`."""

    name: str = ""


class Configuration(Model, frozen=True, kw_only=True):
    """`.spec.configuration` of a KubeVirt object."""

    permitted_host_devices: PermittedHostDevices | None = None
    mediated_devices_configuration: MediatedDevicesConfiguration | None = None
    virtual_machine_instances_per_node: Int64 | None = None
    developer_configuration: DeveloperConfiguration | None = None
    persistent_reservation_configuration: PersistentReservationConfiguration | None = None
    confidential_compute: ConfidentialCompute | None = None
    hypervisors: tuple[Hypervisor, ...] = ()


class KubeVirtSpec(Model, frozen=True, kw_only=True):
    """The part of the spec that is about devices."""

    configuration: Configuration = Configuration()


class KubeVirt(Model, frozen=True, kw_only=True):
    """The object that describes one installation of KubeVirt; a cluster has one."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: KubeVirtSpec = KubeVirtSpec()


_FIELDS: Final = """
    additionalGuestMemoryOverheadRatio apiConfiguration architectureConfiguration
    autoCPULimitNamespaceLabelSelector changedBlockTrackingLabelSelectors commonInstancetypesDeployment
    confidentialCompute controllerConfiguration cpuModel cpuRequest defaultRuntimeClass developerConfiguration
    emulatedMachines evictionStrategy handlerConfiguration hypervisors imagePullPolicy instancetype
    ksmConfiguration liveUpdateConfiguration machineType mediatedDevicesConfiguration memBalloonStatsPeriod
    migrations minCPUModel network obsoleteCPUModels ovmfPath permittedHostDevices
    persistentReservationConfiguration roleAggregationStrategy seccompConfiguration selinuxLauncherType smbios
    supportContainerResources supportedGuestAgentVersions tlsConfiguration virtTemplateDeployment
    virtualMachineInstancesPerNode virtualMachineOptions vmRolloutStrategy vmStateStorageClass
    webhookConfiguration
"""
CONFIGURATION_FIELDS: Final = frozenset(_FIELDS.split())
"""Every field KubeVirt 1.9 has here: in a file, what is none of them is a slip of the pen."""
