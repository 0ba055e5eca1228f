"""The objects of the kubectl script, by file name."""

from __future__ import annotations

from typing import Final

_POD: Final = """
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: web, tier: NAME}}
spec:
  containers:
  - name: main
    image: registry.example/app:1
    command: [sleep, "1"]
    ports: [{containerPort: 80}]
    resources:
      requests: {cpu: 100m, memory: 64Mi}
      claims: [{name: gpu}]
  resourceClaims:
  - {name: gpu, resourceClaimName: one}
"""
_CLAIM: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one, labels: {app: web}}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: kubectl-agrees
        selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
"""
_CLASS: Final = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: kubectl-agrees, labels: {app: web}}
spec:
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
"""
_SLICE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: kubectl-agrees, labels: {app: web}}
spec:
  driver: gpu.example.com
  nodeName: kubectl-agrees
  pool: {name: kubectl-agrees, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: small}, index: {int: 0}}
    capacity: {memory: {value: 8Gi}}
  - name: gpu-1
"""
_NODE: Final = """
apiVersion: v1
kind: Node
metadata: {name: kubectl-agrees, labels: {app: web, kubernetes.io/hostname: kubectl-agrees}}
spec: {podCIDR: 10.1.0.0/24}
"""
_CONFIG: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: red, size: small}
"""
_DEPLOYMENT: Final = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "registry.example/app:1"}
"""
_EVENT: Final = """
apiVersion: v1
kind: Event
metadata: {name: settings.1, namespace: kubectl-agrees}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: settings, namespace: kubectl-agrees}
reason: Tried
message: it was tried
type: Normal
count: 3
firstTimestamp: "2020-01-01T00:00:00Z"
lastTimestamp: "2020-01-02T00:00:00Z"
source: {component: by-hand}
"""
_TEMPLATE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: each}
spec:
  spec:
    devices:
      requests: [{name: gpu, exactly: {deviceClassName: kubectl-agrees, count: 2}}]
"""
_TAINT_RULE: Final = """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: kubectl-agrees}
spec:
  deviceSelector: {driver: gpu.example.com, device: gpu-1}
  taint: {key: example.com/broken, value: "yes", effect: NoExecute}
"""

FILES: Final = {
    "claim.yaml": _CLAIM,
    "claim-changed.yaml": _CLAIM.replace("deviceClassName: kubectl-agrees", "deviceClassName: other"),
    "claim-labelled.yaml": _CLAIM.replace("app: web", "app: other"),
    "claim-invalid.yaml": _CLAIM.replace("name: one", "name: Bad_Name").replace("name: gpu\n", "name: ''\n"),
    "claim-bad-cel.yaml": _CLAIM.replace("name: one", "name: bad").replace(
        "device.driver ==", "device.nothing =="
    ),
    "class.yaml": _CLASS,
    "slice.yaml": _SLICE,
    "slice-invalid.yaml": _SLICE.replace("name: gpu-1", "name: gpu-0").replace(
        "name: kubectl-agrees, labels", "name: twice, labels"
    ),
    "template.yaml": _TEMPLATE,
    "taint-rule.yaml": _TAINT_RULE,
    "node.yaml": _NODE,
    "pod.yaml": _POD.replace("NAME", "one"),
    "pod-two.yaml": _POD.replace("NAME", "two"),
    "pod-image.yaml": _POD.replace("NAME", "one").replace("app:1", "app:2"),
    "pod-changed.yaml": _POD.replace("NAME", "one").replace("cpu: 100m", "cpu: 200m"),
    "pod-invalid.yaml": _POD.replace("NAME", "bad").replace(
        "resourceClaims:\n  - {name: gpu", "resourceClaims:\n  - {name: tpu"
    ),
    "pod-sourceless.yaml": _POD.replace("NAME", "bad").replace(", resourceClaimName: one", ""),
    "config.yaml": _CONFIG,
    "config-changed.yaml": _CONFIG.replace("red", "blue").replace(", size: small", ", shape: round"),
    "config-unknown.yaml": _CONFIG.replace("name: settings", "name: unknown") + "colour: red\n",
    "config-double.yaml": _CONFIG.replace("name: settings", "name: double") + "data: {colour: green}\n",
    "config-stale.yaml": _CONFIG.replace("name: settings", 'name: settings, resourceVersion: "1"'),
    "config-ssa.yaml": _CONFIG.replace("name: settings", "name: applied").replace(", labels: {app: web}", ""),
    "config-ssa-blue.yaml": _CONFIG.replace("name: settings", "name: applied").replace("red", "blue"),
    "pod-unknown.yaml": _POD.replace("NAME", "strict").replace(
        "image:", "imagePullPolice: Always\n    image:"
    ),
    "deployment.yaml": _DEPLOYMENT,
    "deployment-changed.yaml": _DEPLOYMENT.replace("app:1", "app:2").replace("replicas: 2", "replicas: 3"),
    "deployment-selector.yaml": _DEPLOYMENT.replace("matchLabels: {app: web}", "matchLabels: {app: other}"),
    "event.yaml": _EVENT,
    "all.yaml": f"{_CLASS}\n---{_SLICE}\n---{_TEMPLATE}",
    "broken.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: [",
    "kindless.yaml": "apiVersion: v1\nmetadata: {name: x}\n",
    "widget.yaml": "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n",
    "patch.yaml": "data: {size: large}\n",
}
