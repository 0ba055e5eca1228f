"""`dray kubelet` as a node of a real API server: the real scheduler, Go's plugin and DRA driver, containers of runc."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.tools import Tools
from tests.e2e.busybox_root import make_root
from tests.e2e.sample_plugin import sample_files
from tests.e2e.scheduler_part import delete_claims, kube_scheduler
from tests.waiting import PATIENCE, block_until

Json = dict[str, Any]
NODE, SAMPLE, DRIVER = "dray-node", "example.com/resource", "test-driver.cdi.k8s.io"
PLUGINS = "/var/lib/kubelet/device-plugins"


@dataclass
class Node:
    """One node on directories of its own; its parts can be killed and started again."""

    plane: ControlPlane
    tools: Tools
    root: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, argv: list[str]) -> None:
        with (self.root / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(argv, stdout=log, stderr=log)

    def start_kubelet(self) -> None:
        argv = [sys.executable, "-m", "dray", "kubelet", "--kubeconfig", str(self.plane.kubeconfig)]
        argv += ["--node-name", NODE, "--kubelet-dir", str(self.root), "--runc", str(self.tools.path("runc"))]
        argv += [
            "--device-plugin-dir",
            str(self.root / "device-plugins"),
            "--cdi-dir",
            str(self.root / "cdi"),
        ]
        argv += ["--state-dir", str(self.root / "state"), "--log-dir", str(self.root / "logs")]
        argv += ["--image-dir", tempfile.gettempdir()]
        self.start("kubelet", [*argv, "--metrics-address", "none"])

    def start_plugin(self) -> None:
        """Its directory is fixed, so it is mounted over. It gives up when a kubelet that starts removes its socket."""
        self.until((self.root / "device-plugins/kubelet.sock").exists, "the kubelet serves")
        place = shlex.quote(str(self.root / "device-plugins"))
        lines = [
            "set -e",
            "mount -t tmpfs none /var/lib",
            f"mkdir -p {PLUGINS}",
            f"mount --bind {place} {PLUGINS}",
        ]
        lines.append(f"exec {shlex.quote(str(self.tools.path('sample-device-plugin')))}")
        self.start(
            "plugin", ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", "\n".join(lines)]
        )

    def start_driver(self) -> None:
        self.until((self.root / "plugins_registry").is_dir, "the kubelet watches for drivers")
        (self.root / "plugins" / DRIVER).mkdir(parents=True, exist_ok=True)
        argv = [
            str(self.tools.path("test-driver")),
            "--kubeconfig",
            str(self.plane.kubeconfig),
            "kubelet-plugin",
        ]
        argv += ["--node-name", NODE, "--plugin-registration-path", str(self.root / "plugins_registry")]
        argv += [
            "--datadir",
            str(self.root / "plugins"),
            "--cdi-dir",
            str(self.root / "cdi"),
            "--num-devices",
            "2",
        ]
        self.start("driver", argv)

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes.pop(name, None)
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def stop_all(self) -> None:
        for name in ("driver", "plugin", "kubelet"):
            self.kill(name, signal.SIGTERM)

    def until(self, condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
        return block_until(condition, what, self._logs, seconds)

    def _logs(self) -> str:
        logs = {path.name: path.read_text(errors="replace")[-3000:] for path in self.root.glob("*.log")}
        return "\n".join(f"== {name}\n{text}" for name, text in logs.items())

    def get(self, path: str) -> Json:
        """Empty where there is no such object; any other failure is one of the test."""
        try:
            found: Json = self.plane.request("GET", path)
        except HTTPError as error:
            if error.code != 404:
                raise
            return {}
        return found

    def pod(self, name: str) -> Json:
        return self.get(f"/api/v1/namespaces/default/pods/{name}")

    def wait_phase(self, name: str, phase: str) -> Json:
        self.until(
            lambda: self.pod(name).get("status", {}).get("phase") == phase,
            f"{name} {phase}: {self.pod(name)}",
        )
        return self.pod(name)

    def log(self, name: str) -> str:
        (path,) = (self.root / "logs").glob(f"default_{name}_*/main/0.log")
        return path.read_text()

    def connections(self) -> int:
        """How often a device plugin has connected so far."""
        return (self.root / "kubelet.log").read_text().count("device plugin connected")

    def registrations(self) -> int:
        """How often a DRA driver has registered so far."""
        return (self.root / "kubelet.log").read_text().count("plugin registered")

    def wait_registered(self, before: int) -> None:
        """Until a driver has registered once more."""
        self.until(lambda: self.registrations() > before, "the driver back")

    def wait_connected(self, before: int) -> None:
        """Until a plugin has connected once more."""
        self.until(lambda: self.connections() > before, "the plugin back")

    def allocatable(self, resource: str) -> str:
        found: str = (
            self.get(f"/api/v1/nodes/{NODE}").get("status", {}).get("allocatable", {}).get(resource, "")
        )
        return found

    def create(self, document: Json) -> None:
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(document))

    def delete(self, name: str) -> None:
        self.plane.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")
        self.wait_gone(name)

    def wait_gone(self, name: str) -> None:
        """Until the server does not have the pod any more."""
        self.until(lambda: not self.pod(name), f"{name} gone")


@pytest.fixture(scope="module")
def rootfs(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("image"), tools)


@pytest.fixture(scope="module")
def plane(killable: ControlPlane) -> Iterator[ControlPlane]:
    with kube_scheduler(killable):
        yield killable
    delete_claims(killable)
    killable.kubectl("delete", "deviceclass", "test")
    killable.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


@pytest.fixture
def node(plane: ControlPlane, tools: Tools) -> Iterator[Node]:
    # A socket's path has room for 107 bytes, and the driver's name takes many of them.
    root = Path(tempfile.mkdtemp(prefix="dray-node-"))
    for name in ("device-plugins", "cdi"):
        (root / name).mkdir()
    made = Node(plane, tools, root)
    try:
        made.start_kubelet()
        yield made
    finally:
        for item in plane.request("GET", "/api/v1/namespaces/default/pods")["items"]:
            name = item["metadata"]["name"]
            plane.request("DELETE", f"/api/v1/namespaces/default/pods/{name}")
            made.wait_gone(name)
        made.stop_all()
        if made.get(f"/api/v1/nodes/{NODE}"):
            plane.request("DELETE", f"/api/v1/nodes/{NODE}")
        shutil.rmtree(root)


def pod(name: str, image: Path, script: str, **more: Any) -> Json:
    container = {
        "name": "main",
        "image": f"dir:{image}",
        "command": ["sh", "-c", script],
        "resources": more.pop("resources", {}),
    }
    spec = {
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
        **more,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def pid_of(node: Node, marker: str) -> int:
    """The one process whose command has the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (
                    marker.encode() in (entry / "cmdline").read_bytes()
                    and b"sleep" in (entry / "comm").read_bytes()
                ):
                    found.append(int(entry.name))
    assert len(found) == 1, (marker, found)
    return found[0]


