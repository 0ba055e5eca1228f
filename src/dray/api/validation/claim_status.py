"""Rules for writing the status of a ResourceClaim: allocate, reserve, report, and the way back."""

from __future__ import annotations

import ipaddress
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.limits import (
    MAX_ALLOCATION_CONFIGS,
    MAX_ALLOCATION_RESULTS,
    MAX_DEVICE_STATUS_CONDITIONS,
    MAX_DEVICE_STATUS_DATA_LENGTH,
    MAX_HARDWARE_ADDRESS_LENGTH,
    MAX_INTERFACE_NAME_LENGTH,
    MAX_NETWORK_IPS,
    MAX_RESERVED_FOR,
)
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceRequestAllocationResult,
    NetworkDeviceData,
    ResourceClaimConsumerReference,
)
from dray.api.validation.claims import RequestNames, check_request_ref, check_request_refs, request_names
from dray.api.validation.conditions import check_conditions
from dray.api.validation.configuration import check_json_object, check_opaque, same_parameters
from dray.api.validation.device_taints import check_binding_conditions
from dray.api.validation.faults import (
    by_rule,
    by_rule_or_required,
    check_list,
    check_set,
    duplicates,
    forbidden,
    immutable,
    invalid,
    itself,
    longer_than,
    not_supported,
    required,
    too_long,
    too_many,
)
from dray.api.validation.node_selectors import check_node_selector

_STATUS: Final = Path("status")
_SOURCES: Final = (FROM_CLAIM, FROM_CLASS)
DeviceId = tuple[str, str, str, str]
"""Driver, pool, device, and share id or ""."""


def check_claim_status(new: ResourceClaim, old: ResourceClaim) -> list[FieldError]:
    """A new status for `old`; the caller has put the old spec and metadata under it.

    An allocation can be set and removed but never changed, so one that stays is not looked into again.
    """
    status, before = new.status, old.status
    reserved = _STATUS.child("reservedFor")
    errors = check_set(status.reserved_for, MAX_RESERVED_FOR, _consumer, lambda user: user.uid, reserved)
    errors += _devices(status.devices, status.allocation, _STATUS.child("devices"))
    if status.reserved_for:
        errors += _reservation(new, old, reserved)
    allocation = status.allocation
    if allocation is None:
        return errors
    here = _STATUS.child("allocation")
    if before.allocation is None:
        return errors + _allocation(allocation, request_names(new.spec.devices), here)
    same = allocation == before.allocation and same_parameters(
        allocation.devices.config, before.allocation.devices.config
    )
    return errors if same else [*errors, immutable(here, allocation)]


def _reservation(new: ResourceClaim, old: ResourceClaim, path: Path) -> list[FieldError]:
    if new.status.allocation is None:
        return [forbidden(path, "may not be specified when `allocated` is not set")]
    if new.metadata.deletion_timestamp is None:
        return []
    if {*new.status.reserved_for} <= {*old.status.reserved_for}:
        return []
    text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    return [forbidden(path, text)]


def _consumer(user: ResourceClaimConsumerReference, path: Path) -> list[FieldError]:
    fields = (("resource", user.resource), ("name", user.name), ("uid", user.uid))
    return [required(path.child(field)) for field, value in fields if not value]


def _allocation(allocation: AllocationResult, known: RequestNames, path: Path) -> list[FieldError]:
    def check_result(result: DeviceRequestAllocationResult, here: Path) -> list[FieldError]:
        return _result(result, known, here)

    def check_config(config: DeviceAllocationConfiguration, here: Path) -> list[FieldError]:
        return _config(config, known, here)

    devices = path.child("devices")
    results, configs = allocation.devices.results, allocation.devices.config
    errors = check_list(results, MAX_ALLOCATION_RESULTS, check_result, devices.child("results"))
    errors += check_list(configs, MAX_ALLOCATION_CONFIGS, check_config, devices.child("config"))
    if allocation.node_selector is not None:
        errors += check_node_selector(allocation.node_selector, path.child("nodeSelector"))
    return errors


