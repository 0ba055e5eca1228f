from __future__ import annotations

from dray.api.codec import decode, encode, view
from dray.api.kubevirt.types import CONFIGURATION_FIELDS, Configuration, KubeVirt, UsbSelector

OBJECT = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "KubeVirt",
    "metadata": {"name": "kubevirt", "namespace": "kubevirt"},
    "spec": {
        "imagePullPolicy": "IfNotPresent",
        "configuration": {
            "network": {"defaultNetworkInterface": "masquerade"},
            "permittedHostDevices": {
                "pciHostDevices": [
                    {"pciVendorSelector": "10DE:1EB8", "resourceName": "nvidia.com/TU104GL", "later": 1}
                ],
                "mediatedDevices": [
                    {
                        "mdevNameSelector": "GRID T4-1Q",
                        "resourceName": "nvidia.com/GRID_T4-1Q",
                        "externalResourceProvider": True,
                    }
                ],
                "usb": [
                    {
                        "resourceName": "kubevirt.io/storage",
                        "selectors": [{"vendor": "46f4", "product": "0001"}],
                    }
                ],
            },
            "mediatedDevicesConfiguration": {
                "mediatedDevicesTypes": ["nvidia-222"],
                "nodeMediatedDeviceTypes": [
                    {"nodeSelector": {"a": "b"}, "mediatedDeviceTypes": ["nvidia-223"]}
                ],
            },
            "confidentialCompute": {"tdx": {"attestation": {"enforced": True}}},
            "hypervisors": [{"name": "kvm"}],
        },
    },
    "status": {"phase": "Deployed"},
}


def test_a_real_object_reads() -> None:
    configuration = decode(encode(OBJECT), KubeVirt).spec.configuration
    permitted = configuration.permitted_host_devices
    assert permitted is not None
    assert permitted.pci_host_devices[0].pci_vendor_selector == "10DE:1EB8"
    assert not permitted.pci_host_devices[0].external_resource_provider
    assert permitted.mediated_devices[0].external_resource_provider
    assert permitted.usb[0].selectors == (UsbSelector(vendor="46f4", product="0001"),)
    mdevs = configuration.mediated_devices_configuration
    assert mdevs is not None
    assert mdevs.enabled is None
    assert mdevs.mediated_devices_types == ("nvidia-222",)
    assert mdevs.node_mediated_device_types[0].node_selector == {"a": "b"}


def test_null_is_absent() -> None:
    configuration = view(
        {"permittedHostDevices": {"pciHostDevices": None}, "hypervisors": None}, Configuration
    )
    assert configuration.permitted_host_devices is not None
    assert configuration.permitted_host_devices.pci_host_devices == ()
    assert view({"permittedHostDevices": None}, Configuration).permitted_host_devices is None


def test_every_field_of_the_view_is_one_of_kubevirts() -> None:
    fields = set(Configuration.__struct_encode_fields__)
    assert fields <= CONFIGURATION_FIELDS
    assert len(CONFIGURATION_FIELDS) == 43
