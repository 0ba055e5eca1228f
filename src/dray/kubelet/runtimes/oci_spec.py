"""A container and its image as an OCI runtime spec, with containerd's defaults. Pure: the host comes through arguments."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.cdi.edits import DeviceNode, Mount
from dray.cdi.host import Stat
from dray.errors import HardwareError, InvalidError
from dray.kubelet.runtimes.capabilities import ALL_CAPABILITIES, choose
from dray.kubelet.runtimes.contract import LOCALHOST, RUNTIME_DEFAULT, ContainerConfig
from dray.kubelet.runtimes.hidden import MASKED, READ_ONLY
from dray.kubelet.runtimes.seccomp import default_profile
from dray.kubelet.runtimes.users import Owner

OciSpec = dict[str, Any]

DEFAULT_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PERIOD: Final = 100_000
_NO_RUN: Final = ("nosuid", "noexec", "nodev")
# Destination, type, source, options.
_DEFAULT_MOUNTS: Final = (
    ("/proc", "proc", "proc", _NO_RUN),
    ("/dev", "tmpfs", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    (
        "/dev/pts",
        "devpts",
        "devpts",
        ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
    ),
    ("/dev/shm", "tmpfs", "shm", (*_NO_RUN, "mode=1777", "size=65536k")),  # noqa: S108
    ("/dev/mqueue", "mqueue", "mqueue", _NO_RUN),
    ("/sys", "sysfs", "sysfs", (*_NO_RUN, "ro")),
    ("/sys/fs/cgroup", "cgroup", "cgroup", (*_NO_RUN, "relatime", "ro")),
)


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What an image says about how it is run."""

    env: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the container runs: its root directory, its cgroup, and the namespaces it shares, by type and file."""

    root: str
    cgroup: str
    shared: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ("pid", "mount")
    known_capabilities: tuple[str, ...] = ALL_CAPABILITIES
    """Those that can be given here."""
    masked: tuple[str, ...] = MASKED
    machine: str = "x86_64"
    seccomp: Mapping[str, Any] | None = None
    """The profile of this node that the pod names, where it names one."""
    oom_score: int = 0
    can_limit_swap: bool = False


def make_spec(config: ContainerConfig, image: ImageConfig, owner: Owner, place: Place, stat: Stat) -> OciSpec:
    """CDI devices are not in it: `dray.cdi.inject` adds them. HardwareError for a node that is not on the host."""
    privileged = config.security.privileged
    seccomp = _seccomp(config, place)
    return {
        "ociVersion": "1.0.2",
        "process": _process(config, image, owner, place),
        "root": {"path": place.root, "readonly": config.security.read_only_root},
        "mounts": _mounts(config.mounts, privileged),
        "annotations": dict(config.annotations),
        "linux": {
            "cgroupsPath": place.cgroup,
            "namespaces": _namespaces(place),
            "maskedPaths": [] if privileged else list(place.masked),
            "readonlyPaths": [] if privileged else list(READ_ONLY),
            **({"seccomp": seccomp} if seccomp else {}),
            **_devices(config, place, stat),
        },
    }


def command_line(config: ContainerConfig, image: ImageConfig) -> list[str]:
    """A command of the pod replaces entrypoint and arguments of the image, arguments alone only the arguments."""
    argv = [*config.command, *config.args]
    if not config.command:
        argv = [*image.entrypoint, *(config.args or image.cmd)]
    if not argv:
        raise InvalidError(
            f"container {config.name} has no command: neither the pod nor image {config.image} gives one",
            field="command",
        )
    return argv


def environment(image: Iterable[str], env: Sequence[tuple[str, str]]) -> list[str]:
    """The image's first; a name that comes again keeps its place and gets the new value."""
    found = {DEFAULT_PATH.partition("=")[0]: DEFAULT_PATH}
    for text in (*image, *(f"{name}={value}" for name, value in env)):
        found[text.partition("=")[0]] = text
    return list(found.values())


def _process(config: ContainerConfig, image: ImageConfig, owner: Owner, place: Place) -> OciSpec:
    names = choose(config.security, place.known_capabilities)
    return {
        "terminal": False,
        "user": {"uid": owner.uid, "gid": owner.gid, "additionalGids": list(owner.groups)},
        "args": command_line(config, image),
        "env": environment(image.env, config.env),
        "cwd": config.working_dir or image.working_dir or "/",
        "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), names),
        "noNewPrivileges": config.security.no_new_privileges and not config.security.privileged,
        "oomScoreAdj": place.oom_score,
        **_apparmor(config),
    }


