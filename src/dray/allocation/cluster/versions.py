"""Older and newer versions of resource.k8s.io: their objects, read as those of the version that is used here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dray.api.kinds import RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES, Resource

_MOVED: Final = dict.fromkeys(
    ("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"),
    ("resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"),
) | {"DeviceTaintRule": ("resource.k8s.io/v1",)}


def is_readable(resource: Resource[Any], api_version: str) -> bool:
    """Whether objects of this version can be read as the resource's own."""
    return api_version in (resource.api_version, *_MOVED.get(resource.kind, ()))


def raise_version(resource: Resource[Any], raw: dict[str, Any]) -> None:
    """Turn a document of another version that `is_readable` into the resource's own, in place: fields only move.

    v1beta2 has the fields of v1. v1beta1 has a device's under `basic`, and a request's beside its name.
    """
    is_oldest = raw.get("apiVersion") == "resource.k8s.io/v1beta1"
    raw["apiVersion"] = resource.api_version
    spec = raw.get("spec")
    if resource is RESOURCE_CLAIM_TEMPLATES and isinstance(spec, dict):
        spec = spec.get("spec")
    if not is_oldest or not isinstance(spec, dict):
        return
    if resource is RESOURCE_SLICES:
        for device in dicts(spec.get("devices")):
            basic = device.pop("basic", None)
            device |= basic if isinstance(basic, dict) else {}
    elif isinstance(devices := spec.get("devices"), dict):
        for request in dicts(devices.get("requests")):
            if "firstAvailable" not in request:
                request["exactly"] = {key: request.pop(key) for key in list(request) if key != "name"}


def dicts(value: object) -> Iterator[dict[str, Any]]:
    """The maps of a list; nothing where it is none."""
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())
