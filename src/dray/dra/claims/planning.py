"""A claim and the inventory of now → the entry to begin with. Pure; the devices are looked at as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeGuard

import msgspec

from dray.dra.claims.asking import Wanted, WantedRequest
from dray.dra.claims.books import PrepareOptions, Surroundings
from dray.dra.claims.claim_files import request_id
from dray.dra.claims.deciding import overlap_within
from dray.dra.claims.metadata import MetadataFiles
from dray.dra.claims.state import Entry, Holding, Phase, Request, decode_entry, encode_entry
from dray.dra.claims.stored_device import store
from dray.dra.parcels import PreparedDevice
from dray.drivers.contract import Asked, Device, Driver, Health, TakesClaims
from dray.errors import HardwareError, InvalidError, NotFoundError

_OF_CLAIMS: Final = ("check_parameters", "prepare_claim", "release_claim")


@dataclass(frozen=True, slots=True)
class Plan:
    """The entry, and its devices as they are now, by name."""

    entry: Entry
    devices: Mapping[str, Device]

    def asked(self) -> tuple[Asked, ...]:
        """For the driver, one for each request."""
        return tuple(
            replace(
                request.asked(self.entry.claim.uid),
                devices=tuple(self.devices[one.wanted.device] for one in request.holdings),
            )
            for request in self.entry.requests
        )


def make_plan(wanted: Wanted, options: PrepareOptions, around: Surroundings, *, strict: bool = True) -> Plan:
    """Errors: NotFoundError (a device is gone), HardwareError (it is not healthy), InvalidError (parameters).

    Not `strict`: only the first counts. It is for claims that were prepared by somebody before.
    """
    driver = around.driver()
    devices = {name: _found(name, wanted, around) for name in wanted.devices}
    if strict:
        for one in wanted.requests:
            _check_health(one, devices, wanted)
            _check_parameters(one, driver, wanted)
    requests = tuple(_request(one, devices, wanted, around) for one in wanted.requests)
    entry = Entry(wanted.ref, Phase.STARTED, requests, wanted.pod_claim, options.boot_id)
    if (twice := overlap_within(entry)) is not None:
        text = f"claim {wanted.ref} has device {twice.wanted.device}, or a part of it, more than once"
        raise InvalidError(text, field="status.allocation.devices.results")
    _check_storable(entry)
    return Plan(entry, devices)


def takes_claims(driver: Driver) -> TypeGuard[TakesClaims]:
    """What `isinstance` says, in a fiftieth of the time: it is asked for every request of every claim."""
    return all(callable(getattr(driver, name, None)) for name in _OF_CLAIMS)


def _check_storable(entry: Entry) -> None:
    """What a driver tells of its devices may be anything. It must come back from the checkpoint, or all claims are lost."""
    try:
        decode_entry(encode_entry(entry))
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, NotImplementedError) as error:
        text = f"the devices of claim {entry.claim} cannot be noted, because their driver tells no plain facts: {error}"
        raise HardwareError(text, device=entry.requests[0].holdings[0].device.id) from error


def _found(name: str, wanted: Wanted, around: Surroundings) -> Device:
    device = around.find(name)
    if device is None:
        text = f"device {name} of claim {wanted.ref} is not on this node (any more): delete the pod to get another"
        raise NotFoundError(text, kind="device", name=name)
    return device


def _check_health(request: WantedRequest, devices: Mapping[str, Device], wanted: Wanted) -> None:
    """adminAccess is for looking after devices, the broken ones first of all."""
    for one in request.devices:
        device = devices[one.device]
        if device.health is not Health.HEALTHY and not request.admin_access:
            text = f"device {one.device} of claim {wanted.ref} is not healthy: {device.reason or 'no reason is known'}"
            raise HardwareError(text, device=device.id)


def _check_parameters(request: WantedRequest, driver: Driver, wanted: Wanted) -> None:
    if not request.parameters:
        return
    if not takes_claims(driver):
        text = f"claim {wanted.ref}, request {request.name}: devices of kind {driver.kind} take no parameters"
        raise InvalidError(text, field="status.allocation.devices.config")
    for parameters in request.parameters:
        try:
            driver.check_parameters(parameters)
        except InvalidError as error:
            text = f"claim {wanted.ref}, request {request.name}: {error}"
            raise InvalidError(text, field=error.field, causes=error.causes) from error


def _request(
    request: WantedRequest, devices: Mapping[str, Device], wanted: Wanted, around: Surroundings
) -> Request:
    holdings = tuple(
        Holding(
            one,
            store(devices[one.device]),
            devices[one.device].parts,
            dict(around.attributes(devices[one.device])),
        )
        for one in request.devices
    )
    label = _label(request, devices, wanted)
    parameters: tuple[dict[str, Any], ...] = tuple(dict(one) for one in request.parameters)
    return Request(request.name, label, holdings, request.admin_access, parameters, named=request.named)


def _label(request: WantedRequest, devices: Mapping[str, Device], wanted: Wanted) -> str:
    """A container that asked for an extended resource finds the variables that a device plugin gives."""
    resources = {devices[one.device].resource for one in request.devices}
    if wanted.is_extended and len(resources) == 1 and "" not in resources:
        return resources.pop()
    return f"{wanted.pod_claim or wanted.ref.name}/{request.base_name}"


def make_answer(entry: Entry, options: PrepareOptions, metadata: MetadataFiles) -> tuple[PreparedDevice, ...]:
    """For the kubelet, out of a completed entry: the first device of a request carries what the whole request gets."""
    uid = entry.claim.uid
    answer: list[PreparedDevice] = []
    for request in entry.requests:
        ids = (request_id(options.driver, uid, request), metadata.request_id(uid, request))
        cdi_ids = tuple(one for one in ids if one is not None)
        for position, held in enumerate(request.holdings):
            wanted = held.wanted
            answer.append(
                PreparedDevice(
                    (request.base_name,),
                    options.pool,
                    wanted.device,
                    () if position else cdi_ids,
                    wanted.share_id,
                )
            )
    return tuple(answer)