@pytest.fixture
def alone() -> Iterator[None]:
    with sample_files():
        yield


@pytest.mark.usefixtures("alone")
def test_gos_sample_plugin_serves_pods_and_either_side_may_die(node: Node, rootfs: Path) -> None:
    node.start_plugin()
    node.until(lambda: node.allocatable(SAMPLE) == "2", "two devices allocatable")
    wants = {"limits": {SAMPLE: "1"}}
    node.create(pod("holder", rootfs, "env; ls /tmp; exec sleep 77771", resources=wants))
    status = node.wait_phase("holder", "Running")["status"]
    (held,) = status["containerStatuses"][0]["allocatedResourcesStatus"]
    assert (held["name"], len(held["resources"])) == (SAMPLE, 1)
    first = pid_of(node, "77771")
    for victim in ("kubelet", "plugin", "kubelet"):
        before = node.connections()
        node.kill(victim)
        os.kill(first, 0)
        node.start_kubelet() if victim == "kubelet" else node.start_plugin()
        node.wait_connected(before)
        node.until(lambda: node.allocatable(SAMPLE) == "2", f"two devices again after the {victim} died")
        assert pid_of(node, "77771") == first
    node.create(pod("second", rootfs, "exec sleep 77772", resources=wants))
    other = node.wait_phase("second", "Running")["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
    assert other[0]["resources"] != held["resources"]
    node.delete("holder")
    node.create(pod("third", rootfs, "exec sleep 77773", resources=wants))
    node.wait_phase("third", "Running")
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_gos_dra_driver_prepares_and_its_cdi_device_reaches_the_container(node: Node, rootfs: Path) -> None:
    node.start_driver()
    node.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "test"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        }
    )
    parameters = {"driver": DRIVER, "parameters": {"user_color": "blue"}}
    devices = {
        "requests": [{"name": "one", "exactly": {"deviceClassName": "test"}}],
        "config": [{"opaque": parameters}],
    }
    node.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "claim", "namespace": "default"},
            "spec": {"devices": devices},
        }
    )
    claims = [{"name": "mine", "resourceClaimName": "claim"}]
    node.create(
        pod(
            "user",
            rootfs,
            "env; exec sleep 77774",
            resourceClaims=claims,
            resources={"claims": [{"name": "mine"}]},
        )
    )
    node.wait_phase("user", "Running")
    node.until(lambda: "user_color=blue" in node.log("user"), "the driver's variable in the container")
    first = pid_of(node, "77774")
    for victim in ("kubelet", "driver"):
        before = node.registrations()
        node.kill(victim)
        node.start_kubelet() if victim == "kubelet" else node.start_driver()
        node.wait_registered(before)
        assert pid_of(node, "77774") == first
    state = json.loads(json.loads((node.root / "dra_manager_state").read_text())["Data"])
    (entry,) = state["ClaimInfoStateList"]
    assert (entry["ClaimName"], list(entry["DriverState"])) == ("claim", [DRIVER])
    node.delete("user")
    state = json.loads(json.loads((node.root / "dra_manager_state").read_text())["Data"])
    assert not state["ClaimInfoStateList"]
