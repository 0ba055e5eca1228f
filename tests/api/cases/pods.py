"""Cases for Pod: its claims in full, and of the rest what Dray relies on."""

from __future__ import annotations

from typing import Any, Final

from dray.api.kinds import PODS
from tests.api.cases.case import DROP, NAMESPACE, Document, Table


def pod_document() -> Document:
    """A pod with claims, devices by plugin, a volume and a wish about nodes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod-a", "namespace": NAMESPACE},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "env": [{"name": "A", "value": "b"}],
                    "resources": {
                        "limits": {"cpu": "1", "example.com/gpu": 2},
                        "requests": {"cpu": "500m", "memory": "1Gi"},
                        "claims": [{"name": "gpu"}, {"name": "nic", "request": "fast"}],
                    },
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                },
                {"name": "side", "image": "busybox:1"},
            ],
            "initContainers": [{"name": "init", "image": "busybox"}],
            "volumes": [{"name": "data"}],
            "resourceClaims": [
                {"name": "gpu", "resourceClaimName": "claim-a"},
                {"name": "nic", "resourceClaimTemplateName": "template-a"},
            ],
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


# fmt: off
TABLE: Final = Table(PODS, pod_document)
_create, _update = TABLE.create, TABLE.update
_C: Final = "spec.containers[0]"
_C0: Final = "spec.containers.0"
_create("valid", {})
_create("no containers", {"spec.containers": []}, "Required spec.containers")
_create("container without a name", {f"{_C0}.name": ""}, f"Required {_C}.name")
_create("container name wrong", {f"{_C0}.name": "A"}, f"Invalid {_C}.name")
_create("container name twice", {"spec.containers.1.name": "main"}, "Duplicate spec.containers[1].name")
_create("container name as init container", {"spec.initContainers.0.name": "main"}, "Duplicate spec.initContainers[0].name")
_create("image missing", {f"{_C0}.image": ""}, f"Required {_C}.image")
_create("image with a space", {f"{_C0}.image": " busybox"}, f"Invalid {_C}.image")
_create("pull policy wrong", {f"{_C0}.imagePullPolicy": "Maybe"}, f"NotSupported {_C}.imagePullPolicy")
_create("message policy wrong", {f"{_C0}.terminationMessagePolicy": "x"}, f"NotSupported {_C}.terminationMessagePolicy")
_create("container restarts", {"spec.initContainers.0.restartPolicy": "Always"})
_create("container restart policy wrong", {"spec.initContainers.0.restartPolicy": "x"}, "NotSupported spec.initContainers[0].restartPolicy")
_create("port", {f"{_C0}.ports": [{"containerPort": 80}]})
_create("port missing", {f"{_C0}.ports": [{}]}, f"Required {_C}.ports[0].containerPort")
_create(
    "port out of range",
    {f"{_C0}.ports": [{"containerPort": 70000, "protocol": "X"}]},
    f"Invalid {_C}.ports[0].containerPort",
    f"NotSupported {_C}.ports[0].protocol",
)
_create("env without a name", {f"{_C0}.env": [{}]}, f"Required {_C}.env[0].name")
_create("env name odd but fine", {f"{_C0}.env": [{"name": "a b.9-"}]})
_create("env name with an equals sign", {f"{_C0}.env": [{"name": "a=b"}]}, f"Invalid {_C}.env[0].name")
_create("mount of no volume", {f"{_C0}.volumeMounts.0.name": "other"}, f"NotFound {_C}.volumeMounts[0].name")
_create(
    "mount empty",
    {f"{_C0}.volumeMounts": [{}]},
    f"Required {_C}.volumeMounts[0].name",
    f"NotFound {_C}.volumeMounts[0].name",
    f"Required {_C}.volumeMounts[0].mountPath",
)
_create("mounts at one place", {f"{_C0}.volumeMounts": [{"name": "data", "mountPath": "/a"}] * 2}, f"Invalid {_C}.volumeMounts[1].mountPath")
_create("volume twice", {"spec.volumes": [{"name": "data"}] * 2}, "Duplicate spec.volumes[1].name")
_create("volume name wrong", {"spec.volumes": [{"name": "A"}], f"{_C0}.volumeMounts": DROP}, "Invalid spec.volumes[0].name")

# amounts
_R: Final = f"{_C}.resources"
_R0: Final = f"{_C0}.resources"
_L: Final = (*_R0.split("."), "limits")
_create("limit negative", {(*_L, "cpu"): "-1"}, f"Invalid {_R}.limits[cpu]", f"Invalid {_R}.requests")
_create("request above the limit", {(*_L, "cpu"): "1m"}, f"Invalid {_R}.requests")
_create("part of a device", {(*_L, "example.com/gpu"): "1500m"}, f"Invalid {_R}.limits[example.com/gpu]", f"Invalid {_R}.requests[example.com/gpu]")
_create("device request differs", {f"{_R0}.requests": {"example.com/gpu": 1}}, f"Invalid {_R}.requests")
_create("device request without limit", {f"{_R0}.limits": DROP, f"{_R0}.requests": {"example.com/gpu": 1}}, f"Required {_R}.limits")
_create("resource unknown", {(*_L, "gpus"): "1"}, f"Invalid {_R}.limits[gpus]", f"Invalid {_R}.requests[gpus]")
_create("resource for quota", {(*_L, "requests.a.io/b"): "1"}, f"Invalid {_R}.limits[requests.a.io/b]", f"Invalid {_R}.requests[requests.a.io/b]")
_create("huge pages", {(*_L, "hugepages-2Mi"): "4Mi"})
_create("huge pages alone", {f"{_R0}.limits": {"hugepages-2Mi": "4Mi"}, f"{_R0}.requests": DROP}, f"Forbidden {_R}")

# claims
_P: Final = "spec.resourceClaims"
_NONE: Final = {f"{_R0}.claims": DROP}
_create("claim of no kind", {**_NONE, _P: [{"name": "a"}]}, f"Invalid {_P}[0]")
_create("claim of both kinds", {**_NONE, _P: [{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}]}, f"Invalid {_P}[0]")
_create("claim without a name", {**_NONE, _P: [{"resourceClaimName": "b"}]}, f"Required {_P}[0].name")
_create("claim name wrong", {**_NONE, _P: [{"name": "a.b", "resourceClaimName": "b"}]}, f"Invalid {_P}[0].name")
_create("claim name twice", {**_NONE, _P: [{"name": "a", "resourceClaimName": "b"}] * 2}, f"Duplicate {_P}[1].name")
_create(
    "claim wrong",
    {**_NONE, _P: [{"name": "a", "resourceClaimName": "B"}, {"name": "b", "resourceClaimTemplateName": ""}]},
    f"Invalid {_P}[0].resourceClaimName",
    f"Invalid {_P}[1].resourceClaimTemplateName",
)
_create("claims of a mirror pod", {"metadata.annotations": {"kubernetes.io/config.mirror": "x"}, "spec.nodeName": "n"}, "Forbidden []")
_create("one claim under two names", {**_NONE, _P: [{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimName": "c"}]})


def _claims(name: str, claims: list[dict[str, Any]], *expected: str) -> None:
    _create(f"use: {name}", {f"{_R0}.claims": claims}, *(f"{line.partition(' ')[0]} {_R}.claims{line.partition(' ')[2]}" for line in expected))


_claims("two requests of a claim", [{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}])
_claims("no such claim", [{"name": "other"}], "NotFound [0]")
_claims("no name", [{}], "Required [0]")
_claims("twice", [{"name": "gpu"}, {"name": "gpu"}], "Duplicate [1]")
_claims("a request twice", [{"name": "gpu", "request": "a"}] * 2, "Duplicate [1]")
_claims("whole, then a request", [{"name": "gpu"}, {"name": "gpu", "request": "a"}], "Duplicate [1]")
_claims("a request, then whole", [{"name": "gpu", "request": "a"}, {"name": "gpu"}], "Duplicate [1]")
_claims("request wrong", [{"name": "gpu", "request": "a/b"}], "Invalid [0].request")

# the rest
_create("restart policy wrong", {"spec.restartPolicy": "Sometimes"}, "NotSupported spec.restartPolicy")
_create("dns policy wrong", {"spec.dnsPolicy": "x"}, "NotSupported spec.dnsPolicy")
_create("node selector wrong", {"spec.nodeSelector": {"a b": "c"}}, "Invalid spec.nodeSelector")
_create("node name wrong", {"spec.nodeName": "A"}, "Invalid spec.nodeName")
_create("deadline zero", {"spec.activeDeadlineSeconds": 0}, "Invalid spec.activeDeadlineSeconds")
_create("gates", {"spec.schedulingGates": [{"name": "a.io/b"}]})
_create(
    "gate wrong",
    {"spec.schedulingGates": [{"name": "a b"}, {"name": "c"}, {"name": "c"}]},
    "Invalid spec.schedulingGates[0]",
    "Duplicate spec.schedulingGates[2]",
)
_GROUPS: Final = "the field is dropped while the gate GenericWorkload is off"
_GROUP: Final = "spec.schedulingGroup.podGroupName"
_create("group", {"spec.schedulingGroup": {"podGroupName": "g.example"}}, ours_only=_GROUPS)
_create("group without a name", {"spec.schedulingGroup": {}}, f"Invalid {_GROUP}", ours_only=_GROUPS)
_create("group name wrong", {"spec.schedulingGroup": {"podGroupName": "G"}}, f"Invalid {_GROUP}", ours_only=_GROUPS)
_create("gates and a node", {"spec.schedulingGates": [{"name": "a"}], "spec.nodeName": "n"}, "Forbidden spec.nodeName")
_A: Final = "spec.affinity.nodeAffinity"
_REQUIRED, _WISH = ("requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution")
_create("affinity empty", {f"{_A}.{_REQUIRED}": {"nodeSelectorTerms": []}}, f"Required {_A}.{_REQUIRED}.nodeSelectorTerms")
_create(
    "affinity wrong",
    {f"{_A}.{_REQUIRED}": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}},
    f"Required {_A}.{_REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values",
)
_create("wish", {f"{_A}.{_WISH}": [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]}}]})
_create("wish without weight", {f"{_A}.{_WISH}": [{"preference": {}}]}, f"Invalid {_A}.{_WISH}[0].weight")
_T: Final = "spec.tolerations[0]"
for _name, _toleration, _expected in (
    ("for all", {"operator": "Exists"}, ()),
    ("without a key", {}, ("operator",)),
    ("key wrong", {"key": "a b"}, ("key",)),
    ("value wrong", {"key": "a", "value": "-"}, ("operator",)),
    ("exists with a value", {"key": "a", "operator": "Exists", "value": "b"}, ("operator",)),
    ("seconds without NoExecute", {"key": "a", "tolerationSeconds": 5}, ("effect",)),
):
    _create(f"toleration {_name}", {"spec.tolerations": [_toleration]}, *(f"Invalid {_T}.{field}" for field in _expected))
_create(
    "toleration operator and effect unknown",
    {"spec.tolerations": [{"key": "a", "operator": "Near", "effect": "None"}]},
    f"NotSupported {_T}.operator",
    f"NotSupported {_T}.effect",
)

# update
_update("nothing changes", {})
_update(
    "image changes",
    {f"{_C0}.image": "busybox:2", "spec.initContainers.0.image": "x"},
    old={f"{_C0}.imagePullPolicy": "Never", "spec.initContainers.0.imagePullPolicy": "Never"},
)
_update("claims change", {"spec.resourceClaims.0.resourceClaimName": "other"}, "Forbidden spec")
_update("container comes", {"spec.containers": [*pod_document()["spec"]["containers"], {"name": "x", "image": "y"}]}, "Forbidden spec.containers")
_update("toleration comes", {"spec.tolerations": [*pod_document()["spec"]["tolerations"], {"key": "b", "operator": "Exists"}]})
_update("toleration goes", {"spec.tolerations": []}, "Forbidden spec.tolerations")
_update("gate goes", {"spec.schedulingGates": []}, old={"spec.schedulingGates": [{"name": "a"}]})
_update("gate comes", {"spec.schedulingGates": [{"name": "a"}]}, "Forbidden spec.schedulingGates[0].name")
_update("gate comes twice", {"spec.schedulingGates": [{"name": "a"}, {"name": "a"}]}, "Duplicate spec.schedulingGates[1]",
        "Forbidden spec.schedulingGates[1].name")
_update("deadline comes", {"spec.activeDeadlineSeconds": 50})
_update("deadline grows", {"spec.activeDeadlineSeconds": 60}, "Invalid spec.activeDeadlineSeconds", old={"spec.activeDeadlineSeconds": 50})
_update(
    "node selector grows while gated",
    {"spec.nodeSelector": {"a": "b", "c": "d"}},
    old={"spec.schedulingGates": [{"name": "a"}], "spec.nodeSelector": {"a": "b"}},
)
_update(
    "node selector changes while gated",
    {"spec.nodeSelector": {"a": "c"}},
    "Invalid spec.nodeSelector",
    old={"spec.schedulingGates": [{"name": "a"}], "spec.nodeSelector": {"a": "b"}},
)
_update("node selector changes", {"spec.nodeSelector": {"a": "c"}}, "Forbidden spec")

# status
_QOS: Final = {"phase": "Pending", "qosClass": "Burstable"}
_status = TABLE.write_status
_S: Final = "status.resourceClaimStatuses"
_status("claim statuses", {**_QOS, "resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "pod-a-nic-x7"}]}, old=_QOS)
_status("claim status of no claim", {**_QOS, "resourceClaimStatuses": [{"name": "x"}]}, f"Invalid {_S}[0].name", old=_QOS)
_status("claim status twice", {**_QOS, "resourceClaimStatuses": [{"name": "nic"}] * 2}, f"Duplicate {_S}[1].name", old=_QOS)
_status(
    "claim status wrong",
    {**_QOS, "resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "A"}]},
    f"Invalid {_S}[0].resourceClaimName",
    old=_QOS,
)
_E: Final = "status.extendedResourceClaimStatus"
_MAPPING: Final = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}
_N: Final = "nodeAllocatableResourceClaimStatuses"
_NS: Final = f"status.{_N}[0]"
_TAKEN: Final = {"resourceClaimName": "claim-a", "containers": ["main"], "resources": {"cpu": "2", "memory": "1Gi"}}
_status("node resources", {**_QOS, _N: [_TAKEN]}, old=_QOS)
_status(
    "node resources of a claim from a template",
    {**_QOS, "resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "made"}], _N: [{**_TAKEN, "resourceClaimName": "made"}]},
    old=_QOS,
)
_status("node resources of no claim", {**_QOS, _N: [{**_TAKEN, "resourceClaimName": "x"}]}, f"Invalid {_NS}.resourceClaimName", old=_QOS)
_status(
    "node resources without a claim",
    {**_QOS, _N: [{**_TAKEN, "resourceClaimName": ""}]},
    f"Required {_NS}.resourceClaimName", f"Invalid {_NS}.resourceClaimName",
    old=_QOS,
)
_status("node resources of no container", {**_QOS, _N: [{**_TAKEN, "containers": []}]}, f"Required {_NS}.containers", old=_QOS)
_status("no node resources", {**_QOS, _N: [{**_TAKEN, "resources": {}}]}, f"Required {_NS}.resources", old=_QOS)
_status("node resources of a plugin", {**_QOS, _N: [{**_TAKEN, "resources": {"example.com/a": "1"}}]}, f"Invalid {_NS}.resources[example.com/a]", old=_QOS)
_status("negative node resources", {**_QOS, _N: [{**_TAKEN, "resources": {"cpu": "-1"}}]}, f"Invalid {_NS}.resources[cpu]", old=_QOS)
_status("extended claim", {**_QOS, "extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [_MAPPING]}}, old=_QOS)
_status(
    "extended claim empty",
    {**_QOS, "extendedResourceClaimStatus": {}},
    f"Required {_E}.requestMappings",
    f"Required {_E}.resourceClaimName",
    old=_QOS,
)
_status(
    "extended claim wrong",
    {
        **_QOS,
        "extendedResourceClaimStatus": {
            "resourceClaimName": "c",
            "requestMappings": [{**_MAPPING, "containerName": "x"}, {**_MAPPING, "resourceName": "y"}],
        },
    },
    f"Invalid {_E}.requestMappings[0].containerName",
    f"Invalid {_E}.requestMappings[1].resourceName",
    old=_QOS,
)
_HEALTH: Final = [
    {
        "name": "main",
        "image": "",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "allocatedResourcesStatus": [{"name": "claim:nic/fast", "resources": [{"resourceID": "x", "health": "Healthy"}]}, {"name": "claim:other"}],
    }
]
_status(
    "health of a stranger", {**_QOS, "containerStatuses": _HEALTH}, "Invalid status.containerStatuses[0].allocatedResourcesStatus[1].name", old=_QOS
)
_status("nominated", {**_QOS, "nominatedNodeName": "n"}, old=_QOS)
_status("nominated wrongly", {**_QOS, "nominatedNodeName": "N"}, "Invalid status.nominatedNodeName", old=_QOS)
