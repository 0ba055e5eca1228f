"""A real node on which pods reach the API server as they do everywhere: by its service address, with their own token.

The node of `dray.testing.kubernetes` has pods without either; here they sit on a bridge that has the service address.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dray.testing.image import build_image
from dray.testing.install_steps import run_again
from dray.testing.kubernetes import commands, leftovers, node
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.part import Part, wait_until
from dray.testing.kubernetes.tools import GoModule, Tools

NAMESPACE = "dray-system"
CHART = Path("deploy/helm/dray")
HELM = GoModule(
    name="helm",
    version="v3.22.0",
    packages=("helm.sh/helm/v3/cmd/helm",),
    tags="",
    ldflags="-s -w -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36",
)
# The first address of the services is the API server's, and the bridge has it. Pods are in the other half.
SERVICE_ADDRESS, SERVICES, NETWORK, NETMASK, FIRST_POD = (
    "10.96.0.1",
    "10.96.0.0/24",
    "10.96.0.0/23",
    "255.255.254.0",
    "10.96.1.2",
)
OURS = ("resourceclaim-controller", "device-taint-eviction-controller", "pod-garbage-collector-controller")
_SIOCBRADDBR, _SIOCSIFADDR, _SIOCSIFNETMASK, _SIOCSIFFLAGS, _UP = 0x89A0, 0x8916, 0x891C, 0x8914, 1


class DeployCluster(Cluster):
    """Real scheduler and controllers, but those that Dray brings along; and Dray's image."""

    image: str
    helm_program: Path

    def _apiserver_command(self) -> commands.Command:
        changed = {
            "--disable-admission-plugins": None,
            "--service-cluster-ip-range": SERVICES,
        }
        # Webhooks are called at their pods: nobody routes the other service addresses.
        return [*_changed(super()._apiserver_command(), changed), "--enable-aggregator-routing=true"]

    def _controllers_command(self, without: Sequence[str] = ()) -> commands.Command:
        return super()._controllers_command((*without, *OURS))

    def _part(self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Part:
        if name == "containerd" and not _is_overlay(self.directory):
            _use_overlay(self.directory / "containerd.toml")
        return super()._part(name, argv, env)

    def _start_containerd(self) -> None:
        super()._start_containerd()
        bridge = leftovers.bridge_name(self.directory)
        _make_bridge(bridge)
        self._write_network(bridge)
        self.spawn(
            "service-address",
            sys.executable,
            Path(__file__).parent / "programs" / "service_address.py",
            f"{SERVICE_ADDRESS}:443",
            self.server.removeprefix("https://"),
        )
        archive = self.directory / "dray.tar"
        self.image = build_image(Path.cwd(), archive)
        self.ctr("images", "import", "--local", "--no-unpack", str(archive), timeout=120.0)
        archive.unlink()
        self.helm_program = install_helm(self.tools)

    def _write_network(self, bridge: str) -> None:
        addresses = {"type": "host-local", "dataDir": str(self.directory / "cni-addresses")}
        pods = {"subnet": NETWORK, "rangeStart": FIRST_POD}
        plugin = {"type": "bridge", "bridge": bridge, "ipam": {**addresses, "ranges": [[pods]]}}
        config = {"cniVersion": "1.0.0", "name": "dray-e2e", "plugins": [plugin]}
        (self.directory / "cni" / "10-dray-e2e.conflist").write_text(json.dumps(config))

    # For tests

    def helm(self, *words: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        """Run helm as administrator and return what it printed."""
        return self._run(
            [self.helm_program, f"--kubeconfig={self.kubeconfig}", f"--namespace={NAMESPACE}", *words],
            stdin,
            timeout,
        )

    def pods_of(self, part: str) -> list[Any]:
        """Dray's pods of one part, those that are going left out."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component={part}"
        return [
            pod for pod in self.request("GET", path)["items"] if "deletionTimestamp" not in pod["metadata"]
        ]

    def wait_ready(self, part: str, timeout: float = 60.0) -> Any:
        """Wait until the part has its one pod (the guard: its two), and that is Ready; returns it."""
        ready = [True, True] if part == "guard" else [True]
        wait_until(
            lambda: [_is_ready(pod) for pod in self.pods_of(part)] == ready, f"{part} to be Ready", timeout
        )
        return self.pods_of(part)[0]


def install_helm(tools: Tools) -> Path:
    """helm, built where it is missing."""
    program = tools.module_dir(HELM) / "helm"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        unfinished = program.with_suffix(".unfinished")
        build = ["env", "CGO_ENABLED=0", "GOWORK=off", "go", "build", "-trimpath", "-ldflags", HELM.ldflags]
        run_again([*build, "-o", str(unfinished), HELM.packages[0]], tools.modules / HELM.name)
        unfinished.rename(program)
    return program


def _is_overlay(directory: Path) -> bool:
    """Whether it lies on an overlay, over which there cannot be another."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True)
    return kind.stdout.strip() == "overlayfs"


def _use_overlay(config: Path) -> None:
    """Dray's image is large: the way that works everywhere copies it for each container."""
    config.write_text(config.read_text().replace(f'"{node.SNAPSHOTTER}"', '"overlayfs"'))


def _is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _changed(command: commands.Command, flags: dict[str, str | None]) -> commands.Command:
    """The command with other values for these flags; None: without it."""
    result: commands.Command = []
    for word in command:
        name = str(word).partition("=")[0]
        if name not in flags:
            result.append(word)
        elif flags[name] is not None:
            result.append(f"{name}={flags[name]}")
    return result


def _make_bridge(name: str) -> None:
    """By ioctl, like its removal: the machine may have no `ip` command, and its routing is not changed otherwise."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCBRADDBR, name.encode() + b"\0")
        for request, address in ((_SIOCSIFADDR, SERVICE_ADDRESS), (_SIOCSIFNETMASK, NETMASK)):
            packed = struct.pack("16sHH4s8x", name.encode(), socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, request, packed)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", name.encode(), _UP))
