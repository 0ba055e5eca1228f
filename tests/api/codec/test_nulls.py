from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec.json_codec import decode, encode
from dray.api.codec.nulls import without_nulls
from dray.api.quantity import ZERO
from dray.api.resource import DeviceAttribute, DeviceClass, DeviceSelector, ResourceClaim, ResourceSlice


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ({"spec": None}, {}),
        ({"spec": {"devices": None, "driver": None, "nodeName": None}}, {"spec": {}}),
        ({"spec": {"devices": [None, {"name": None}]}}, {"spec": {"devices": [{}, {}]}}),
        ({"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": ""}}}),
        ({"metadata": {"finalizers": [None, "a"]}}, {"metadata": {"finalizers": ["", "a"]}}),
        ({"unknown": {"a": None}}, {"unknown": {"a": None}}),
        ({"spec": 5, "metadata": [None]}, {"spec": 5, "metadata": [None]}),
    ],
)
def test_without_nulls(given: dict[str, Any], cleaned: dict[str, Any]) -> None:
    assert without_nulls(given, ResourceSlice) == cleaned


def test_decoding_takes_null_as_kubernetes_does() -> None:
    document = {
        "metadata": {"creationTimestamp": None},
        "spec": {
            "devices": [
                {"attributes": {"a": None, "b": {"ints": [None]}}, "capacity": {"m": {"value": None}}},
                None,
            ]
        },
    }
    devices = decode(encode(document), ResourceSlice).spec.devices
    assert devices is not None
    assert devices[0].attributes == {"a": DeviceAttribute(), "b": DeviceAttribute(int_values=(0,))}
    assert devices[0].capacity["m"].value == ZERO
    assert devices[1].name == ""


def test_a_pointer_may_be_null_and_parameters_keep_theirs() -> None:
    document = {
        "spec": {"selectors": [None], "config": [{"opaque": {"parameters": {"a": None}}}, {"opaque": None}]}
    }
    spec = decode(encode(document), DeviceClass).spec
    assert spec.selectors == (DeviceSelector(),)
    assert spec.config[0].opaque is not None
    assert spec.config[0].opaque.parameters == {"a": None}
    assert spec.config[1].opaque is None


def test_a_status_of_null() -> None:
    assert (
        decode(b'{"status":{"allocation":null,"reservedFor":null}}', ResourceClaim).status.allocation is None
    )
