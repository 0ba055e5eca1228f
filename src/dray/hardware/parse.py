"""The texts of sysfs as values. Strict: Python's `int` takes `1_0`, ` 1` and `١`, which no kernel writes.

Each function returns None for text it does not understand; whoever called it knows the file to name.
"""

from __future__ import annotations

import re

from dray.hardware.facts import showable

_DECIMAL = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_HEXADECIMAL = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,8})", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", re.ASCII)
_PCI_ADDRESS = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([01][0-9A-Fa-f])\.([0-7])", re.ASCII)
_CPUS_AT_MOST = 1 << 16  # Linux is built for 8192 at most


def decimal(text: str) -> int | None:
    """A decimal number; a minus is fine, white space around it too."""
    text = text.strip()
    return int(text) if _DECIMAL.fullmatch(text) else None


def hexadecimal(text: str, digits: int) -> str | None:
    """A hexadecimal number, with or without 0x, as `digits` lower-case digits."""
    found = _HEXADECIMAL.fullmatch(text.strip())
    if found is None or int(found[1], 16) >= 16**digits:
        return None
    return f"{int(found[1], 16):0{digits}x}"


def pair(text: str, separator: str = ":") -> tuple[str, str] | None:
    """Two ids of four hexadecimal digits, like `10DE:2330`, in lower case."""
    ids = [hexadecimal(part, 4) for part in text.split(separator)]
    return (ids[0], ids[1]) if len(ids) == 2 and ids[0] is not None and ids[1] is not None else None


def pci_address(text: str) -> str | None:
    """A PCI address as the kernel spells it, `0000:05:00.0`, from how people (`0000:0A:00.0`) and NVIDIA's tools
    (`00000000:05:00.0`) write it. The domain is never left out: KubeVirt and Kubernetes require it too.
    """
    found = _PCI_ADDRESS.fullmatch(text)
    if found is None:
        return None
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower()


def is_pci_address(text: str) -> bool:
    """Whether this is an address in the kernel's own spelling: the name of a directory in sysfs."""
    return pci_address(text) == text


def link_name(text: str) -> str:
    """What a link of sysfs says: the last part of its text (`../../bus/pci/drivers/nvme`: nvme)."""
    return showable(text.rstrip("/").rpartition("/")[2])


def pairs(text: str) -> dict[str, str]:
    """The lines `KEY=value` of a uevent file. Lines that are not like that are passed over; the first of a key counts."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            found.setdefault(key, value.strip())
    return found


def cpu_list(text: str) -> tuple[int, ...] | None:
    """A list of processors as the kernel writes it (`0-3,8`); empty for a node without any."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        found = _RANGE.fullmatch(part)
        if found is None:
            return None
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first or last >= _CPUS_AT_MOST:
            return None
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))
