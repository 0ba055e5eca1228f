"""`dray kubelet`: the node part that gives devices to pods and runs their containers.

sources → `PodManager` → admission (`TopologyManager` → `DeviceManager`) → `ClaimManager` → runtime; beside it plugins
register, the Node is kept, pod resources and metrics are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
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
from dray.kubelet.node.keeper import NodeDoor, NodeKeeper, NodeOptions
from dray.kubelet.node.machine import MAX_PODS, Machine, read_machine
from dray.kubelet.node.resources import node_resources
from dray.kubelet.plugins.connections import Connections
from dray.kubelet.plugins.handler import DevicePluginHandler, PluginHandler
from dray.kubelet.plugins.registration import Registration
from dray.kubelet.plugins.watcher import PluginWatcher
from dray.kubelet.plugins_view import PATH as PLUGINS_PAGE
from dray.kubelet.plugins_view import PluginsSeen
from dray.kubelet.podresources import Sources, serve_pod_resources
from dray.kubelet.pods.contract import Events, Objects, Parts
from dray.kubelet.pods.manager import PodManager
from dray.kubelet.pods.objects import ApiObjects, NoObjects
from dray.kubelet.pods.publish import ApiStatuses, ByOrigin, FileStatuses
from dray.kubelet.pods.recorder import ApiEvents, EventLog
from dray.kubelet.pods.sources import API, DIRECTORY, FILES, follow_api, follow_directory, read_pods
from dray.kubelet.runtimes.contract import LogLimits, Runtime
from dray.kubelet.runtimes.cri import SOCKET as CRI_SOCKET
from dray.kubelet.runtimes.cri import CriRuntime, CriSettings
from dray.kubelet.runtimes.images import IMAGES
from dray.kubelet.runtimes.process import ProcessRuntime
from dray.kubelet.runtimes.records import make_id
from dray.kubelet.runtimes.runc import RuncRuntime, RuncSettings
from dray.kubelet.server.container_logs import ANYWHERE, LogAddress, LogPlaces, serve_container_logs
from dray.kubelet.topology.manager import TopologyManager
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import TopologyConfig
from dray.kubelet.views import ClaimsSeen, DevicesSeen, NoClaims, PodsSeen
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.filelock import FileLock
from dray.runtime.files.private import make_private
from dray.runtime.garbage import settle
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import ANYBODY, Readers
from dray.runtime.quarantine import show_set_aside
from dray.runtime.tasks import running
from dray.semantics.features import EnabledGates, Gate, enabled_gates
from dray.wire.deviceplugin import DIRECTORY as DEVICE_PLUGINS

_log = get_log("kubelet")

Work = Callable[[], Coroutine[Any, Any, None]]
REGISTRY = "plugins_registry"
SECCOMP = "seccomp"
RUNC, CRI, PROCESS = "runc", "cri", "process"


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """What the command line says. `metrics` and `logs` None: none are served; `kubeconfig` None: no API server."""

    node_name: str = ""
    root_dir: Path = Path("/var/lib/kubelet")
    device_plugin_dir: Path = Path(DEVICE_PLUGINS)
    state_dir: Path = Path("/var/lib/dray/kubelet")
    log_dir: Path = Path("/var/log/pods")
    host_root: str = "/"
    runtime: str = RUNC
    runc: Path | None = None
    cri_socket: Path = CRI_SOCKET
    allow_host_image: bool = False
    image_dirs: tuple[Path, ...] = (IMAGES,)
    cdi_dirs: tuple[Path, ...] = tuple(DIRECTORIES)
    kubeconfig: Path | None = None
    manifests: Path | None = None
    files: tuple[Path, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    topology: TopologyConfig = field(default_factory=TopologyConfig)
    max_pods: int = MAX_PODS
    metrics: tuple[str, int] | None = None
    metrics_readers: Readers = ANYBODY
    logs: LogAddress | None = ANYWHERE
    container_logs: LogLimits = field(default_factory=LogLimits)
    feature_gates: EnabledGates = field(default_factory=enabled_gates)
    reached: Callable[[str], None] = lambda _: None
    """Called between any two steps of a pod's life; tests end the process there."""


async def run_kubelet(
    options: KubeletOptions, clock: Clock | None = None, *, ready: Callable[[], None] = lambda: None
) -> None:
    """Until cancelled. Containers go on; the next one takes them over. `ready`: plugins may register, pods are taken."""
    async with AsyncExitStack() as stack:
        kubelet = await _assemble(stack, options, clock or SystemClock())
        async with asyncio.TaskGroup() as group:
            for name, work in kubelet.tasks.items():
                group.create_task(work(), name=name)
            settle()
            _log.info("ready", node=kubelet.node, runtime=options.runtime, sources=sorted(_sources(options)))
            ready()


