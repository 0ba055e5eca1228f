from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.codec import Manifest, loads
from dray.api.core import Pod
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.errors import InvalidError
from tests.campaign import campaign

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "n", "labels": {"a": "b"}, "futureMeta": {"x": [1, {"y": None}]}},
    "spec": {
        "containers": [
            {
                "name": "one",
                "image": "x",
                "future": 1,
                "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
            },
            {"name": "two", "image": "y", "future": 2},
        ],
        "futureSpec": True,
    },
}


def test_who_it_is() -> None:
    manifest = Manifest.of(POD, "f.yaml:3")
    assert (manifest.api_version, manifest.kind, manifest.namespace, manifest.name) == ("v1", "Pod", "n", "p")
    assert str(manifest) == "Pod n/p"
    odd = Manifest.of({"kind": 5, "metadata": []})
    assert (odd.api_version, odd.kind, odd.namespace, odd.name, str(odd)) == ("", "", "", "", "object")


def test_a_view_is_decoded_once() -> None:
    manifest = Manifest.of(POD)
    assert manifest.view(Pod) is manifest.view(Pod)
    assert manifest.view(Pod).metadata.name == "p"


@pytest.mark.parametrize("value", [None, [], "x", 5, True])
def test_only_objects_are_manifests(value: object) -> None:
    with pytest.raises(InvalidError, match="f:1: expected an object"):
        Manifest.of(value, "f:1")


def test_an_error_in_a_view_names_source_and_field() -> None:
    manifest = Manifest.of({"spec": {"devices": [{"name": 5}]}}, "f.yaml:7")
    with pytest.raises(InvalidError) as caught:
        manifest.view(ResourceSlice)
    assert str(caught.value) == "f.yaml:7: spec.devices[0].name: expected `str`, got `int`"
    assert caught.value.field == "spec.devices[0].name"


def test_an_update_keeps_what_the_view_does_not_know() -> None:
    manifest = Manifest.of(copy.deepcopy(POD), "f.yaml:1")
    before = manifest.view(Pod)
    one, two = before.spec.containers
    spec = msgspec.structs.replace(before.spec, containers=(msgspec.structs.replace(two, image="z"), one))
    after = msgspec.structs.replace(before, spec=spec)
    updated = manifest.updated(before, after)
    expected = copy.deepcopy(POD)
    expected["spec"]["containers"].reverse()
    expected["spec"]["containers"][0]["image"] = "z"
    assert updated.raw == expected
    assert updated.source == "f.yaml:1"
    assert manifest.raw == POD
    assert updated.view(Pod) == after


def test_no_change_is_no_new_manifest() -> None:
    manifest = Manifest.of(POD)
    assert manifest.updated(manifest.view(Pod), manifest.view(Pod)) is manifest


unknown = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
extras = st.dictionaries(st.sampled_from(["futureA", "futureB", "x-y", "é"]), unknown, max_size=3)


@settings(max_examples=campaign(100, 10_000))
@given(extras, extras, extras, extras, st.integers(1, 9))
def test_unknown_fields_survive(top: Any, meta: Any, inner: Any, status: Any, count: int) -> None:
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"} | meta,
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "d", "count": 1} | inner} | inner]
            }
        },
        "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"} | inner]} | status,
    } | top
    manifest = Manifest.of(loads(json.dumps(raw)))
    assert loads(manifest.encode()) == raw
    before = manifest.view(ResourceClaim)
    (request,) = before.spec.devices.requests
    assert request.exactly is not None
    exactly = msgspec.structs.replace(request.exactly, count=count)
    devices = msgspec.structs.replace(
        before.spec.devices, requests=(msgspec.structs.replace(request, exactly=exactly),)
    )
    after = msgspec.structs.replace(before, spec=msgspec.structs.replace(before.spec, devices=devices))
    expected = copy.deepcopy(raw)
    expected["spec"]["devices"]["requests"][0]["exactly"]["count"] = count
    assert manifest.updated(before, after).raw == expected
