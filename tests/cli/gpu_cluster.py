"""Files for tests of `dray allocate`, `explain` and `simulate`: two nodes with GPUs, one of which is taken."""

from __future__ import annotations

from pathlib import Path

CLUSTER = """\
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1
  kind: DeviceClass
  metadata: {name: gpu}
  spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: node-1-gpus}
  spec:
    driver: gpu.example.com
    nodeName: node-1
    pool: {name: node-1, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: gpu-0, attributes: {model: {string: A100}}}
    - {name: gpu-1, attributes: {model: {string: H100}}}
    - {name: gpu-2, attributes: {model: {string: H100}}, taints: [{key: hot, effect: NoSchedule}]}
- apiVersion: resource.k8s.io/v1
  kind: ResourceSlice
  metadata: {name: node-2-gpus}
  spec:
    driver: gpu.example.com
    nodeName: node-2
    pool: {name: node-2, generation: 1, resourceSliceCount: 1}
    devices:
    - {name: gpu-0, attributes: {model: {string: A100}}}
- apiVersion: resource.k8s.io/v1
  kind: ResourceClaim
  metadata: {name: old}
  spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
  status:
    allocation:
      devices: {results: [{request: gpu, driver: gpu.example.com, pool: node-1, device: gpu-1}]}
    reservedFor: [{resource: pods, name: web-0, uid: "1"}]
"""

CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: train}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu
        selectors:
        - cel: {expression: 'device.attributes["gpu.example.com"].model == "MODEL"'}
"""
MODEL = 'device.attributes["gpu.example.com"].model'


def files(folder: Path, model: str = "H100") -> list[str]:
    """The cluster and a claim for one GPU of a model."""
    cluster, claim = folder / "cluster.yaml", folder / "claim.yaml"
    cluster.write_text(CLUSTER)
    claim.write_text(CLAIM.replace("MODEL", model))
    return [str(cluster), str(claim)]
