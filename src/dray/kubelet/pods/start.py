"""A container of a pod, with its devices, as the runtime wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.core.container import Container
from dray.api.meta import Int64, Model
from dray.cdi.edits import Mount
from dray.errors import InvalidError
from dray.kubelet.pods.contract import RunOptions
from dray.kubelet.pods.environment import Sources, environment, expand_all
from dray.kubelet.runtimes.contract import (
    LOCALHOST,
    RUNTIME_DEFAULT,
    UNCONFINED,
    ContainerConfig,
    PodIdentity,
    Profile,
    SandboxConfig,
    Security,
)
from dray.runtime.files.saferesolve import check_relative

_CPU_PERIOD = 100_000
_LEAST_SHARES = 2

T = TypeVar("T")


def identity(pod: Pod) -> PodIdentity:
    """Whose containers they are."""
    return PodIdentity(pod.metadata.uid, pod.metadata.namespace, pod.metadata.name)


def log_directory(root: Path, pod: Pod) -> Path:
    """Where kubectl and log collectors look for a pod's logs."""
    return root / f"{pod.metadata.namespace}_{pod.metadata.name}_{pod.metadata.uid}"


def sandbox_config(pod: Pod, attempt: int, logs: Path) -> SandboxConfig:
    """The pod's sandbox. InvalidError if the pod needs a user namespace: without one, root in a container is root on the node."""
    if pod.spec.host_users is False:
        raise InvalidError(
            "spec.hostUsers: false is not supported by this node, which has no user namespaces for pods: root in a container"
            " would be root on the node; leave it out, or run the pod on another node",
            field="spec.hostUsers",
        )
    return SandboxConfig(
        identity(pod),
        hostname=pod.spec.hostname or pod.metadata.name,
        log_directory=log_directory(logs, pod),
        attempt=attempt,
        host_network=pod.spec.host_network,
        host_pid=pod.spec.host_pid,
        privileged=any(
            (one.security_context or {}).get("privileged") is True
            for one in (*pod.spec.init_containers, *pod.spec.containers)
        ),
        labels=tuple(sorted(pod.metadata.labels.items())),
        annotations=tuple(sorted(pod.metadata.annotations.items())),
    )


def container_config(
    pod: Pod,
    container: Container,
    attempt: int,
    options: RunOptions,
    *,
    claims_cdi: tuple[str, ...],
    mounts: Callable[[Mapping[str, str]], tuple[Mount, ...]],
    sources: Sources,
    logs: Path,
) -> ContainerConfig:
    """Variables of devices come before the pod's own, which win; claims' CDI names before plugins', each once.

    `mounts` gives what the container sees of the pod's volumes, by its variables: a subPathExpr may name them.
    """
    env = environment(pod, container, sources, options.edits.env)
    return ContainerConfig(
        pod=identity(pod),
        name=container.name,
        image=container.image,
        log_path=log_directory(logs, pod) / container.name / f"{attempt}.log",
        attempt=attempt,
        command=expand_all(container.command, env),
        args=expand_all(container.args, env),
        working_dir=container.working_dir,
        env=env,
        mounts=_mounts(options, mounts(dict(env))),
        device_nodes=options.edits.device_nodes,
        cdi_devices=tuple(dict.fromkeys((*claims_cdi, *options.cdi_devices))),
        annotations=options.edits.annotations,
        security=security(pod, container),
        **_resources(container),
    )


def _mounts(options: RunOptions, own: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Those of devices first; where a volume of the pod is at the same place, the volume is what the pod asked for."""
    taken = {one.container_path for one in own}
    return (*(one for one in options.edits.mounts if one.container_path not in taken), *own)


def _resources(container: Container) -> dict[str, int]:
    limits, requests = container.resources.limits, container.resources.requests
    found: dict[str, int] = {}
    if (cpu := requests.get("cpu") or limits.get("cpu")) is not None:
        found["cpu_shares"] = max(_LEAST_SHARES, cpu.milli_value() * 1024 // 1000)
    if (cpu := limits.get("cpu")) is not None:
        found["cpu_quota"] = max(1000, cpu.milli_value() * _CPU_PERIOD // 1000)
    if (memory := limits.get("memory")) is not None:
        found["memory_limit"] = memory.value()
    return found


class _Capabilities(Model, frozen=True, kw_only=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class _ProfileField(Model, frozen=True, kw_only=True):
    type: str = ""
    localhost_profile: str = ""


class _Context(Model, frozen=True, kw_only=True):
    """The fields of a pod's or container's security context that Dray implements. None: not set."""

    privileged: bool | None = None
    run_as_user: Int64 | None = None
    run_as_group: Int64 | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[Int64, ...] = ()
    supplemental_groups_policy: str = ""
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: _Capabilities = _Capabilities()
    seccomp_profile: _ProfileField | None = None
    app_armor_profile: _ProfileField | None = None


def security(pod: Pod, container: Container) -> Security:
    """The container's security context over the pod's. InvalidError names a malformed field."""
    whole = _context(pod.spec.security_context, "spec.securityContext")
    own = _context(container.security_context, f"spec.containers[{container.name}].securityContext")

    def pick(ours: T | None, pods: T | None) -> T | None:
        """null is absent, as everywhere: it takes back nothing that the pod says."""
        return pods if ours is None else ours

    return Security(
        privileged=own.privileged is True,
        user=pick(own.run_as_user, whole.run_as_user),
        non_root=pick(own.run_as_non_root, whole.run_as_non_root) is True,
        group=pick(own.run_as_group, whole.run_as_group),
        supplemental_groups=whole.supplemental_groups,
        strict_groups=whole.supplemental_groups_policy == "Strict",
        read_only_root=own.read_only_root_filesystem is True,
        add_capabilities=own.capabilities.add,
        drop_capabilities=own.capabilities.drop,
        no_new_privileges=own.allow_privilege_escalation is False,
        seccomp=_profile(pick(own.seccomp_profile, whole.seccomp_profile), "seccompProfile") or Profile(),
        apparmor=_profile(pick(own.app_armor_profile, whole.app_armor_profile), "appArmorProfile"),
    )


def _context(given: Mapping[str, Any] | None, where: str) -> _Context:
    try:
        return view(dict(given or {}), _Context)
    except InvalidError as error:
        raise InvalidError(f"{where}: {error}", field=f"{where}.{error.field}") from error


def _profile(given: _ProfileField | None, field: str) -> Profile | None:
    if given is None or given == _ProfileField():
        return None
    kind, name = given.type, given.localhost_profile
    if kind not in (UNCONFINED, RUNTIME_DEFAULT, LOCALHOST):
        raise InvalidError(
            f"{field}.type {kind!r} must be RuntimeDefault, Localhost or Unconfined", field=f"{field}.type"
        )
    if kind == LOCALHOST:
        if not name:
            raise InvalidError(f"{field}.localhostProfile must be set where type is Localhost", field=field)
        check_relative(name)
    return Profile(kind, name if kind == LOCALHOST else "")
