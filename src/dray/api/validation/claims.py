"""Rules for the spec of ResourceClaim and ResourceClaimTemplate, and for what DeviceClass adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_CONFIGS, MAX_CONSTRAINTS, MAX_FIRST_AVAILABLE, MAX_REQUESTS
from dray.api.resource.claim import (
    ALL,
    EXACT_COUNT,
    DeviceClaim,
    DeviceClaimConfiguration,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from dray.api.resource.device_class import DeviceClass, DeviceClassConfiguration
from dray.api.validation.configuration import check_opaque, check_selectors, same_parameters
from dray.api.validation.device_taints import check_device_tolerations
from dray.api.validation.faults import (
    CheckSelector,
    by_rule,
    by_rule_or_required,
    check_list,
    check_set,
    immutable,
    invalid,
    itself,
    not_supported,
    required,
)
from dray.api.validation.metadata import check_template_metadata

_SPEC: Final = Path("spec")
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"
_NO_SUCH_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
RequestNames = Mapping[str, frozenset[str]]
"""The requests of a claim, each with its subrequests."""


def request_names(claim: DeviceClaim) -> RequestNames:
    """What constraints, configuration and allocation results may refer to."""
    return {
        request.name: frozenset(alternative.name for alternative in request.first_available)
        for request in claim.requests
    }


def check_claim(
    new: ResourceClaim, old: ResourceClaim | None, check_selector: CheckSelector | None
) -> list[FieldError]:
    """A claim to be created. An update may not touch the spec, which then needs no second look."""
    if old is not None:
        return [] if _same(new.spec, old.spec) else [immutable(_SPEC, new.spec)]
    return _device_claim(new.spec.devices, _SPEC.child("devices"), check_selector)


def check_template(
    new: ResourceClaimTemplate, old: ResourceClaimTemplate | None, check_selector: CheckSelector | None
) -> list[FieldError]:
    """A template; the API server looks at all of it again on update, though the spec may not change."""
    errors = check_template_metadata(new.spec.metadata, _SPEC.child("metadata"))
    errors += _device_claim(new.spec.spec.devices, _SPEC.child("spec", "devices"), check_selector)
    if old is not None:
        same = new.spec.metadata == old.spec.metadata and _same(new.spec.spec, old.spec.spec)
        errors += [] if same else [immutable(_SPEC, new.spec)]
    return errors


def _same(new: ResourceClaimSpec, old: ResourceClaimSpec) -> bool:
    return new == old and same_parameters(new.devices.config, old.devices.config)


def _device_claim(claim: DeviceClaim, path: Path, check_selector: CheckSelector | None) -> list[FieldError]:
    known = request_names(claim)

    def check_request(request: DeviceRequest, here: Path) -> list[FieldError]:
        return _request(request, here, check_selector)

    def check_constraint(constraint: DeviceConstraint, here: Path) -> list[FieldError]:
        return _constraint(constraint, here, known)

    def check_config(config: DeviceClaimConfiguration, here: Path) -> list[FieldError]:
        errors = check_request_refs(config.requests, known, here.child("requests"))
        return errors + check_opaque(config.opaque, here)

    requests = path.child("requests")
    errors = check_set(claim.requests, MAX_REQUESTS, check_request, lambda request: request.name, requests)
    errors += check_list(claim.constraints, MAX_CONSTRAINTS, check_constraint, path.child("constraints"))
    return errors + check_list(claim.config, MAX_CONFIGS, check_config, path.child("config"))


def _request(request: DeviceRequest, path: Path, check_selector: CheckSelector | None) -> list[FieldError]:
    errors = by_rule(names.dns_label, request.name, path.child("name"))
    if request.exactly is not None and request.first_available:
        return [*errors, invalid(path, None, f"{_ONE_KIND}, but multiple fields are set")]
    if request.exactly is not None:
        return errors + _devices_wanted(request.exactly, path.child("exactly"), check_selector)
    if not request.first_available:
        return [*errors, required(path, _ONE_KIND)]

    def check(alternative: DeviceSubRequest, here: Path) -> list[FieldError]:
        faults = by_rule(names.dns_label, alternative.name, here.child("name"))
        return faults + _devices_wanted(alternative, here, check_selector)

    here = path.child("firstAvailable")
    return errors + check_set(
        request.first_available, MAX_FIRST_AVAILABLE, check, lambda alternative: alternative.name, here
    )


def _devices_wanted(
    wanted: ExactDeviceRequest | DeviceSubRequest, path: Path, check_selector: CheckSelector | None
) -> list[FieldError]:
    """What both kinds of request share. Keys and amounts of `capacity` are not looked at, as in 1.36."""
    class_path = path.child("deviceClassName")
    errors = by_rule_or_required(names.dns_subdomain, wanted.device_class_name, class_path)
    errors += check_selectors(wanted.selectors, path.child("selectors"), check_selector)
    match wanted.allocation_mode:
        case "All":
            if wanted.count != 0:
                text = f"must not be specified when allocationMode is '{ALL}'"
                errors.append(invalid(path.child("count"), wanted.count, text))
        case "ExactCount":
            if wanted.count <= 0:
                errors.append(invalid(path.child("count"), wanted.count, "must be greater than zero"))
        case mode:
            errors.append(not_supported(path.child("allocationMode"), mode, (ALL, EXACT_COUNT)))
    return errors + check_device_tolerations(wanted.tolerations, path.child("tolerations"))


def _constraint(constraint: DeviceConstraint, path: Path, known: RequestNames) -> list[FieldError]:
    """With both attributes set only `matchAttribute` is looked at: the API server lets that pass."""
    errors = check_request_refs(constraint.requests, known, path.child("requests"))
    for field, attribute in (
        ("matchAttribute", constraint.match_attribute),
        ("distinctAttribute", constraint.distinct_attribute),
    ):
        if attribute is not None:
            return errors + by_rule(names.fully_qualified_name, attribute, path.child(field))
    text = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
    return [*errors, required(path, text)]


def check_request_refs(refs: tuple[str, ...], known: RequestNames, path: Path) -> list[FieldError]:
    """A set of references to requests or subrequests."""

    def check(ref: str, here: Path) -> list[FieldError]:
        return check_request_ref(ref, known, here)

    return check_set(refs, MAX_REQUESTS, check, itself, path)


def check_request_ref(ref: str, known: RequestNames, path: Path) -> list[FieldError]:
    """`REQUEST` or `REQUEST/SUBREQUEST`, and it must exist."""
    segments = ref.split("/")
    if len(segments) > 2:
        return [invalid(path, ref, _NO_SUCH_REQUEST)]
    errors: list[FieldError] = []
    for segment in segments:
        errors += by_rule(names.dns_label, segment, path)
    exists = segments[0] in known and (len(segments) == 1 or segments[1] in known[segments[0]])
    return errors if exists else [*errors, invalid(path, ref, _NO_SUCH_REQUEST)]


def check_class(
    new: DeviceClass, old: DeviceClass | None, check_selector: CheckSelector | None
) -> list[FieldError]:
    """A class. Selectors and configuration that did not change count as stored: later limits do not apply."""
    stored = old is not None and old.spec.selectors == new.spec.selectors
    errors = check_selectors(new.spec.selectors, _SPEC.child("selectors"), check_selector, stored=stored)
    config_stored = old is not None and old.spec.config == new.spec.config

    def check(config: DeviceClassConfiguration, here: Path) -> list[FieldError]:
        return check_opaque(config.opaque, here, stored=config_stored)

    errors += check_list(new.spec.config, MAX_CONFIGS, check, _SPEC.child("config"))
    name = new.spec.extended_resource_name
    if name is not None and not names.is_extended_resource_name(name):
        text = "must be a valid extended resource name"
        errors.append(invalid(_SPEC.child("extendedResourceName"), name, text))
    return errors
