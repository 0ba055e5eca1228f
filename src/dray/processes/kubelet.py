"""`dray kubelet`: the node part that gives devices to pods and runs their containers.

sources → `PodManager` → admission (`TopologyManager` → `DeviceManager`) → `ClaimManager` → runtime; beside it plugins
register, the Node is kept, pod resources and metrics are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.api.quantity import Quantity
from dray.cdi.registry import DIRECTORIES
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.errors import InvalidError
from dray.hardware.host_root import open_host_root
from dray.hardware.numa import read_numa
from dray.kubelet.admission import NodeAdmission
from dray.kubelet.claims.api import ClaimApi, ServerClaimApi
from dray.kubelet.claims.manager import ClaimConfig, ClaimManager
from dray.kubelet.devices.contract import CHECKPOINT, Surroundings
from dray.kubelet.devices.manager import DeviceManager
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.node.keeper import NodeKeeper, NodeOptions
from dray.kubelet.node.machine import MAX_PODS, Machine, read_machine
from dray.kubelet.node.resources import node_resources
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.handler import DevicePluginHandler, PluginHandler
from dray.kubelet.plugins.registration import Registration
from dray.kubelet.plugins.watcher import PluginWatcher
from dray.kubelet.podresources import Sources, serve_pod_resources
from dray.kubelet.pods.contract import Objects, Parts
from dray.kubelet.pods.manager import PodManager
from dray.kubelet.pods.objects import ApiObjects, NoObjects
from dray.kubelet.pods.publish import ApiStatuses, ByOrigin, FileStatuses
from dray.kubelet.pods.sources import API, DIRECTORY, FILES, follow_api, follow_directory, read_pods
from dray.kubelet.runtimes.contract import Runtime
from dray.kubelet.runtimes.kept import KeptRuntime
from dray.kubelet.runtimes.process import ProcessRuntime
from dray.kubelet.runtimes.runc import RuncRuntime, RuncSettings
from dray.kubelet.topology.manager import TopologyManager
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import TopologyConfig
from dray.processes.kubelet_views import ClaimsSeen, DevicesSeen, NoClaims, PodsSeen
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.tasks import running
from dray.wire.deviceplugin import DIRECTORY as DEVICE_PLUGINS

_log = get_log("kubelet")

REGISTRY = "plugins_registry"
RUNC, PROCESS = "runc", "process"


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """What the command line says. `metrics` None: none are served; `kubeconfig` None: no API server."""

    node_name: str = ""
    root_dir: Path = Path("/var/lib/kubelet")
    device_plugin_dir: Path = Path(DEVICE_PLUGINS)
    state_dir: Path = Path("/var/lib/dray/kubelet")
    log_dir: Path = Path("/var/log/pods")
    host_root: str = "/"
    runtime: str = RUNC
    runc: Path | None = None
    allow_host_image: bool = False
    cdi_dirs: tuple[Path, ...] = tuple(DIRECTORIES)
    kubeconfig: Path | None = None
    manifests: Path | None = None
    files: tuple[Path, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    topology: TopologyConfig = field(default_factory=TopologyConfig)
    max_pods: int = MAX_PODS
    metrics: tuple[str, int] | None = None
    reached: Callable[[str], None] = lambda _: None
    """Called between any two steps of a pod's life; tests end the process there."""


async def run_kubelet(options: KubeletOptions, clock: Clock | None = None) -> None:
    """Until cancelled. Containers go on; the next one takes them over."""
    async with AsyncExitStack() as stack:
        kubelet = await _assemble(stack, options, clock or SystemClock())
        async with asyncio.TaskGroup() as group:
            for name, work in kubelet.tasks.items():
                group.create_task(work(), name=name)
            _log.info("ready", node=kubelet.node, runtime=options.runtime, sources=sorted(kubelet.sources))


@dataclass
class _Kubelet:
    """The parts that run, by name."""

    node: str
    sources: frozenset[str]
    tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]]


