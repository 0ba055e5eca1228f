from __future__ import annotations

from base64 import b64decode

import pytest

from dray.api.codec import view
from dray.api.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.errors import InvalidError
from dray.testing.check.kubernetes_protobuf import read_object

# Both were written by Kubernetes' own serializer, k8s.io/apimachinery 0.36.
SLICE = b64decode(
    "azhzAAojChJyZXNvdXJjZS5rOHMuaW8vdjESDVJlc291cmNlU2xpY2USxQEKOAoAEgdub2RlLTEtGgAiACoAMgA4AEIAWgYKAWESAWJqFwoE"
    "Tm9kZRoGbm9kZS0xIgF1KgJ2MTABEogBCg1kLmV4YW1wbGUuY29tEgcKAXAQBxgBGgZub2RlLTEyZgoCZDASDQoEa2luZBIFIgNncHUSEAoB"
    "bhILEP3//////////wESCAoCb2sSAhgBGhIKBm1lbW9yeRIICgYKBDgwR2lCGwoBaxIAGgpOb1NjaGVkdWxlIggIpevcygYQAFIBeFIBeRoA"
    "IgA="
)
CLAIM = b64decode(
    "azhzAAojChJyZXNvdXJjZS5rOHMuaW8vdjESDVJlc291cmNlQ2xhaW0SPQoTCgFjEgAaAm5zIgAqADIAOABCABIkCiIKDAoBchIHCgFrGgAg"
    "AhoSEhAKDgoBZBIJCgd7ImEiOjF9GgAaACIA"
)


def test_a_slice() -> None:
    found = read_object(SLICE)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u", "controller": True}
    assert found["metadata"] == {
        "generateName": "node-1-",
        "generation": 0,
        "labels": {"a": "b"},
        "ownerReferences": [owner],
    }
    taint = {"key": "k", "value": "", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"}
    assert found["spec"] == {
        "driver": "d.example.com",
        "nodeName": "node-1",
        "pool": {"name": "p", "generation": 7, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "d0",
                "attributes": {"kind": {"string": "gpu"}, "n": {"int": -3}, "ok": {"bool": True}},
                "capacity": {"memory": {"value": "80Gi"}},
                "taints": [taint],
                "bindingConditions": ["x", "y"],
            }
        ],
    }
    assert view(found, RESOURCE_SLICES.type).spec.pool.generation == 7


def test_a_claim_with_parameters() -> None:
    found = read_object(CLAIM)
    assert (found["kind"], found["apiVersion"]) == ("ResourceClaim", "resource.k8s.io/v1")
    assert found["spec"]["devices"]["config"] == [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]
    assert view(found, RESOURCE_CLAIMS.type).spec.devices.requests[0].name == "r"


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", SLICE[:40], SLICE[:-9], SLICE.replace(b"ResourceSlice", b"ResourceBlice"), b"k8s\0\xff"],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidError):
        read_object(data)
