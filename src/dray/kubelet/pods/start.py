"""A container of a pod, with its devices, as the runtime wants it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dray.api.core import Pod
from dray.api.core.container import Container
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
    Security,
)
from dray.runtime.files.saferesolve import check_relative

_CPU_PERIOD = 100_000
_LEAST_SHARES = 2


def identity(pod: Pod) -> PodIdentity:
    """Whose containers they are."""
    return PodIdentity(pod.metadata.uid, pod.metadata.namespace, pod.metadata.name)


def log_directory(root: Path, pod: Pod) -> Path:
    """Where kubectl and log collectors look for a pod's logs."""
    return root / f"{pod.metadata.namespace}_{pod.metadata.name}_{pod.metadata.uid}"


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


def security(pod: Pod, container: Container) -> Security:
    """The container's security context over the pod's."""
    whole, own = pod.spec.security_context or {}, container.security_context or {}

    def pick(name: str) -> Any:
        """null is absent, as everywhere: it takes back nothing that the pod says."""
        given = own.get(name)
        return whole.get(name) if given is None else given

    capabilities = own.get("capabilities") or {}
    return Security(
        privileged=bool(own.get("privileged")),
        user=pick("runAsUser"),
        non_root=bool(pick("runAsNonRoot")),
        group=pick("runAsGroup"),
        supplemental_groups=tuple(whole.get("supplementalGroups") or ()),
        strict_groups=whole.get("supplementalGroupsPolicy") == "Strict",
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        add_capabilities=tuple(capabilities.get("add") or ()),
        drop_capabilities=tuple(capabilities.get("drop") or ()),
        no_new_privileges=own.get("allowPrivilegeEscalation") is False,
        seccomp=_profile(pick("seccompProfile"), "seccompProfile") or Profile(),
        apparmor=_profile(pick("appArmorProfile"), "appArmorProfile"),
    )


def _profile(given: Mapping[str, Any] | None, field: str) -> Profile | None:
    if not given:
        return None
    kind, name = str(given.get("type", "")), str(given.get("localhostProfile") or "")
    if kind not in (UNCONFINED, RUNTIME_DEFAULT, LOCALHOST):
        raise InvalidError(
            f"{field}.type {kind!r} must be RuntimeDefault, Localhost or Unconfined", field=f"{field}.type"
        )
    if kind == LOCALHOST:
        if not name:
            raise InvalidError(f"{field}.localhostProfile must be set where type is Localhost", field=field)
        check_relative(name)
    return Profile(kind, name if kind == LOCALHOST else "")
