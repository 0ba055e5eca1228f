"""Objects that are right, from which wrong ones are made; and what of them there is before a batch begins."""

from __future__ import annotations

from typing import Any, Final

from tests.apiserver.custom.definitions import definition
from tests.apiserver.writing.small_store import claim, pod, result

Document = dict[str, Any]
NAMES: Final = ("one", "two", "three")

_TEMPLATE: Final[Document] = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
}
_WORKLOAD: Final = {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE}}
_CEL: Final = "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].size > 1"
_DEVICE: Final = {
    "name": "gpu-0",
    "attributes": {"size": {"int": 4}, "model": {"string": "x"}, "v": {"version": "1.2.3"}},
    "capacity": {"memory": {"value": "4Gi"}},
    "taints": [{"key": "a/b", "effect": "NoSchedule"}],
}
_POD: Final = pod(
    resourceClaims=[{"name": "g", "resourceClaimName": "one"}],
    tolerations=[{"operator": "Exists"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        }
    },
    volumes=[{"name": "v", "emptyDir": {}}],
)
_POD["spec"]["containers"][0] |= {
    "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}, "claims": [{"name": "g"}]},
    "env": [{"name": "A", "value": "b"}],
    "ports": [{"containerPort": 80}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
}
_CLAIM: Final = claim(selectors=[{"cel": {"expression": _CEL}}], tolerations=[{"operator": "Exists"}])

SEEDS: Final[dict[str, Document]] = {
    "configmaps": {"data": {"a": "b"}, "binaryData": {"c": "ZA=="}},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _TEMPLATE}}}},
    "customresourcedefinitions": definition(),
    "daemonsets": _WORKLOAD,
    "deployments": _WORKLOAD,
    "deviceclasses": {"spec": {"selectors": [{"cel": {"expression": _CEL}}]}},
    "devicetaintrules": {
        "spec": {
            "taint": {"key": "a/b", "effect": "NoExecute"},
            "deviceSelector": {"driver": "gpu.example.com"},
        }
    },
    "events": {
        "involvedObject": {"kind": "Pod", "name": "one", "namespace": "default"},
        "reason": "Tried",
        "message": "x",
        "type": "Normal",
        "count": 1,
        "firstTimestamp": "2035-01-01T00:00:00Z",
        "lastTimestamp": "2035-01-01T00:00:00Z",
    },
    "jobs": {"spec": {"template": _TEMPLATE | {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}}},
    "leases": {
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 1, "renewTime": "2030-01-01T00:00:00.000000Z"}
    },
    "namespaces": {},
    "nodes": {
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}},
    },
    "poddisruptionbudgets": {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}},
    "pods": {key: value for key, value in _POD.items() if key != "metadata"},
    "priorityclasses": {"value": 5},
    "replicasets": _WORKLOAD,
    "resourceclaims": {key: value for key, value in _CLAIM.items() if key != "metadata"},
    "resourceclaimtemplates": {"spec": {"metadata": {"labels": {"a": "b"}}, "spec": _CLAIM["spec"]}},
    "resourceslices": {
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "one",
            "pool": {"name": "one", "generation": 1, "resourceSliceCount": 1},
            "devices": [_DEVICE],
        }
    },
    "secrets": {"stringData": {"a": "b"}},
    "services": {"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}},
    "statefulsets": _WORKLOAD,
    "widgets": {"spec": {"size": 3, "replicas": 1}, "status": {"phase": "x"}},
}
"""By the plural; without names."""

STATUSES: Final[dict[str, Document]] = {
    "pods": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    "resourceclaims": {
        "allocation": {"devices": {"results": [result(request="one")]}},
        "reservedFor": [{"resource": "pods", "name": "one", "uid": "u"}],
    },
    "nodes": {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    "namespaces": {"phase": "Active"},
    "deployments": {"replicas": 1},
}

REVIEWS: Final[tuple[tuple[str, Document], ...]] = (
    (
        "authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    (
        "authorization.k8s.io/v1/subjectaccessreviews",
        {
            "spec": {
                "user": "system:node:one",
                "groups": ["system:nodes"],
                "resourceAttributes": {"verb": "get", "resource": "pods"},
            }
        },
    ),
    ("authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}),
    (
        "authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
        {
            "spec": {
                "user": "a",
                "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"},
            }
        },
    ),
    ("authentication.k8s.io/v1/selfsubjectreviews", {}),
    ("authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x.y.z", "audiences": ["a"]}}),
)
"""Posted below `/apis`; they are in no OpenAPI document."""
TOKEN_REQUEST: Final = (
    "/api/v1/namespaces/default/serviceaccounts/one/token",
    {
        "spec": {
            "audiences": ["a"],
            "expirationSeconds": 3600,
            "boundObjectRef": {"kind": "Pod", "name": "one"},
        }
    },
)


def binding(api_version: str) -> Document:
    """For `pods/binding`."""
    return {"apiVersion": api_version, "kind": "Binding", "target": {"kind": "Node", "name": "one"}}


def body_of(plural: str, door: str, api_version: str, kind: str, name: str) -> Document:
    """A right body for a write of this object, as far as is known; `name` is empty where the server may choose."""
    head: Document = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name} if name else {"generateName": "g-"},
    }
    if door == "binding":
        return head | binding(api_version)
    if door == "scale":
        return head | {"spec": {"replicas": 2}}
    if door == "eviction":
        return head
    known = SEEDS.get(plural, {})
    made = {**known, **head, "metadata": {**known.get("metadata", {}), **head["metadata"]}}
    if plural == "customresourcedefinitions" and not door:
        made["metadata"] = dict(known["metadata"])
    return made | ({"status": STATUSES.get(plural, {})} if door == "status" else {})
