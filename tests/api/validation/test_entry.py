from __future__ import annotations

import pytest
from msgspec.structs import replace

from dray.api.core import ConfigMap
from dray.api.field_errors import FieldError, Path, Reason
from dray.api.kinds import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.api.meta import ObjectMeta
from dray.api.resource import DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from dray.api.resource.device_class import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from dray.api.validation import (
    CheckSelector,
    check_admin_access,
    check_admin_access_status,
    validate,
    validate_status,
)
from dray.errors import InvalidError
from tests.api.cases.claim_status import allocated
from tests.api.cases.claims import claim_document, template_document
from tests.api.cases.ours import view
from tests.api.cases.slices import slice_document
from tests.counting import Calls

Asked = list[tuple[str, str, bool]]


def recorder(asked: Asked) -> CheckSelector:
    def check(expression: str, path: Path, stored: bool) -> list[FieldError]:
        asked.append((expression, str(path), stored))
        return [FieldError(str(path), Reason.INVALID, "no")] if expression == "bad" else []

    return check


def device_class(*expressions: str, version: str = "") -> DeviceClass:
    selectors = tuple(DeviceSelector(cel=CELDeviceSelector(expression=text)) for text in expressions)
    meta = ObjectMeta(name="c", uid="u", resource_version=version)
    return DeviceClass(metadata=meta, spec=DeviceClassSpec(selectors=selectors))


def test_selector_texts_go_through_the_hook() -> None:
    asked: Asked = []
    errors = validate(DEVICE_CLASSES, device_class("good", "bad"), check_selector=recorder(asked))
    assert asked == [
        ("good", "spec.selectors[0].cel.expression", False),
        ("bad", "spec.selectors[1].cel.expression", False),
    ]
    assert [error.field for error in errors] == ["spec.selectors[1].cel.expression"]


def test_unchanged_selectors_count_as_stored() -> None:
    for new, stored in (
        (device_class("a", "b", version="1"), True),
        (device_class("b", "a", version="1"), False),
    ):
        asked: Asked = []
        validate(DEVICE_CLASSES, new, device_class("a", "b"), check_selector=recorder(asked))
        assert [entry[2] for entry in asked] == [stored, stored]


def test_selectors_of_both_kinds_of_request_are_asked_about() -> None:
    selector = (DeviceSelector(cel=CELDeviceSelector(expression="bad")),)
    exact = ExactDeviceRequest(device_class_name="c", allocation_mode="All", selectors=selector)
    sub = DeviceSubRequest(name="s", device_class_name="c", allocation_mode="All", selectors=selector)
    claim = ResourceClaim(metadata=ObjectMeta(name="a", namespace="b"))
    devices = replace(
        claim.spec.devices,
        requests=(DeviceRequest(name="a", exactly=exact), DeviceRequest(name="b", first_available=(sub,))),
    )
    claim = replace(claim, spec=replace(claim.spec, devices=devices))
    errors = validate(RESOURCE_CLAIMS, claim, check_selector=recorder([]))
    assert [error.field for error in errors] == [
        "spec.devices.requests[0].exactly.selectors[0].cel.expression",
        "spec.devices.requests[1].firstAvailable[0].selectors[0].cel.expression",
    ]


def test_too_long_or_empty_texts_are_not_compiled() -> None:
    asked: Asked = []
    errors = validate(DEVICE_CLASSES, device_class("", "x" * 10241), check_selector=recorder(asked))
    assert asked == []
    assert [error.reason for error in errors] == [Reason.INVALID, Reason.TOO_LONG]


def test_a_kind_without_status() -> None:
    with pytest.raises(InvalidError, match="configmaps have no status"):
        validate_status(CONFIG_MAPS, ConfigMap(), ConfigMap())


def test_admin_access_needs_a_marked_namespace() -> None:
    document = claim_document()
    document["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    claim = view(RESOURCE_CLAIMS, document)
    [error] = check_admin_access(claim, {})
    assert (error.field, error.reason) == ("spec.devices.requests[0].adminAccess", Reason.FORBIDDEN)
    assert check_admin_access(claim, {"resource.kubernetes.io/admin-access": "true"}) == []
    assert check_admin_access(view(RESOURCE_CLAIMS, claim_document()), {}) == []
    assert validate(RESOURCE_CLAIMS, claim) != [], "defaulting is missing, which is another matter"


def test_admin_access_of_templates_is_reported_like_that_of_claims() -> None:
    document = template_document()
    document["spec"]["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = True
    [error] = check_admin_access(view(RESOURCE_CLAIM_TEMPLATES, document), {})
    assert error.field == "spec.devices.requests[0].adminAccess"


def test_admin_access_cannot_come_by_status() -> None:
    status = allocated()
    status["allocation"]["devices"]["results"][1]["adminAccess"] = True
    old = view(RESOURCE_CLAIMS, claim_document())
    new = view(RESOURCE_CLAIMS, {**claim_document(), "status": status})
    [error] = check_admin_access_status(new, old, {})
    assert error.field == "status.allocation.devices.results[1].adminAccess"
    assert check_admin_access_status(new, new, {}) == []
    assert check_admin_access_status(new, old, {"resource.kubernetes.io/admin-access": "true"}) == []


def test_a_full_slice_takes_no_more_work_a_device_than_a_small_one() -> None:
    small, full = _work(32), _work(128)
    assert full < 5 * small
    assert full < 128 * 150, "some seventy calls a device"


def _work(devices: int) -> int:
    document = slice_document()
    device = document["spec"]["devices"][0]
    document["spec"]["devices"] = [{**device, "name": f"gpu-{number}"} for number in range(devices)]
    slices = view(RESOURCE_SLICES, document)
    validate(RESOURCE_SLICES, slices)
    with Calls() as calls:
        validate(RESOURCE_SLICES, slices)
    return calls.count