async def _assemble(stack: AsyncExitStack, options: KubeletOptions, clock: Clock) -> _Kubelet:
    machine = read_machine(state_dir=options.root_dir.parent, max_pods=options.max_pods)
    node = options.node_name or machine.hostname
    metrics = Metrics()
    client = await _client(stack, options)
    runtime = await stack.enter_async_context(_runtime(options, clock))
    await runtime.check_ready()
    sources = _sources(options)

    pods = PodsSeen()
    numa = _numa(options)
    kubelet_metrics = KubeletMetrics(metrics)
    topology = TopologyManager(options.topology, numa, clock, kubelet_metrics.topology)
    devices = DeviceManager(
        Surroundings(
            checkpoint=options.device_plugin_dir / CHECKPOINT,
            active_pods=pods.uids,
            sources_ready=pods.is_ready,
            was_running=pods.was_running,
            affinity=topology.affinity,
            numa_nodes=numa.ids,
            clock=clock,
            metrics=kubelet_metrics,
            health_changed=pods.wake,
        )
    )
    topology.add_provider(devices)
    api: ClaimApi = ServerClaimApi(client) if client else NoClaims()
    claims = stack.enter_context(
        ClaimManager(
            ClaimConfig(options.root_dir, node),
            api,
            clock,
            active_pods=pods.uids,
            sources_ready=pods.is_ready,
            metrics=metrics,
            pods_changed=pods.wake,
        )
    )
    stack.callback(devices.close)
    devices.load()
    seen = DevicesSeen(devices)
    api_statuses = ApiStatuses(client, clock) if client else None
    keeper = _keeper(client, machine, node, options, clock, devices, runtime) if client else None
    objects: Objects = ApiObjects(client) if client else NoObjects()

    def allocatable() -> Mapping[str, Quantity]:
        return node_resources(machine.resources, devices.capacity(), {}).allocatable

    pods.manager = PodManager(
        Parts(
            runtime,
            NodeAdmission(topology, devices, allocatable),
            devices,
            claims,
            ByOrigin(FileStatuses(options.state_dir / "status"), api_statuses),
            objects,
        ),
        options.state_dir,
        options.log_dir,
        clock,
        sources=sources,
        host_address=machine.address,
        reached=options.reached,
    )
    connections = Connections(seen)
    await stack.enter_async_context(connections.running())
    registration = Registration(options.device_plugin_dir, connections, kubelet_metrics)
    await stack.enter_async_context(registration.serving())
    await stack.enter_async_context(running(claims.run(), name="claims"))
    await stack.enter_async_context(_watching(options, connections, claims, clock, kubelet_metrics))
    view = Sources(pods, devices, ClaimsSeen(claims))
    await stack.enter_async_context(
        serve_pod_resources(options.root_dir, view, clock=clock, metrics=kubelet_metrics.pod_resources)
    )
    if options.metrics is not None:
        host, port = options.metrics
        chosen = await stack.enter_async_context(serve_metrics(metrics, host=host, port=port))
        _log.info("metrics", address=f"http://{host}:{chosen}/metrics")
    tasks: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {"pods": pods.manager.run}
    if client is not None and keeper is not None and api_statuses is not None:
        tasks["node"] = lambda: keeper.run(seen.wait)
        tasks["statuses"] = api_statuses.run
        tasks["pods of the API server"] = lambda: follow_api(client, node, pods.manager.take)
    if options.manifests is not None:
        manifests = options.manifests
        tasks["manifests"] = lambda: follow_directory(manifests, node, clock, pods.manager.take)
    if options.files:
        pods.manager.take(FILES, read_pods(options.files, node, clock))
    return _Kubelet(node, sources, tasks)


def _sources(options: KubeletOptions) -> frozenset[str]:
    found = {API: options.kubeconfig, DIRECTORY: options.manifests, FILES: options.files}
    chosen = frozenset(name for name, given in found.items() if given)
    if not chosen:
        raise InvalidError(
            "no source of pods: give --kubeconfig, --manifests DIRECTORY or -f FILE", field="--kubeconfig"
        )
    return chosen


async def _client(stack: AsyncExitStack, options: KubeletOptions) -> Client | None:
    if options.kubeconfig is None:
        return None
    return await stack.enter_async_context(Client(find_access(options.kubeconfig)))


@asynccontextmanager
async def _runtime(options: KubeletOptions, clock: Clock) -> AsyncIterator[Runtime]:
    place = options.state_dir / "containers"
    if options.runtime == PROCESS:
        chosen: KeptRuntime = ProcessRuntime(place, clock)
    elif options.runtime == RUNC:
        settings = RuncSettings(place, options.runc, options.allow_host_image, options.cdi_dirs)
        chosen = RuncRuntime(settings, clock)
    else:
        raise InvalidError(f"--runtime {options.runtime!r} must be {RUNC} or {PROCESS}", field="--runtime")
    async with chosen as runtime:
        yield runtime


def _numa(options: KubeletOptions) -> NumaNodes:
    found = read_numa(open_host_root(options.host_root))
    return NumaNodes(
        tuple(node.id for node in found.items),
        {node.id: node.distances for node in found.items if node.distances},
    )


def _keeper(
    client: Client,
    machine: Machine,
    node: str,
    options: KubeletOptions,
    clock: Clock,
    devices: DeviceManager,
    runtime: Runtime,
) -> NodeKeeper:
    return NodeKeeper(
        client,
        machine,
        NodeOptions(node, options.labels, runtime.name),
        clock,
        capacity=devices.capacity,
        reset=devices.was_recreated,
    )


@asynccontextmanager
async def _watching(
    options: KubeletOptions,
    connections: Connections,
    claims: ClaimManager,
    clock: Clock,
    metrics: KubeletMetrics,
) -> AsyncIterator[None]:
    handlers: dict[str, PluginHandler] = {"DRAPlugin": claims.drivers}
    watcher = PluginWatcher(options.root_dir / REGISTRY, handlers, clock)
    handlers["DevicePlugin"] = DevicePluginHandler(connections, watcher.lost)
    metrics.follow_plugins(lambda: watcher.states)
    async with watcher.running():
        yield
