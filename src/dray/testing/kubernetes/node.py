"""The place where the node's parts run: a mount namespace and a cgroup of their own, and the files they read.

In the namespace `/run`, `/var/log` and `/var/lib/kubelet` are directories of the cluster, and the kernel settings a
kubelet changes are plain files. So every path is the one of a real node, two clusters can run side by side, and the
machine keeps its own. Sockets and files are reachable from outside too, below the private directory.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.testing.kubernetes import images, leftovers
from dray.testing.kubernetes.certificates import KeyPair
from dray.testing.kubernetes.commands import Settings
from dray.testing.kubernetes.tools import Tools

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
SNAPSHOTTER = "native"  # also works where the private directory is on an overlay
CDI_DIRS = ("/etc/cdi", "/var/run/cdi")
# What a kubelet writes at its start (`--protect-kernel-defaults` would make it fail instead).
KERNEL_SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)


@dataclass(frozen=True)
class NodeDirs:
    """Directories of a node as seen from outside its mount namespace."""

    directory: Path

    @property
    def kubelet(self) -> Path:
        """`/var/lib/kubelet` inside: plugins_registry, plugins, device-plugins, pod-resources, pods."""
        return self.directory / "kubelet"

    @property
    def run(self) -> Path:
        """`/run` inside: containerd's socket, `/var/run/cdi`."""
        return self.directory / "run"

    @property
    def log(self) -> Path:
        """`/var/log` inside: below `pods/` is what containers print."""
        return self.directory / "logs" / "node"

    @property
    def networks(self) -> Path:
        """`/var/lib/cni` inside: what containerd remembers of the pods' networks."""
        return self.directory / "cni-results"

    @property
    def settings(self) -> Path:
        """Stand-ins for files below `/proc/sys`."""
        return self.directory / "settings"

    @property
    def hosts(self) -> Path:
        """`/etc/hosts` inside, where the node's name leads to loopback."""
        return self.directory / "hosts"

    def is_namespace_ready(self) -> bool:
        """Whether `namespace_command` has made its mounts."""
        return (self.directory / "namespace-ready").exists()

    def make(self, node_name: str) -> None:
        """Make them all, and those that a program expects to find."""
        registered = [self.kubelet / name for name in ("device-plugins", "plugins", "plugins_registry")]
        for path in (*registered, self.run / "cdi", self.log, self.settings, self.networks):
            path.mkdir(parents=True)
        for setting in KERNEL_SETTINGS:
            copy = self.settings / setting
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text((Path("/proc/sys") / setting).read_text())
        own = Path("/etc/hosts")
        self.hosts.write_text(f"127.0.0.1 localhost {node_name}\n{own.read_text() if own.exists() else ''}")


def namespace_command(dirs: NodeDirs) -> list[str | Path]:
    """A program that makes the mount namespace, says so with a file, and holds it until it is killed."""
    binds = [(dirs.run, "/run"), (dirs.log, "/var/log"), (dirs.kubelet, str(leftovers.KUBELET_DIR))]
    binds += [(dirs.networks, str(leftovers.CNI_DIR))]
    binds += [(dirs.hosts, "/etc/hosts")]
    binds += [(dirs.settings / setting, f"/proc/sys/{setting}") for setting in KERNEL_SETTINGS]
    lines = ["set -e", "mount --make-rshared /"]  # shared, as pods with mount propagation ask for
    lines += [f"mount --bind {source} {target}" for source, target in binds]
    lines += [f"touch {dirs.directory / 'namespace-ready'}", "exec sleep 2147483647"]
    return ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", "\n".join(lines)]


def make_cgroups(directory: Path) -> None:
    """Make the cgroup under which the kubelet puts its pods, in every hierarchy (v1) or the one (v2)."""
    unified = leftovers.CGROUPS / "cgroup.subtree_control"
    if unified.exists():
        for controller in ("cpuset", "cpu", "io", "memory", "pids", "hugetlb"):
            _write_if_possible(unified, f"+{controller}")
        (leftovers.CGROUPS / directory.name).mkdir()
        return
    hierarchies = [path for path in leftovers.CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]
    for hierarchy in sorted(hierarchies):
        group = hierarchy / directory.name
        group.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, and then nothing may run in it
            if (group / name).exists():
                (group / name).write_text((hierarchy / name).read_text())


def _write_if_possible(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:
        return


def write_containerd_config(path: Path, tools: Tools, directory: Path) -> None:
    """containerd's settings."""
    text = f"""
version = 3
root = "{directory / "containerd"}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "{SNAPSHOTTER}"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{images.PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true
cdi_spec_dirs = {json.dumps(CDI_DIRS)}
# Without CAP_SYS_RESOURCE a container cannot get the score the kubelet asks for.
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{tools.path("cni")}"]
conf_dir = "{directory / "cni"}"

[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
BinaryName = "{tools.path("runc")}"
SystemdCgroup = false
"""
    path.write_text(text)


def write_network_config(directory: Path) -> None:
    """Pods without hostNetwork sit on one bridge without a gateway: nothing of the machine's routing changes."""
    addresses = {"type": "host-local", "dataDir": str(directory / "cni-addresses")}
    bridge = {
        "type": "bridge",
        "bridge": leftovers.bridge_name(directory),
        "ipam": {**addresses, "ranges": [[{"subnet": "10.244.0.0/24"}]]},
    }
    config = {"cniVersion": "1.0.0", "name": "dray-e2e", "plugins": [bridge]}
    (directory / "cni").mkdir()
    (directory / "cni" / "10-dray-e2e.conflist").write_text(json.dumps(config))


def kubelet_config(settings: Settings, serving: KeyPair, authority: Path) -> dict[str, Any]:
    """The kubelet's settings that differ from its defaults, and why it needs them here."""
    directory = settings.directory
    resolv_conf = directory / "resolv.conf"
    resolv_conf.write_text("nameserver 127.0.0.1\n")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": settings.ports[3],
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "resolvConf": str(resolv_conf),
        "volumePluginDir": str(directory / "volume-plugins"),
        "featureGates": dict(settings.feature_gates),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{directory.name}",
        # The machine may mount cgroup v1, use swap, be almost full, or lack CAP_SYS_RESOURCE.
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1Mi", "imagefs.available": "1Mi"},
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        # A plugin's devices reach the node's status within a second instead of ten.
        "nodeStatusUpdateFrequency": "1s",
        "syncFrequency": "10s",
    }


def go_architecture() -> str:
    """This machine's architecture as images name it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
