"""Which programs a real node needs, where each comes from, and where the installed copy lies.

Everything lives in a cache outside the checkout, one directory per source and content: a change of version, of
`go.sum` or of a build flag gives another directory, so that two checkouts never disturb each other.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.36.4"
CONTAINERD_VERSION = "v2.3.4"
_VERSION_VARIABLES = "k8s.io/component-base/version"


@dataclass(frozen=True)
class GoModule:
    """Programs built from one tools module (`tests/e2e/tools/<name>`)."""

    name: str
    version: str
    packages: tuple[str, ...]
    tags: str
    ldflags: str

    @property
    def programs(self) -> dict[str, str]:
        """Program name to Go package."""
        return {package.rpartition("/")[2]: package for package in self.packages}


KUBERNETES = GoModule(
    name="kubernetes",
    version=KUBERNETES_VERSION,
    packages=(
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kubectl",
        "k8s.io/kubernetes/cmd/kubelet",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/test/images/sample-device-plugin",
        "k8s.io/kubernetes/test/e2e/dra/test-driver",
    ),
    tags="",
    ldflags=" ".join(
        (
            "-s -w",
            f"-X {_VERSION_VARIABLES}.gitVersion={KUBERNETES_VERSION}",
            f"-X {_VERSION_VARIABLES}.gitMajor={KUBERNETES_VERSION[1:].split('.')[0]}",
            f"-X {_VERSION_VARIABLES}.gitMinor={KUBERNETES_VERSION.split('.')[1]}",
        )
    ),
)

CONTAINERD = GoModule(
    name="containerd",
    version=CONTAINERD_VERSION,
    packages=tuple(
        f"github.com/containerd/containerd/v2/cmd/{name}"
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    tags="no_btrfs,no_zfs,no_devmapper",
    ldflags="-s -w",
)

GO_MODULES = (KUBERNETES, CONTAINERD)

# Program to (Debian package, path inside it). Packages are unpacked into the cache, not installed: so no etcd
# service is started or enabled, and a machine's own busybox or runc stays as it is.
DEBIAN_PROGRAMS = {
    "etcd": ("etcd-server", "usr/bin/etcd"),
    "runc": ("runc", "usr/sbin/runc"),
    "busybox": ("busybox-static", "bin/busybox"),
    "cni": ("containernetworking-plugins", "usr/lib/cni"),
}


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/dray/e2e` or `~/.cache/dray/e2e`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return home / "dray" / "e2e"


def _short_hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Tools:
    """The installed programs. `modules` is the directory with the tools modules (`tests/e2e/tools`)."""

    modules: Path
    cache: Path

    def module_dir(self, module: GoModule) -> Path:
        """Where the programs built from `module` lie."""
        source = self.modules / module.name
        key = _short_hash(
            (source / "go.mod").read_bytes(),
            (source / "go.sum").read_bytes(),
            repr((module.packages, module.tags, module.ldflags)).encode(),
        )
        return self.cache / f"{module.name}-{module.version}-{key}"

    def debian_dir(self) -> Path:
        """Where the Debian packages are unpacked."""
        return self.cache / f"debian-{_short_hash(repr(sorted(DEBIAN_PROGRAMS.items())).encode())}"

    def path(self, program: str) -> Path:
        """The absolute path of one program (`kubelet`, `etcd`, `cni` for the directory of plugins, ...)."""
        if program in DEBIAN_PROGRAMS:
            return self.debian_dir() / DEBIAN_PROGRAMS[program][1]
        for module in GO_MODULES:
            if program in module.programs:
                return self.module_dir(module) / program
        raise KeyError(program)

    def missing(self) -> list[str]:
        """The programs that are not installed yet."""
        built = [program for module in GO_MODULES for program in module.programs]
        return [program for program in (*DEBIAN_PROGRAMS, *built) if not self.path(program).exists()]


def locate(modules: Path) -> Tools:
    """The tools of the checkout whose tools modules are in `modules`; asks nothing about what is installed."""
    return Tools(modules=modules.resolve(), cache=cache_dir())
