from __future__ import annotations

import pytest

from dray.errors import InvalidError, NotFoundError
from dray.testing.launcher import AddressPool, Assigned, take_gpus, take_host_devices

GPU, NIC = "nvidia.com/GPU", "intel.com/x710-vf"
GPU_VARIABLE, NIC_VARIABLE = "PCI_RESOURCE_NVIDIA_COM_GPU", "PCI_RESOURCE_INTEL_COM_X710-VF"


def pool(**environment: str) -> AddressPool:
    names = {"gpu": GPU_VARIABLE, "nic": NIC_VARIABLE}
    return AddressPool("PCI_RESOURCE", [GPU, NIC], {names[key]: text for key, text in environment.items()})


def test_without_variable_the_resource_does_not_exist() -> None:
    with pytest.raises(NotFoundError, match=f"resource {GPU} does not exist"):
        pool().pop(GPU)


def test_an_empty_variable_has_no_addresses() -> None:
    with pytest.raises(NotFoundError, match="no more addresses"):
        pool(gpu="").pop(GPU)


def test_each_pop_takes_one() -> None:
    addresses = pool(gpu="0000:81:11.1,0001:81:11.1,")
    assert [addresses.pop(GPU), addresses.pop(GPU)] == ["0000:81:11.1", "0001:81:11.1"]
    with pytest.raises(NotFoundError, match="no more addresses"):
        addresses.pop(GPU)


def test_an_address_of_two_resources_is_given_once() -> None:
    addresses = pool(gpu="0000:81:11.1,0001:81:11.1", nic="0000:81:11.1")
    assert addresses.pop(GPU) == "0000:81:11.1"
    with pytest.raises(NotFoundError):
        addresses.pop(NIC)
    assert addresses.pop(GPU) == "0001:81:11.1"


PCI, UUID = "0000:81:11.1", "b8a1e1a0-0000-4000-8000-000000000001"


def test_gpus_are_pci_or_mediated_and_never_usb() -> None:
    environment = {"PCI_RESOURCE_A_B": PCI, "MDEV_PCI_RESOURCE_A_C": UUID, "USB_RESOURCE_A_D": "1:2"}
    assert take_gpus({"x": "a/b", "y": "a/c"}, environment) == [
        Assigned("x", "pci", PCI),
        Assigned("y", "mdev", UUID),
    ]
    with pytest.raises(InvalidError, match="number of device plugin GPU/s do not match"):
        take_gpus({"x": "a/d"}, environment)
    assert take_host_devices({"x": "a/d"}, environment) == [Assigned("x", "usb", "1:2")]


@pytest.mark.parametrize("environment", [{}, {"PCI_RESOURCE_A_B": PCI}, {"PCI_RESOURCE_A_B": ""}])
def test_the_number_must_agree(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidError, match="number of device plugin HostDevice/s do not match"):
        take_host_devices({"x": "a/b", "y": "a/b"}, environment)


def test_an_address_in_both_variables_is_one_too_many() -> None:
    with pytest.raises(InvalidError, match="1 wanted, 2 found"):
        take_gpus({"x": "a/b"}, {"PCI_RESOURCE_A_B": PCI, "MDEV_PCI_RESOURCE_A_B": UUID})


def test_an_empty_address_is_used_up_and_stands_for_nothing() -> None:
    environment = {"USB_RESOURCE_A_B": ",1:2"}
    with pytest.raises(InvalidError, match="1 wanted, 0 found"):
        take_host_devices({"x": "a/b"}, environment)
    with pytest.raises(InvalidError, match="2 wanted, 1 found"):
        take_host_devices({"x": "a/b", "y": "a/b"}, environment)


@pytest.mark.parametrize(
    "text",
    ["81:11.1", "0000:81:11.8", "0000:81:11.1 ", "0000:81:11.1\n", "0000:81:11:1", "\u0660000:81:11.1"],
)
def test_a_pci_address_has_one_form(text: str) -> None:
    with pytest.raises(InvalidError, match="device x: failed to parse pci address"):
        take_gpus({"x": "a/b"}, {"PCI_RESOURCE_A_B": text})


@pytest.mark.parametrize("text", ["1", "1:2:3"])
def test_a_usb_address_has_two_parts(text: str) -> None:
    with pytest.raises(InvalidError, match="device x: bad value"):
        take_host_devices({"x": "a/b"}, {"USB_RESOURCE_A_B": text})
