"""A claim as this driver reads it: its devices by request, and the parameters that apply to each. Pure.

Nothing in a claim is trusted: names become parts of file names, and parameters go to code of a driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import msgspec

from dray.api.codec import encode_hook
from dray.api.limits import (
    EXTENDED_RESOURCE_CLAIM_ANNOTATION,
    MAX_ALLOCATION_CONFIGS,
    MAX_ALLOCATION_RESULTS,
    MAX_OPAQUE_PARAMETERS_LENGTH,
    POD_CLAIM_NAME_ANNOTATION,
)
from dray.api.names import dns_label, dns_subdomain, is_uid_for_files, size
from dray.api.names import share_id as share_id_faults
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import (
    FROM_CLASS,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dray.dra.parcels import ClaimRef
from dray.errors import InvalidError

_RESULTS: Final = "status.allocation.devices.results"
_CONFIG: Final = "status.allocation.devices.config"


class WantedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device of an allocation. It is equal where the same was allocated."""

    device: str
    share_id: str | None = None
    consumed: dict[str, str] = {}


Allocation = tuple[tuple[str, bool, tuple[WantedDevice, ...]], ...]
"""Requests, whether they have adminAccess, and their devices; equal where nothing was allocated anew."""


@dataclass(frozen=True, slots=True)
class WantedRequest:
    """One request. `name` may be `REQUEST/SUBREQUEST`; `parameters` are those of the class, then those of the claim."""

    name: str
    devices: tuple[WantedDevice, ...]
    admin_access: bool = False
    parameters: tuple[Mapping[str, Any], ...] = ()
    named: tuple[bool, ...] = ()
    """Which of the parameters name the request."""

    @property
    def base_name(self) -> str:
        """What the kubelet and containers call it; unique within a claim."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a claim wants of this driver. `pod_claim` is its name in the pod where it was made from a template."""

    ref: ClaimRef
    requests: tuple[WantedRequest, ...]
    pod_claim: str = ""
    is_extended: bool = False
    """Whether it stands for an extended resource that a container asked for as of a device plugin."""

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all, sorted, each once."""
        return tuple(sorted({one.device for request in self.requests for one in request.devices}))

    @property
    def allocation(self) -> Allocation:
        """What was allocated, to compare."""
        return tuple((one.name, one.admin_access, one.devices) for one in self.requests)


def read_claim(claim: ResourceClaim, driver: str, pool: str) -> Wanted:
    """InvalidError, which names the field, for a claim that is not allocated to this driver and pool, or is malformed."""
    meta = claim.metadata
    ref = ClaimRef(meta.namespace, meta.name, meta.uid)
    check_ref(ref)
    pod_claim = meta.annotations.get(POD_CLAIM_NAME_ANNOTATION, "")
    if pod_claim and dns_label(pod_claim):
        _refuse(ref, f"metadata.annotations[{POD_CLAIM_NAME_ANNOTATION}]", f"{pod_claim!r} is no DNS label")
    allocation = claim.status.allocation
    if allocation is None:
        _refuse(ref, "status.allocation", "it is not allocated")
    is_extended = meta.annotations.get(EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"
    return Wanted(ref, _requests(ref, allocation.devices, driver, pool), pod_claim, is_extended)


def check_ref(ref: ClaimRef) -> None:
    """InvalidError unless its parts can stand in the names of files."""
    if dns_label(ref.namespace):
        raise InvalidError(
            f"claim namespace {_shown(ref.namespace)} is no DNS label", field="metadata.namespace"
        )
    if dns_subdomain(ref.name):
        raise InvalidError(f"claim name {_shown(ref.name)} is no DNS subdomain", field="metadata.name")
    if not is_uid_for_files(ref.uid):
        text = f"claim {ref}: uid {_shown(ref.uid)} must be letters, digits and dashes, 128 at most"
        raise InvalidError(text, field="metadata.uid")


def _requests(
    ref: ClaimRef, devices: DeviceAllocationResult, driver: str, pool: str
) -> tuple[WantedRequest, ...]:
    if len(devices.results) > MAX_ALLOCATION_RESULTS or len(devices.config) > MAX_ALLOCATION_CONFIGS:
        text = f"more than {MAX_ALLOCATION_RESULTS} devices or {MAX_ALLOCATION_CONFIGS} configurations"
        _refuse(ref, _RESULTS, text)
    by_request: dict[str, list[DeviceRequestAllocationResult]] = {}
    for position, result in enumerate(devices.results):
        if result.driver == driver:
            _check_result(ref, result, pool, f"{_RESULTS}[{position}]")
            by_request.setdefault(result.request, []).append(result)
    if not by_request:
        _refuse(ref, _RESULTS, f"no device of driver {driver} is allocated")
    made = tuple(_request(ref, name, results) for name, results in by_request.items())
    if len({request.base_name for request in made}) < len(made):
        _refuse(ref, _RESULTS, "two subrequests of one request are allocated")
    return tuple(_with_parameters(ref, request, devices.config, driver) for request in made)


def _check_result(ref: ClaimRef, result: DeviceRequestAllocationResult, pool: str, field: str) -> None:
    if result.pool != pool:
        _refuse(
            ref, f"{field}.pool", f"pool {_shown(result.pool)} is not ours, which is {pool}: another node's?"
        )
    if dns_label(result.device):
        _refuse(ref, f"{field}.device", f"device {_shown(result.device)} is no DNS label")
    parts = result.request.split("/")
    if len(parts) > 2 or any(dns_label(part) for part in parts):
        _refuse(
            ref, f"{field}.request", f"request {_shown(result.request)} is no REQUEST or REQUEST/SUBREQUEST"
        )
    if result.share_id is not None and share_id_faults(result.share_id):
        _refuse(ref, f"{field}.shareID", f"share {_shown(result.share_id)} is no UUID in lower case")


def _request(ref: ClaimRef, name: str, results: list[DeviceRequestAllocationResult]) -> WantedRequest:
    admin = {bool(result.admin_access) for result in results}
    if len(admin) > 1:
        _refuse(ref, _RESULTS, f"request {name} has devices with and without adminAccess")
    devices = tuple(
        WantedDevice(
            result.device,
            result.share_id,
            {name: str(amount) for name, amount in sorted(result.consumed_capacity.items())},
        )
        for result in results
    )
    if len({(one.device, one.share_id) for one in devices}) < len(devices):
        _refuse(ref, _RESULTS, f"request {name} has one device twice")
    return WantedRequest(name, devices, admin.pop())


def _with_parameters(
    ref: ClaimRef,
    request: WantedRequest,
    configs: Iterable[DeviceAllocationConfiguration],
    driver: str,
) -> WantedRequest:
    found: list[tuple[bool, bool, Mapping[str, Any]]] = []
    for position, config in enumerate(configs):
        if config.opaque is None or config.opaque.driver != driver or not _applies(config.requests, request):
            continue
        given = _parameters(ref, config.opaque.parameters, f"{_CONFIG}[{position}].opaque.parameters")
        found.append((config.source != FROM_CLASS, bool(config.requests), given))
    found.sort(key=lambda one: one[0])
    values = tuple(one for _, _, one in found)
    named = tuple(is_named for _, is_named, _ in found)
    return WantedRequest(request.name, request.devices, request.admin_access, values, named)


def _applies(requests: Iterable[str], request: WantedRequest) -> bool:
    """Those that name no request are for all; those of a request are for each of its subrequests too."""
    named = tuple(requests)
    return not named or request.name in named or request.base_name in named


def _parameters(ref: ClaimRef, values: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        _refuse(ref, field, "it must be a JSON object")
    try:
        text = msgspec.json.encode(values, enc_hook=encode_hook)
        # The client keeps numbers as they are written; a driver's own types take plain ones only.
        plain: dict[str, Any] = msgspec.json.decode(text)
    except (ValueError, TypeError, OverflowError, RecursionError, NotImplementedError):
        _refuse(ref, field, "it is no JSON, or nested too deep")
    if len(text) > MAX_OPAQUE_PARAMETERS_LENGTH:
        limit = MAX_OPAQUE_PARAMETERS_LENGTH
        _refuse(ref, field, f"it has {len(text)} bytes, more than the limit of {limit}")
    return plain


def _refuse(ref: ClaimRef, field: str, text: str) -> NoReturn:
    raise InvalidError(f"claim {ref}: {field}: {text}", field=field)


def _shown(text: str) -> str:
    """Something hostile, in a line for people."""
    return repr(text) if size(text) <= 80 else f"{text[:60]!r}… ({size(text)} bytes)"
