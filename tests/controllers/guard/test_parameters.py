from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dray.controllers.guard.parameters import Parameters
from dray.errors import HardwareError, InvalidError
from tests.controllers.objects import Json


def sample(parameters: Mapping[str, Any]) -> None:
    """Of a driver that knows one field."""
    if parameters.get("mode") not in ("fast", "slow"):
        raise InvalidError(f"mode: is {parameters.get('mode')!r}, must be fast or slow", field="mode")


def entry(mode: object, *requests: str, driver: str = "ours.example") -> Json:
    opaque = {"driver": driver, "parameters": {"kind": "Config", "mode": mode}}
    return {"opaque": opaque} | ({"requests": list(requests)} if requests else {})


PARAMETERS = Parameters({"ours.example": sample})


@pytest.mark.parametrize(
    ("resource", "place", "around"),
    [
        ("resourceclaims", "spec.devices.config", lambda config: {"devices": {"config": config}}),
        (
            "resourceclaimtemplates",
            "spec.spec.devices.config",
            lambda config: {"spec": {"devices": {"config": config}}},
        ),
        ("deviceclasses", "spec.config", lambda config: {"config": config}),
    ],
)
def test_faults_name_field_driver_and_requests(resource: str, place: str, around: Any) -> None:
    good, foreign = entry("fast"), entry("other", driver="theirs.example")
    PARAMETERS.check(resource, {"spec": around([good, foreign])})
    config = [good, entry("warp", "a", "b"), foreign, entry(3)]
    with pytest.raises(InvalidError) as caught:
        PARAMETERS.check(resource, {"spec": around(config)})
    assert str(caught.value) == (
        f"{place}[1].opaque.parameters.mode: is 'warp', must be fast or slow (driver ours.example, requests: a, b); "
        f"{place}[3].opaque.parameters.mode: is 3, must be fast or slow (driver ours.example, requests: all)"
    )


def test_what_is_stored_already_does_not_get_stuck() -> None:
    old = {"metadata": {"labels": {}}, "spec": {"config": [entry("warp")]}}
    PARAMETERS.check("deviceclasses", old | {"metadata": {"labels": {"a": "b"}}}, old)
    with pytest.raises(InvalidError, match=r"spec\.config\[1\]"):
        PARAMETERS.check("deviceclasses", {"spec": {"config": [entry("fast"), entry("warp")]}}, old)


@pytest.mark.parametrize("parameters", [None, "text", [1]])
def test_parameters_that_are_no_object_are_refused(parameters: object) -> None:
    config = [{"opaque": {"driver": "ours.example", "parameters": parameters}}]
    with pytest.raises(InvalidError, match=r"spec\.config\[0\]\.opaque\.parameters: must be an object"):
        PARAMETERS.check("deviceclasses", {"spec": {"config": config}})


@pytest.mark.parametrize(
    ("resource", "document"),
    [
        ("pods", {"spec": {"config": [entry("warp")]}}),
        ("deviceclasses", {}),
        ("deviceclasses", {"spec": None}),
        ("deviceclasses", {"spec": {"config": {"a": 1}}}),
        ("deviceclasses", {"spec": {"config": [None, {}, {"opaque": None}, {"opaque": {"driver": []}}]}}),
    ],
)
def test_what_holds_no_parameters_passes(resource: str, document: Json) -> None:
    """Whether the object itself is well formed is the API server's business."""
    PARAMETERS.check(resource, document)


def test_a_check_with_a_fault_of_its_own_refuses() -> None:
    def faulty(parameters: Mapping[str, Any]) -> None:
        raise HardwareError("theirs.example: config failed: KeyError: 'x'")

    with pytest.raises(InvalidError) as caught:
        Parameters({"theirs.example": faulty}).check(
            "deviceclasses", {"spec": {"config": [entry("fast", driver="theirs.example")]}}
        )
    assert str(caught.value) == (
        "spec.config[0].opaque.parameters: theirs.example: config failed: KeyError: 'x' "
        "(driver theirs.example, requests: all)"
    )
