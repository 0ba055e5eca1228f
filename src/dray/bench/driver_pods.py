"""Pods with a claim on a real kubelet: how long from creation to running, with a device of ours and of the Go test-driver.

Both drivers are registered with the one kubelet, and the pods take turns. Each pod has a claim of its own, made from a
template, so all is in it: the claim, its allocation, its preparation, the CDI devices and the metadata file.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dray.api.core import Pod
from dray.api.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIM_TEMPLATES
from dray.bench.driver_side import OURS, PEER, THEIRS
from dray.bench.measure import Figure
from dray.bench.peers import MODULES
from dray.client.client import Client, Watch
from dray.client.kubeconfig import find_access
from dray.client.store import Entry
from dray.errors import UnavailableError
from dray.testing.install_steps import Say
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.images import BUSYBOX
from dray.testing.kubernetes.part import Part, wait_until
from dray.testing.kubernetes.tools import locate

_DEVICES: Final = 8
_PAUSE: Final = 0.3
_SECONDS: Final = 60.0
_NAMESPACE: Final = "default"
_SCRIPT: Final = "trap 'exit 0' TERM; sleep 1000 & wait"
"""Ends at once when it is told to."""


def claim_pod_figures(pods: int, say: Say) -> Iterator[Figure]:
    """So many pods each on a cluster of its own; needs root, and what `make e2e` installs."""
    say("starting a real Kubernetes")
    with Cluster(locate(MODULES)) as cluster:
        yield from time_claim_pods(cluster, pods, say)


def time_claim_pods(cluster: Cluster, pods: int, say: Say) -> Iterator[Figure]:
    """The same on one that runs already. Both drivers are ended and their objects deleted after it."""
    parts = (_spawn_ours(cluster), _spawn_theirs(cluster))
    try:
        for part, driver in zip(parts, (OURS, THEIRS), strict=True):
            _wait_published(cluster, driver, part)
        times = asyncio.run(_time_in_turns(cluster, pods, say))
    finally:
        for part in parts:
            part.stop(30.0)
        _clean(cluster)
    for share, pick in (("p10", _p10), ("median", statistics.median), ("p90", _p90)):
        ours, theirs = (1e3 * pick(times[driver]) for driver in (OURS, THEIRS))
        yield Figure(f"pod with a claim created to Running in a watch, {share}", "ms", ours, PEER, theirs)


def _p10(values: list[float]) -> float:
    return statistics.quantiles(values, n=10)[0] if len(values) > 1 else values[0]


def _p90(values: list[float]) -> float:
    return statistics.quantiles(values, n=10)[-1] if len(values) > 1 else values[0]


def _spawn_ours(cluster: Cluster) -> Part:
    config = cluster.directory / "bench-agent.json"
    devices = [{"name": "gpu", "count": _DEVICES}]
    config.write_text(json.dumps({"dray": {"doors": {"sim": "dra"}, "sim": {"devices": devices}}}))
    words = [
        f"--config={config}",
        f"--state-dir={cluster.directory / 'bench-dray'}",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--node-name={cluster.node_name}",
        "--metrics-address=none",
    ]
    paths = {"PYTHONPATH": str(Path(__file__).parents[2])}
    return cluster.spawn("bench-dray", sys.executable, "-m", "dray", "agent", *words, env=paths)


def _spawn_theirs(cluster: Cluster) -> Part:
    """It does not make its own directory: its DaemonSet has a volume there."""
    (cluster.dirs.kubelet / "plugins" / THEIRS).mkdir(parents=True, exist_ok=True)
    words = [
        "kubelet-plugin",
        f"--kubeconfig={cluster.kubeconfig}",
        f"--node-name={cluster.node_name}",
        f"--num-devices={_DEVICES}",
        "--enable-device-metadata=true",
    ]
    return cluster.spawn("bench-go", cluster.tools.path("test-driver"), *words)


def _wait_published(cluster: Cluster, driver: str, part: Part) -> None:
    """And registered: a pod that comes before is tried again much later."""

    def is_there() -> bool:
        items = cluster.request("GET", "/apis/resource.k8s.io/v1/resourceslices")["items"]
        return any(one["spec"]["driver"] == driver and one["spec"].get("devices") for one in items)

    wait_until(is_there, f"the slices of {driver}", _SECONDS, (part,))
    if driver == OURS:
        told = f"msg=registered driver={driver}"
        wait_until(lambda: told in part.log.read_text(), f"{driver} to be registered", _SECONDS, (part,))


def _clean(cluster: Cluster) -> None:
    """What both leave at the API server."""
    for driver in (OURS, THEIRS):
        cluster.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={driver}")
        cluster.kubectl("delete", "resourceclaimtemplates", driver, "--ignore-not-found")
        cluster.kubectl("delete", "deviceclasses", f"bench.{driver}", driver, "--ignore-not-found")
    cluster.kubectl("delete", "configmap", "-n", "kube-system", "dray-classes", "--ignore-not-found")


async def _time_in_turns(cluster: Cluster, pods: int, say: Say) -> Mapping[str, list[float]]:
    times: dict[str, list[float]] = {OURS: [], THEIRS: []}
    async with Client(find_access(cluster.kubeconfig)) as client:
        for driver in times:
            await _add_template(client, driver)
            await _time_claim_pod(client, "warm-up", driver)
        for number in range(pods):
            say(f"pods with claims: {number} of {pods} each")
            for driver in (OURS, THEIRS) if number % 2 else (THEIRS, OURS):
                times[driver].append(await _time_claim_pod(client, f"{driver}-{number}", driver))
                await asyncio.sleep(_PAUSE)
    return times


async def _add_template(client: Client, driver: str) -> None:
    """With a class of its own, which the template asks for."""
    name = f"bench.{driver}"
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    await client.create(DEVICE_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": [selector]}})
    request = {"name": "gpu", "exactly": {"deviceClassName": name}}
    document = {"metadata": {"name": driver}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await client.create(RESOURCE_CLAIM_TEMPLATES, document, namespace=_NAMESPACE)


async def _time_claim_pod(client: Client, name: str, driver: str) -> float:
    """Seconds from the creation of one pod until it is seen running; it is gone when this returns."""
    listed = await client.list_page(PODS)
    try:
        async with (
            asyncio.timeout(_SECONDS),
            client.watch(PODS, resource_version=listed.resource_version) as watch,
        ):
            created = time.perf_counter()
            await client.create(PODS, _pod(name, driver), namespace=_NAMESPACE)
            running = await _seen(watch, name, "Running") - created
            await client.delete(PODS, name, namespace=_NAMESPACE)
            await _seen(watch, name, "")
    except TimeoutError:
        raise UnavailableError(f"pod {name} did not start and end within {_SECONDS:g} s") from None
    return running


async def _seen(watch: Watch[Pod], name: str, phase: str) -> float:
    """When the pod came to this phase; empty: when it was deleted."""
    async for event in watch:
        pod = event.item.value if isinstance(event.item, Entry) else None
        if pod is None or pod.metadata.name != name:
            continue
        if event.type == "DELETED" and not phase:
            return time.perf_counter()
        if pod.status.phase == phase:
            return time.perf_counter()
        if phase and (pod.status.phase == "Failed" or event.type == "DELETED"):
            raise UnavailableError(f"pod {name} is {pod.status.phase}: {pod.status.message}")
    raise UnavailableError(f"the API server ended the watch before pod {name} was {phase or 'gone'}")


def _pod(name: str, driver: str) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", _SCRIPT],
        "resources": {"claims": [{"name": "device"}]},
    }
    spec = {
        "restartPolicy": "Never",
        # Not 0: the object would be gone before the kubelet has given its claim back, and the next pod gets the device.
        "terminationGracePeriodSeconds": 5,
        "hostNetwork": True,
        "containers": [container],
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": driver}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
