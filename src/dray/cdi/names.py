"""The names of CDI: `vendor/class` is a kind, `vendor/class=device` a qualified device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dray.errors import InvalidError

ANNOTATION_PREFIX: Final = "cdi.k8s.io/"
_LONGEST_KEY: Final = 63

_KIND_PART: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_KEY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_KIND_RULE: Final = (
    "must start with a letter, end with a letter or digit, and have only these and _ - . between"
)
_DEVICE_RULE: Final = "must start and end with a letter or digit, and have only these and _ - . : between"


class QualifiedName(NamedTuple):
    """The parts of `vendor/class=device`."""

    vendor: str
    kind_class: str
    device: str

    def __str__(self) -> str:
        return qualified(f"{self.vendor}/{self.kind_class}", self.device)


def qualified(kind: str, device: str) -> str:
    """The name a container asks by."""
    return f"{kind}={device}"


def split_kind(kind: str) -> tuple[str, str]:
    """Vendor and class; both empty where it has not the form `vendor/class`."""
    vendor, slash, rest = kind.partition("/")
    return (vendor, rest) if slash and vendor and rest else ("", "")


def kind_faults(kind: str) -> list[str]:
    """What is wrong with `vendor/class`."""
    vendor, kind_class = split_kind(kind)
    if not vendor:
        return [f"must be a vendor and a class, such as example.com/gpu, not {kind!r}"]
    parts = (("vendor", vendor), ("class", kind_class))
    return [f"{what} {text!r} {_KIND_RULE}" for what, text in parts if not _KIND_PART.fullmatch(text)]


def device_faults(name: str) -> list[str]:
    """What is wrong with a device's name."""
    return [] if _DEVICE.fullmatch(name) else [f"{name!r} {_DEVICE_RULE}" if name else "must not be empty"]


def parse_qualified(text: str) -> QualifiedName:
    """The parts of a device's whole name; InvalidError says what is wrong with it. A path is no name."""
    kind, _, device = text.partition("=")
    if text.startswith("/") or not device or not split_kind(kind)[0]:
        raise InvalidError(f"{text!r} is not a CDI device: say vendor/class=device", field=text)
    if faults := [*kind_faults(kind), *device_faults(device)]:
        raise InvalidError(f"{text!r} is not a CDI device: {faults[0]}", field=text)
    return QualifiedName(*split_kind(kind), device)


def annotation(plugin: str, device_id: str, devices: Iterable[str]) -> tuple[str, str]:
    """Key and value of the annotation by which a runtime is asked for CDI devices. `device_id` makes the key unique."""
    name = f"{plugin}_{device_id.replace('/', '_')}"
    if not plugin or not device_id or not _KEY.fullmatch(name) or len(name) > _LONGEST_KEY:
        raise InvalidError(
            f"{name!r} cannot be an annotation's name: at most {_LONGEST_KEY} letters, digits, _ - and .",
            field=name,
        )
    return ANNOTATION_PREFIX + name, ",".join(str(parse_qualified(device)) for device in devices)


def annotated_devices(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The devices that a container's annotations ask for, in order of their keys, each once."""
    asked = [
        str(parse_qualified(device))
        for key, value in sorted(annotations.items())
        if key.startswith(ANNOTATION_PREFIX)
        for device in value.split(",")
    ]
    return tuple(dict.fromkeys(asked))