def _seccomp(config: ContainerConfig, place: Place) -> Mapping[str, Any] | None:
    """None for a privileged container, and where the pod names no profile: then Kubernetes has none either."""
    kind = config.security.seccomp.type
    if config.security.privileged:
        return None
    if kind == RUNTIME_DEFAULT:
        return default_profile(choose(config.security, place.known_capabilities), place.machine)
    return place.seccomp if kind == LOCALHOST else None


def _apparmor(config: ContainerConfig) -> OciSpec:
    """A profile that is loaded on the node. InvalidError for the runtime's default: there is none, and less is not given."""
    wanted = config.security.apparmor
    if wanted is None or config.security.privileged:
        return {}
    if wanted.type == RUNTIME_DEFAULT:
        raise InvalidError(
            "appArmorProfile RuntimeDefault: runc has no default profile; name one that is loaded on the node"
            " (Localhost), leave the field out, or use --runtime cri",
            field="securityContext.appArmorProfile",
        )
    return {"apparmorProfile": wanted.name} if wanted.type == LOCALHOST else {}


def _namespaces(place: Place) -> list[OciSpec]:
    own: list[OciSpec] = [{"type": kind} for kind in place.own]
    return own + [{"type": kind, "path": place.shared[kind]} for kind in sorted(place.shared)]


def _mounts(mounts: Sequence[Mount], privileged: bool) -> list[OciSpec]:
    """Ours give way to the pod's with the same destination. All in order of depth, so that none hides another."""
    taken = {posixpath.normpath(mount.container_path) for mount in mounts}
    made = [
        _mount(destination, kind, source, _options(options, privileged and destination.startswith("/sys")))
        for destination, kind, source, options in _DEFAULT_MOUNTS
        if destination not in taken
    ]
    for mount in mounts:
        options = ("rbind", "rprivate", "ro" if mount.read_only else "rw")
        made.append(_mount(posixpath.normpath(mount.container_path), "bind", mount.host_path, options))
    return sorted(made, key=lambda one: str(one["destination"]).rstrip("/").count("/"))


def _options(options: Sequence[str], writable: bool) -> Sequence[str]:
    return ["rw" if writable and option == "ro" else option for option in options]


def _mount(destination: str, kind: str, source: str, options: Sequence[str]) -> OciSpec:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


def _devices(config: ContainerConfig, place: Place, stat: Stat) -> OciSpec:
    rules: list[OciSpec] = [{"allow": config.security.privileged, "access": "rwm"}]
    nodes: list[OciSpec] = []
    for node in config.device_nodes:
        made, access = _node(node, stat), {"access": _sorted_access(node.permissions)}
        nodes = [other for other in nodes if other["path"] != made["path"]] + [made]
        rules.append({"allow": True, **{key: made[key] for key in ("type", "major", "minor")}, **access})
    return {"devices": nodes, "resources": {"devices": rules, **_limits(config, place)}}


def _node(node: DeviceNode, stat: Stat) -> OciSpec:
    """Owner and mode are those on the host, whatever `runAsUser` is: a user may open a device here if it may open it there."""
    host = stat(node.host_path)
    if host is None or host.type not in ("b", "c"):
        reason = "does not exist on the host" if host is None else "is not a device node"
        raise HardwareError(f"device {node.host_path} {reason}", path=node.host_path)
    return {
        "path": node.container_path,
        "type": host.type,
        "major": host.major,
        "minor": host.minor,
        "fileMode": host.mode,
        "uid": host.uid,
        "gid": host.gid,
    }


def _sorted_access(permissions: str) -> str:
    return "".join(letter for letter in "rwm" if letter in permissions)


def _limits(config: ContainerConfig, place: Place) -> OciSpec:
    """A container with a memory limit does not swap: `swap` is the limit of memory and swap together."""
    limits: OciSpec = {}
    if config.cpu_shares:
        limits["cpu"] = {"shares": config.cpu_shares}
    if config.cpu_quota:
        limits.setdefault("cpu", {}).update({"quota": config.cpu_quota, "period": _PERIOD})
    if config.memory_limit:
        limits["memory"] = {"limit": config.memory_limit}
        if place.can_limit_swap:
            limits["memory"]["swap"] = config.memory_limit
    return limits
