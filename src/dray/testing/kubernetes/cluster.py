"""One whole real node: control plane, scheduler, controller manager, containerd, kubelet.

with Cluster(locate(modules)) as cluster:
    cluster.kubectl("apply", "-f", "-", input=manifest)
    cluster.wait_pod("hello", "Succeeded")
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dray.errors import NotFoundError, UnavailableError
from dray.testing.kubernetes import commands, images, leftovers, node
from dray.testing.kubernetes.certificates import KeyPair
from dray.testing.kubernetes.control_plane import READY_TIMEOUT_S, ControlPlane
from dray.testing.kubernetes.part import Part, wait_until
from dray.testing.kubernetes.tools import Tools

NODE_READY_TIMEOUT_S = 60.0
NAMESPACE_TIMEOUT_S = 10.0
CONTAINERD_TIMEOUT_S = 30.0


class Cluster(ControlPlane):
    """A real node, Ready. `dirs` are the node's directories as seen from outside its mount namespace."""

    dirs: node.NodeDirs
    namespace: Part
    containerd: Part
    controller_manager: Part
    scheduler: Part
    kubelet: Part
    node_kubeconfig: Path

    def __init__(
        self,
        tools: Tools,
        *,
        feature_gates: Mapping[str, bool] | None = None,
        save_logs: Path | None = None,
        node_name: str = "node-1",
    ) -> None:
        super().__init__(tools, feature_gates=feature_gates, save_logs=save_logs)
        self.node_name = node_name

    # For tests

    def enter(self) -> list[str]:
        """What to put before a command so that it runs where the kubelet runs (it sees `/var/lib/kubelet`, `/run`)."""
        return ["nsenter", f"--mount=/proc/{self.namespace.pid}/ns/mnt", "--"]

    def spawn(self, name: str, *argv: str | Path, env: Mapping[str, str] | None = None) -> Part:
        """Start a program beside the kubelet (a device plugin, a DRA driver, an agent).

        Its output goes to the log `name`; it is stopped with the cluster at the latest.
        """
        part = self._part(name, [*self.enter(), *argv], env)
        part.start()
        return part

    def wait_node(self, timeout: float = NODE_READY_TIMEOUT_S) -> None:
        """Wait until the node is Ready and takes pods."""
        parts = (self.apiserver, self.controller_manager, self.scheduler, self.containerd, self.kubelet)
        wait_until(self._is_node_ready, "a Ready node", timeout, parts)

    def wait_pod(
        self, name: str, phase: str = "Running", namespace: str = "default", timeout: float = 60.0
    ) -> Any:
        """Wait until the pod is in `phase` and return it. Raises at once when it failed instead."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        ends = {phase, "Failed"}
        wait_until(
            lambda: _phase(self._access.find(path)) in ends, f"pod {name} to be {phase}", timeout, poll=0.1
        )
        pod = self.request("GET", path)
        if _phase(pod) != phase:
            raise UnavailableError(f"pod {name} is Failed, not {phase}: {json.dumps(pod['status'])}")
        return pod

    def pod_log(self, name: str, namespace: str = "default", container: str = "*") -> str:
        """What the pod's containers printed; unlike `kubectl logs`, also when kubelet or pod are gone."""
        files = sorted((self.dirs.log / "pods").glob(f"{namespace}_{name}_*/{container}/*.log"))
        if not files:
            raise NotFoundError(f"pod {namespace}/{name} has printed nothing yet.", kind="Pod", name=name)
        # A line reads: time, stream, F or P (full or part), text.
        lines = [line.split(" ", 3) for file in files for line in file.read_text().splitlines()]
        return "".join(text + ("\n" if kind == "F" else "") for _, _, kind, text in lines)

    def ctr(self, *args: str, timeout: float = 60.0) -> str:
        """Run containerd's own client on the kubelet's containers and images."""
        socket = self._containerd_socket()
        return self._run([self.tools.path("ctr"), "-a", socket, "-n", "k8s.io", *args], None, timeout)

    def stop_kubelet(self) -> None:
        """Stop the kubelet; pods keep running."""
        self.kubelet.stop()

    def start_kubelet(self) -> None:
        """Start the kubelet again; `wait_node` tells when the node is Ready."""
        self.kubelet.start()

    @contextmanager
    def without(self, *controllers: str) -> Iterator[None]:
        """In the block neither kube-scheduler runs nor these controllers of the controller manager: others do it."""
        self.scheduler.stop()
        self._swap_controllers(controllers)
        try:
            yield
        finally:
            self._swap_controllers(())
            self.scheduler.start()

    def _swap_controllers(self, without: Sequence[str]) -> None:
        self.controller_manager.stop()
        self._parts.remove(self.controller_manager)
        command = self._controllers_command(without)
        self.controller_manager = self._part("kube-controller-manager", command)
        self.controller_manager.start()

    # Starting

    def _prepare(self) -> None:
        """The mount namespace comes first: the API server runs in it too, to know the node by name."""
        leftovers.claim_host_dirs()
        self.dirs = node.NodeDirs(self.directory)
        self.dirs.make(self.node_name)
        node.make_cgroups(self.directory)
        self.namespace = self._part("namespace", node.namespace_command(self.dirs))
        self.namespace.start()
        wait_until(
            self.dirs.is_namespace_ready, "the mount namespace", NAMESPACE_TIMEOUT_S, (self.namespace,)
        )
        super()._prepare()

    def _apiserver_command(self) -> commands.Command:
        return [*self.enter(), *super()._apiserver_command()]

    def _start(self) -> None:
        """Start in an order that lets the slow ones overlap: containerd and images while the API server comes up."""
        for part in self._serving:
            part.start()
        self._start_containerd()
        wait_until(self._access.is_ready, "the API server", READY_TIMEOUT_S, self._parts)
        self._start_controllers()
        self._start_kubelet()
        self.wait_node()

    def _start_containerd(self) -> None:
        config = self.directory / "containerd.toml"
        node.write_containerd_config(config, self.tools, self.directory)
        node.write_network_config(self.directory)
        shim_dir = self.tools.path("containerd-shim-runc-v2").parent
        path = {"PATH": f"{shim_dir}:{os.environ.get('PATH', os.defpath)}"}
        command: commands.Command = [*self.enter(), self.tools.path("containerd"), "--config", config]
        self.containerd = self._part("containerd", command, path)
        self.containerd.start()
        archive = self.directory / "images.tar"
        images.write_archive(self.tools.path("busybox"), archive, node.go_architecture())
        wait_until(self._containerd_socket().exists, "containerd", CONTAINERD_TIMEOUT_S, (self.containerd,))
        self.ctr("images", "import", "--local", "--snapshotter", node.SNAPSHOTTER, str(archive))
        archive.unlink()

    def _start_controllers(self) -> None:
        self.controller_manager = self._part("kube-controller-manager", self._controllers_command())
        self.controller_manager.start()
        self.scheduler = self._part("kube-scheduler", self._scheduler_command())
        self.scheduler.start()

    def _controllers_command(self, without: Sequence[str] = ()) -> commands.Command:
        return commands.controller_manager(self.settings, self.identities, without)

    def _scheduler_command(self) -> commands.Command:
        return commands.scheduler(self.settings, self.identities)

    def _start_kubelet(self) -> None:
        config = self.directory / "kubelet.json"
        serving = self.authority.server("kubelet", ("127.0.0.1", "localhost", self.node_name))
        config.write_text(json.dumps(self._kubelet_config(serving)))
        self.node_kubeconfig = self.kubeconfig_for(f"system:node:{self.node_name}", "system:nodes")
        command = commands.kubelet(self.settings, config, self.node_kubeconfig, self.node_name)
        self.kubelet = self._part("kubelet", [*self.enter(), *command])
        self.kubelet.start()

    def _kubelet_config(self, serving: KeyPair) -> dict[str, Any]:
        return node.kubelet_config(self.settings, serving, self.authority.certificate)

    def _containerd_socket(self) -> Path:
        return self.dirs.run / node.CONTAINERD_SOCKET.removeprefix("/run/")

    def _is_node_ready(self) -> bool:
        """Ready, and without the taint a new node carries until the controller manager has seen it Ready."""
        item = self._access.find(f"/api/v1/nodes/{self.node_name}")
        if item is None:
            return False
        conditions = {entry["type"]: entry["status"] for entry in item["status"].get("conditions", [])}
        return conditions.get("Ready") == "True" and not item["spec"].get("taints")


def _phase(pod: Any) -> str | None:
    return pod["status"].get("phase") if pod else None