@dataclass
class _Kubelet:
    """The parts while they are put together, in the order in which they need each other."""

    options: KubeletOptions
    clock: Clock
    stack: AsyncExitStack
    machine: Machine
    node: str
    client: Client | None
    runtime: Runtime
    metrics: Metrics
    counts: KubeletMetrics
    pods: PodsSeen = field(default_factory=PodsSeen)
    tasks: dict[str, Work] = field(default_factory=dict)

    def topology_and_devices(self) -> tuple[TopologyManager, DeviceManager]:
        """The device manager has read its checkpoint."""
        found = read_numa(open_host_root(self.options.host_root)).items
        distances = {node.id: node.distances for node in found if node.distances}
        numa = NumaNodes(tuple(node.id for node in found), distances)
        topology = TopologyManager(self.options.topology, numa, self.clock, self.counts.topology)
        devices = DeviceManager(
            Surroundings(
                checkpoint=self.options.device_plugin_dir / CHECKPOINT,
                active_pods=self.pods.uids,
                sources_ready=self.pods.is_ready,
                was_running=self.pods.was_running,
                affinity=topology.affinity,
                numa_nodes=numa.ids,
                clock=self.clock,
                metrics=self.counts,
                health_changed=self.pods.wake,
                reached=self.options.reached,
            )
        )
        topology.add_provider(devices)
        self.stack.callback(devices.close)
        devices.load()
        return topology, devices

    def claims(self) -> ClaimManager:
        """It has read its record."""
        api: ClaimApi = ServerClaimApi(self.client) if self.client else NoClaims()
        pod_groups = Gate.WORKLOAD_RESOURCE_CLAIMS in self.options.feature_gates
        claims = ClaimManager(
            ClaimConfig(self.options.root_dir, self.node, pod_groups),
            api,
            self.clock,
            active_pods=self.pods.uids,
            sources_ready=self.pods.is_ready,
            metrics=self.metrics,
            pods_changed=self.pods.wake,
            reached=self.options.reached,
        )
        return self.stack.enter_context(claims)

    def make_pods(
        self, topology: TopologyManager, devices: DeviceManager, seen: DevicesSeen, claims: ClaimManager
    ) -> None:
        """The pod manager, and where statuses go."""

        def allocatable() -> Mapping[str, Quantity]:
            return node_resources(self.machine.resources, seen.capacity(), {}).allocatable

        def rejected(reason: str) -> None:
            self.counts.rejections.labels(reason).inc()

        api = ApiStatuses(self.client, self.clock, self.options.reached) if self.client else None
        if api is not None:
            self.tasks["statuses"] = api.run
        objects: Objects = ApiObjects(self.client) if self.client else NoObjects()
        self.pods.manager = PodManager(
            Parts(
                self.runtime,
                NodeAdmission(topology, devices, allocatable, rejected),
                devices,
                claims,
                ByOrigin(FileStatuses(self.options.state_dir / "status"), api),
                objects,
                self._events(),
            ),
            self.options.state_dir,
            self.options.log_dir,
            self.clock,
            sources=_sources(self.options),
            host_address=self.machine.address,
            reached=self.options.reached,
        )
        show_set_aside(self.metrics, lambda: {"kubelet": self.pods.manager.quarantine})
        self.tasks["pods"] = self.pods.manager.run

    def _events(self) -> Events:
        if self.client is None:
            return EventLog(self.clock)
        events = ApiEvents(self.client, self.node, self.clock)
        self.tasks["events"] = events.run
        return events

    async def serve(self, devices: DeviceManager, seen: DevicesSeen, claims: ClaimManager) -> None:
        """Plugins may register, and pod resources and metrics be asked for."""
        enter = self.stack.enter_async_context
        plugins = PluginsSeen(seen, self.clock, lambda: seen.capacity().capacity)
        plugins.follow(claims.drivers)
        connections = Connections(plugins)
        await enter(connections.running())
        registration = Registration(self.options.device_plugin_dir, connections, self.counts)
        await enter(registration.serving())
        await enter(running(claims.run(), name="claims"))
        handlers: dict[str, PluginHandler] = {"DRAPlugin": plugins.around("DRAPlugin", claims.drivers)}
        watcher = PluginWatcher(self.options.root_dir / REGISTRY, handlers, self.clock)
        of_plugins = DevicePluginHandler(connections, watcher.lost)
        handlers["DevicePlugin"] = plugins.around("DevicePlugin", of_plugins)
        self.counts.follow_plugins(lambda: watcher.states)
        await enter(watcher.running())
        view = Sources(self.pods, devices, ClaimsSeen(claims))
        asked = self.counts.pod_resources
        await enter(serve_pod_resources(self.options.root_dir, view, clock=self.clock, metrics=asked))
        if self.options.metrics is not None:
            host, port = self.options.metrics
            checks, pages = {"/healthz": registration.check}, {PLUGINS_PAGE: plugins.page}
            readers = self.options.metrics_readers
            served = serve_metrics(
                self.metrics, host=host, port=port, checks=checks, pages=pages, readers=readers
            )
            chosen = await enter(served)
            _log.info("metrics", address=f"http://{host}:{chosen}/metrics")

    async def serve_logs(self) -> NodeDoor:
        """The containers' logs, to the API server; without one to nobody."""
        if self.client is None:
            return NodeDoor()
        options = self.options
        places = LogPlaces(self.node, self.machine.address, options.logs, options.state_dir, options.log_dir)
        return await serve_container_logs(
            self.stack, places, self.client, self.pods, self.runtime, self.clock
        )

    def follow(self, devices: DeviceManager, seen: DevicesSeen, door: NodeDoor) -> None:
        """The Node, and where pods come from."""
        options, take = self.options, self.pods.manager.take
        if (client := self.client) is not None:
            keeper = NodeKeeper(
                client,
                self.machine,
                NodeOptions(self.node, options.labels, self.runtime.name, door=door),
                self.clock,
                capacity=seen.capacity,
                reset=devices.was_recreated,
            )
            self.tasks["node"] = lambda: keeper.run(seen.wait)
            self.tasks["pods of the API server"] = lambda: follow_api(client, self.node, take)
        if (manifests := options.manifests) is not None:
            self.tasks["manifests"] = lambda: follow_directory(manifests, self.node, self.clock, take)
        if options.files:
            take(FILES, read_pods(options.files, self.node, self.clock))


