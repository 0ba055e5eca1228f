"""Objects of older versions, read as those of v1."""

from __future__ import annotations

from typing import Any

from dray.allocation.cluster.versions import is_readable, raise_version
from dray.api.kinds import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES


def test_which_versions_are_read() -> None:
    group = "resource.k8s.io"
    assert [is_readable(RESOURCE_SLICES, f"{group}/{one}") for one in ("v1", "v1beta2", "v1beta1")] == [
        True
    ] * 3
    assert not is_readable(RESOURCE_SLICES, f"{group}/v1alpha3")
    assert is_readable(DEVICE_TAINT_RULES, f"{group}/v1") and not is_readable(PODS, "v2")


def test_fields_move_to_where_v1_has_them() -> None:
    old = "resource.k8s.io/v1beta1"
    one: dict[str, Any] = {
        "apiVersion": old,
        "spec": {"devices": [{"name": "d", "basic": {"attributes": {}}}, 5]},
    }
    raise_version(RESOURCE_SLICES, one)
    assert one == {
        "apiVersion": "resource.k8s.io/v1",
        "spec": {"devices": [{"name": "d", "attributes": {}}, 5]},
    }
    spec = {"devices": {"requests": [{"name": "r", "count": 2}, {"name": "s", "firstAvailable": []}]}}
    template: dict[str, Any] = {"apiVersion": old, "spec": {"spec": spec}}
    raise_version(RESOURCE_CLAIM_TEMPLATES, template)
    assert spec["devices"]["requests"] == [
        {"name": "r", "exactly": {"count": 2}},
        {"name": "s", "firstAvailable": []},
    ]
    odd: dict[str, Any] = {"apiVersion": old, "spec": []}
    raise_version(RESOURCE_SLICES, odd)
    assert odd["spec"] == []
