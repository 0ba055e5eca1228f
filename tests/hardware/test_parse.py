from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.hardware.parse import (
    cpu_list,
    decimal,
    hexadecimal,
    is_pci_address,
    link_name,
    pair,
    pairs,
    pci_address,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-1", -1),
        (" 7\n", 7),
        ("007", 7),
        ("", None),
        ("x", None),
        ("1_0", None),
        ("+1", None),
        ("١", None),
        ("1 2", None),
        ("9" * 5000, None),
        ("0x10", None),
        ("1.0", None),
        ("--1", None),
    ],
)
def test_decimal(text: str, value: int | None) -> None:
    assert decimal(text) == value


@pytest.mark.parametrize(
    ("text", "digits", "value"),
    [
        ("0x10de", 4, "10de"),
        ("10DE", 4, "10de"),
        ("1", 4, "0001"),
        ("0x030200", 6, "030200"),
        ("30200", 6, "030200"),
        ("10000", 4, None),
        ("", 4, None),
        ("0x", 4, None),
        ("-1", 4, None),
        ("g", 4, None),
    ],
)
def test_hexadecimal(text: str, digits: int, value: str | None) -> None:
    assert hexadecimal(text, digits) == value


def test_pairs_of_ids() -> None:
    assert pair("10DE:2330") == ("10de", "2330")
    assert [pair(text) for text in ("10DE", "10DE:", "10DE:2330:1", "x:y", "")] == [None] * 5


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:05:00.0", "0000:05:00.0"),
        ("0000:0A:1F.7", "0000:0a:1f.7"),
        # NVML's domain has eight digits; the kernel's has four, or more where it needs more (a VMD's is 10000).
        ("00000000:00:06.0", "0000:00:06.0"),
        ("00000001:AF:1D.3", "0001:af:1d.3"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("10000:e1:1f.7", "10000:e1:1f.7"),
        # A bus has 32 devices with 8 functions each.
        ("0000:05:20.0", None),
        ("0000:05:00.8", None),
        ("05:00.0", None),
        ("0000:05:00", None),
        ("0000:05:00.0\n", None),
        ("../../../0000:05:00.0", None),
        ("", None),
    ],
)
def test_pci_addresses_are_as_the_kernel_spells_them(text: str, address: str | None) -> None:
    assert pci_address(text) == address
    assert is_pci_address(text) == (text == address)


def test_the_name_at_the_end_of_a_link() -> None:
    assert link_name("../../../bus/pci/drivers/vfio-pci") == "vfio-pci"
    assert link_name("nvme/") == "nvme"
    assert link_name("") == ""


def test_lines_of_a_uevent() -> None:
    text = "DRIVER=nvme\nnonsense\nPCI_ID=8086:1 \nPCI_ID=1:2\nODD=a=b\n=x\n"
    assert pairs(text) == {"DRIVER": "nvme", "PCI_ID": "8086:1", "ODD": "a=b", "": "x"}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", (0, 1, 2, 3, 8)),
        ("", ()),
        ("\n", ()),
        ("5", (5,)),
        ("3-1", None),
        ("0-", None),
        ("a", None),
        ("0-99999999999", None),
        ("0-999999", None),
        ("-1", None),
    ],
)
def test_lists_of_processors(text: str, cpus: tuple[int, ...] | None) -> None:
    assert cpu_list(text) == cpus


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    (
        decimal(text),
        hexadecimal(text, 4),
        pair(text),
        pairs(text),
        cpu_list(text),
        is_pci_address(text),
        link_name(text),
    )