async def _assemble(stack: AsyncExitStack, options: KubeletOptions, clock: Clock) -> _Kubelet:
    _sources(options)
    stack.enter_context(_alone(options.state_dir))
    machine = read_machine(state_dir=options.root_dir.parent, max_pods=options.max_pods)
    client = (
        await stack.enter_async_context(Client(find_access(options.kubeconfig)))
        if options.kubeconfig
        else None
    )
    runtime = await stack.enter_async_context(open_runtime(options, clock))
    await runtime.check_ready()
    metrics = Metrics()
    node = options.node_name or machine.hostname
    kubelet = _Kubelet(
        options, clock, stack, machine, node, client, runtime, metrics, KubeletMetrics(metrics)
    )
    topology, devices = kubelet.topology_and_devices()
    claims, seen = kubelet.claims(), DevicesSeen(devices)
    kubelet.make_pods(topology, devices, seen, claims)
    await kubelet.serve(devices, seen, claims)
    kubelet.follow(devices, seen, await kubelet.serve_logs())
    return kubelet


def _sources(options: KubeletOptions) -> frozenset[str]:
    found = {API: options.kubeconfig, DIRECTORY: options.manifests, FILES: options.files}
    chosen = frozenset(name for name, given in found.items() if given)
    if not chosen:
        raise InvalidError(
            "no source of pods: give --kubeconfig, --manifests DIRECTORY or -f FILE", field="--kubeconfig"
        )
    return chosen


@contextmanager
def _alone(state_dir: Path) -> Iterator[None]:
    """ConflictError where another kubelet has the directory: each would remove the containers of the other."""
    make_private(state_dir, ours=("lock", "records", "containers"), flag="--state-dir")
    lock = FileLock(state_dir / "lock")
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def open_runtime(options: KubeletOptions, clock: Clock) -> AsyncIterator[Runtime]:
    """What runs the containers of this state directory. One at a time: whoever opens it alone holds the kubelet's lock."""
    place = options.state_dir / "containers"
    logs = replace(options.container_logs, root=options.log_dir)
    if options.runtime == PROCESS:
        chosen: ProcessRuntime | RuncRuntime | CriRuntime = ProcessRuntime(
            place, clock, logs, options.cdi_dirs
        )
    elif options.runtime == RUNC:
        settings = RuncSettings(
            place,
            options.runc,
            options.allow_host_image,
            options.cdi_dirs,
            logs,
            options.image_dirs,
            options.root_dir / SECCOMP,
        )
        chosen = RuncRuntime(settings, clock)
    elif options.runtime == CRI:
        # The directory is what stays the same after a restart, and what two kubelets cannot share.
        owner = make_id(place)[:12]
        chosen = CriRuntime(
            CriSettings(owner, options.cri_socket, logs=logs, seccomp=options.root_dir / SECCOMP),
            clock,
        )
    else:
        raise InvalidError(
            f"--runtime {options.runtime!r} must be {RUNC}, {CRI} or {PROCESS}", field="--runtime"
        )
    async with chosen as runtime:
        yield runtime
