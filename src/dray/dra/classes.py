"""The DeviceClasses that go with our drivers: one for each kind, and one for each resource that moved to DRA.

They are made once. What an administrator does to them afterwards stays: a class that was made, or found, is noted in a
ConfigMap and never written again, also not where it was removed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS, DEVICE_CLASSES
from dray.api.limits import MAX_ATTRIBUTE_VALUE_LENGTH
from dray.api.meta import ObjectMeta
from dray.api.names import dns_subdomain, extended_resource_name, size
from dray.api.resource.device_class import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from dray.client.client import Client
from dray.dra.names import NVIDIA
from dray.dra.slices.view import RESOURCE
from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from dray.runtime.logs import get_log

_log = get_log("dra.classes")

NAMESPACE: Final = "kube-system"
NOTES: Final = "dray-classes"
_LABELS: Final = {"app.kubernetes.io/managed-by": "dray"}
_ILLEGAL: Final = re.compile(r"[^a-z0-9.-]")
_LONGEST: Final = 253
_DIGEST: Final = 8
_SLASH: Final = "--"


@dataclass(frozen=True, slots=True)
class Ensured:
    """The classes that were made now, and those that the server stored without their extended resource.

    `denied` says what we may not do; then nothing, or not everything, was made.
    """

    made: tuple[str, ...] = ()
    without_resource: tuple[str, ...] = ()
    denied: str = ""


def kind_class(driver: str) -> DeviceClass:
    """All devices of a driver, under the driver's name."""
    return _class(driver.lower(), f"device.driver == {json.dumps(driver)}")


def nvidia_classes() -> list[DeviceClass]:
    """NVIDIA's own: whole GPUs, which stand for `nvidia.com/gpu` too, MIG devices, and GPUs for VMs."""
    kinds = (
        ("gpu", NVIDIA, "nvidia.com/gpu"),
        ("mig", "mig.nvidia.com", None),
        ("vfio", f"vfio.{NVIDIA}", None),
    )
    return [
        _class(
            name, f"device.driver == '{NVIDIA}' && device.attributes['{NVIDIA}'].type == '{kind}'", resource
        )
        for kind, name, resource in kinds
    ]


def resource_class(driver: str, resource: str) -> DeviceClass:
    """The devices of one extended resource, for pods that ask for it as they did of a device plugin."""
    faults = extended_resource_name(resource)
    if not faults and size(resource) > MAX_ATTRIBUTE_VALUE_LENGTH:
        faults = [f"must be no more than {MAX_ATTRIBUTE_VALUE_LENGTH} bytes to be offered through DRA"]
    if faults:
        raise InvalidError(f"resource {resource!r}: {faults[0]}", field="resourceName")
    own, attributes = json.dumps(driver), f"device.attributes[{json.dumps(driver)}]"
    expression = (
        f"device.driver == {own} && has({attributes}.{RESOURCE}) && "
        f"{attributes}.{RESOURCE} == {json.dumps(resource)}"
    )
    return _class(resource_class_name(resource), expression, resource)


def resource_class_name(resource: str) -> str:
    """`nvidia.com--gpu` for `nvidia.com/gpu`. Two resources never make one name."""
    plain = _ILLEGAL.sub("-", resource.lower().replace("/", _SLASH, 1))
    is_exact = plain == resource.replace("/", _SLASH) and plain.count(_SLASH) == 1
    if is_exact and not dns_subdomain(plain):
        return plain
    digest = hashlib.sha256(resource.encode()).hexdigest()[:_DIGEST]
    cut = re.sub(r"[.-]*\.[.-]*", ".", plain)[: _LONGEST - _DIGEST - 1].strip(".-")
    return f"{cut}-{digest}" if cut else digest


def _class(name: str, expression: str, resource: str | None = None) -> DeviceClass:
    selector = DeviceSelector(cel=CELDeviceSelector(expression=expression))
    spec = DeviceClassSpec(selectors=(selector,), extended_resource_name=resource)
    return DeviceClass(metadata=ObjectMeta(name=name, labels=_LABELS), spec=spec)


async def ensure_classes(client: Client, wanted: Iterable[DeviceClass]) -> Ensured:
    """Make those that were never there. By any number of nodes at once, and again after a crash in the middle.

    Without the right to do so an administrator makes the classes: that is told in one line and is no error. An error of
    the connection is raised; call it again.
    """
    try:
        return await _ensure(client, {one.metadata.name: one for one in wanted})
    except DeniedError as error:
        _log.warning("device classes are not made: apply them yourself, or grant the right", error=str(error))
        return Ensured(denied=str(error))


async def _ensure(client: Client, wanted: dict[str, DeviceClass]) -> Ensured:
    missing = sorted(wanted.keys() - await _noted(client))
    made, without = [], []
    for name in missing:
        try:
            stored = await client.create(DEVICE_CLASSES, wanted[name])
        except ConflictError:
            _log.info("device class is there already, and stays as it is", name=name)
            continue
        made.append(name)
        if stored.spec.extended_resource_name != wanted[name].spec.extended_resource_name:
            without.append(name)
    if without:
        text = "device classes without their extended resource: the feature gate DRAExtendedResource is probably off"
        _log.warning(text, classes=",".join(without))
    if missing:
        await _note(client, missing)
    if made:
        _log.info("device classes made", names=",".join(made))
    return Ensured(tuple(made), tuple(without))


async def _noted(client: Client) -> Collection[str]:
    """Where nothing can be noted nothing is made either, so the right to note is tried first."""
    try:
        return (await client.get(CONFIG_MAPS, NOTES, namespace=NAMESPACE)).data.keys()
    except NotFoundError:
        await _note(client, ())
        return set()


async def _note(client: Client, names: Iterable[str]) -> None:
    """After the classes were made: the other way round a crash in between would leave them unmade for good."""
    data = dict.fromkeys(names, "made")
    metadata = ObjectMeta(name=NOTES, namespace=NAMESPACE, labels=_LABELS)
    try:
        await client.patch(CONFIG_MAPS, NOTES, {"data": data}, namespace=NAMESPACE)
    except NotFoundError:
        try:
            await client.create(CONFIG_MAPS, ConfigMap(metadata=metadata, data=data))
        except ConflictError:  # another node was first
            await client.patch(CONFIG_MAPS, NOTES, {"data": data}, namespace=NAMESPACE)