def _result(result: DeviceRequestAllocationResult, known: RequestNames, path: Path) -> list[FieldError]:
    """Tolerations and consumed capacity are copies and not looked at, as in 1.36."""
    errors = check_request_ref(result.request, known, path.child("request"))
    errors += _device_id(result, path)
    return errors + check_binding_conditions(
        result.binding_conditions, result.binding_failure_conditions, path
    )


def _device_id(device: DeviceRequestAllocationResult | AllocatedDeviceStatus, path: Path) -> list[FieldError]:
    errors = by_rule_or_required(names.driver_name, device.driver, path.child("driver"))
    errors += by_rule_or_required(names.pool_name, device.pool, path.child("pool"))
    errors += by_rule(names.dns_label, device.device, path.child("device"))
    if device.share_id is not None:
        errors += by_rule(names.share_id, device.share_id, path.child("shareID"))
    return errors


def _config(config: DeviceAllocationConfiguration, known: RequestNames, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if not config.source:
        errors.append(required(path.child("source")))
    elif config.source not in _SOURCES:
        errors.append(not_supported(path.child("source"), config.source, _SOURCES))
    errors += check_request_refs(config.requests, known, path.child("requests"))
    return errors + check_opaque(config.opaque, path)


def device_id(device: DeviceRequestAllocationResult | AllocatedDeviceStatus) -> DeviceId:
    """What makes a device, or a share of one, the same in results and reports."""
    return device.driver, device.pool, device.device, device.share_id or ""


def _devices(
    devices: tuple[AllocatedDeviceStatus, ...], allocation: AllocationResult | None, path: Path
) -> list[FieldError]:
    if not devices:
        return []
    results = allocation.devices.results if allocation is not None else ()
    allocated = {device_id(result) for result in results}
    errors: list[FieldError] = []
    for position, device in enumerate(devices):
        errors += _device(device, allocated, path.index(position))
    return errors + duplicates(devices, device_id, path)


def _device(device: AllocatedDeviceStatus, allocated: set[DeviceId], path: Path) -> list[FieldError]:
    errors = _device_id(device, path)
    if device_id(device) not in allocated:
        shown = "/".join(part for part in device_id(device) if part)
        errors.append(invalid(path, shown, "must be an allocated device in the claim"))
    here = path.child("conditions")
    if len(device.conditions) > MAX_DEVICE_STATUS_CONDITIONS:
        errors.append(too_many(here, len(device.conditions), MAX_DEVICE_STATUS_CONDITIONS))
    errors += check_conditions(device.conditions, here)
    if device.data is not None:
        errors += check_json_object(device.data, path.child("data"), MAX_DEVICE_STATUS_DATA_LENGTH)
    if device.network_data is not None:
        errors += _network(device.network_data, path.child("networkData"))
    return errors


def _network(data: NetworkDeviceData, path: Path) -> list[FieldError]:
    errors = [
        too_long(path.child(field), limit)
        for field, value, limit in (
            ("interfaceName", data.interface_name, MAX_INTERFACE_NAME_LENGTH),
            ("hardwareAddress", data.hardware_address, MAX_HARDWARE_ADDRESS_LENGTH),
        )
        if longer_than(value, limit)
    ]
    return errors + check_set(data.ips, MAX_NETWORK_IPS, _address, itself, path.child("ips"))


def _address(text: str, path: Path) -> list[FieldError]:
    """An interface's address with the length of its network, in the one canonical form."""
    host, slash, _ = text.partition("/")
    bad = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        return [invalid(path, text, bad)]
    if not slash or "%" in host:
        return [invalid(path, text, bad)]
    mapped = isinstance(interface, ipaddress.IPv6Interface) and interface.ip.ipv4_mapped is not None
    canonical = f"{interface.ip}/{interface.network.prefixlen}"
    if mapped or text != canonical:
        return [invalid(path, text, f'must be in canonical form ("{canonical}")')]
    return []
