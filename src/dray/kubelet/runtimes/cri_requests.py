"""Pods and containers as CRI asks for them, with the labels by which the next kubelet finds its own. Pure.

The runtime keeps all state there is. What it does not tell of a sandbox later, and containers need, is in annotations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import (
    LOCALHOST,
    ContainerConfig,
    PodIdentity,
    Profile,
    SandboxConfig,
    Security,
)
from dray.kubelet.runtimes.hidden import MASKED, READ_ONLY
from dray.kubelet.runtimes.seccomp import PROFILES
from dray.wire.gen import cri_v1_pb2 as pb

OWNER = "dray.internal/kubelet"
"""Whose it is: several kubelets may share a runtime."""
POD_NAME, POD_NAMESPACE, POD_UID = (f"io.kubernetes.pod.{part}" for part in ("name", "namespace", "uid"))
CONTAINER_NAME = "io.kubernetes.container.name"
RESTARTS = "io.kubernetes.container.restartCount"
_HOSTNAME, _LOGS, _CGROUP = (f"dray.internal/{part}" for part in ("hostname", "log-directory", "cgroup"))
_CPU_PERIOD = 100_000


def pod_labels(pod: PodIdentity, owner: str) -> dict[str, str]:
    """What other programs on the node go by too, crictl for one."""
    return {POD_NAME: pod.name, POD_NAMESPACE: pod.namespace, POD_UID: pod.uid, OWNER: owner}


def cgroup_parent(owner: str, driver: int) -> str:
    """Where all pods of this kubelet are: a path, or a slice where systemd keeps cgroups."""
    name = f"dray-{owner}"
    return f"{name}.slice" if driver == pb.SYSTEMD else f"/{name}"


def sandbox_config(config: SandboxConfig, owner: str, cgroup: str) -> pb.PodSandboxConfig:
    """A new sandbox. With the host's network goes the host's name."""
    hostname = "" if config.host_network else config.hostname
    own = {_HOSTNAME: hostname, _LOGS: str(config.log_directory), _CGROUP: cgroup}
    namespaces = pb.NamespaceOption(
        network=pb.NODE if config.host_network else pb.POD,
        pid=pb.NODE if config.host_pid else pb.CONTAINER,
        ipc=pb.POD,
    )
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(
            name=config.pod.name,
            uid=config.pod.uid,
            namespace=config.pod.namespace,
            attempt=config.attempt,
        ),
        hostname=hostname,
        log_directory=str(config.log_directory),
        labels={**dict(config.labels), **pod_labels(config.pod, owner)},
        annotations={**dict(config.annotations), **own},
        linux=_sandbox_linux(cgroup, namespaces, privileged=config.privileged),
    )


def sandbox_config_again(status: pb.PodSandboxStatus, *, privileged: bool) -> pb.PodSandboxConfig:
    """As it was given when the sandbox was made; each new container needs it once more."""
    kept = status.annotations
    return pb.PodSandboxConfig(
        metadata=status.metadata,
        hostname=kept.get(_HOSTNAME, ""),
        log_directory=kept.get(_LOGS, ""),
        labels=status.labels,
        annotations=kept,
        linux=_sandbox_linux(kept.get(_CGROUP, ""), status.linux.namespaces.options, privileged=privileged),
    )


def _sandbox_linux(
    cgroup: str, namespaces: pb.NamespaceOption, *, privileged: bool
) -> pb.LinuxPodSandboxConfig:
    # The process that holds the sandbox needs no more than the default, whatever its containers may do.
    profile = pb.SecurityProfile(profile_type=pb.SecurityProfile.RuntimeDefault)
    security = pb.LinuxSandboxSecurityContext(
        namespace_options=namespaces, privileged=privileged, seccomp=profile
    )
    return pb.LinuxPodSandboxConfig(cgroup_parent=cgroup, security_context=security)


def container_request(
    sandbox: pb.PodSandboxStatus,
    config: ContainerConfig,
    owner: str,
    *,
    image: str,
    masked: Sequence[str] = MASKED,
    seccomp: Path = PROFILES,
) -> pb.CreateContainerRequest:
    """A new container in an existing sandbox, from the image with the ID `image`. `seccomp`: where the node's profiles are."""
    again = sandbox_config_again(sandbox, privileged=config.security.privileged)
    own = {RESTARTS: str(config.attempt)}
    made = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=pb.ImageSpec(image=image, user_specified_image=config.image),
        command=config.command,
        args=config.args,
        working_dir=config.working_dir,
        envs=[pb.KeyValue(key=key, value=os.fsencode(value)) for key, value in config.env],
        mounts=[
            pb.Mount(container_path=one.container_path, host_path=one.host_path, readonly=one.read_only)
            for one in config.mounts
        ],
        devices=[
            pb.Device(container_path=one.container_path, host_path=one.host_path, permissions=one.permissions)
            for one in config.device_nodes
        ],
        CDI_devices=[pb.CDIDevice(name=name) for name in config.cdi_devices],
        labels={**pod_labels(config.pod, owner), CONTAINER_NAME: config.name},
        # A device plugin's own annotations may name CDI devices as well; the kubelet's win.
        annotations={**dict(config.annotations), **own},
        log_path=_log_path(config.log_path, Path(again.log_directory)),
        linux=pb.LinuxContainerConfig(
            resources=_resources(config),
            security_context=_security(config.security, sandbox.linux.namespaces.options, masked, seccomp),
        ),
    )
    return pb.CreateContainerRequest(pod_sandbox_id=sandbox.id, config=made, sandbox_config=again)


def _log_path(path: Path, directory: Path) -> str:
    if not path.is_relative_to(directory):
        raise InvalidError(f"the log {str(path)!r} must be below the pod's log directory {str(directory)!r}")
    return str(path.relative_to(directory))


def _resources(config: ContainerConfig) -> pb.LinuxContainerResources:
    return pb.LinuxContainerResources(
        cpu_shares=config.cpu_shares,
        cpu_quota=config.cpu_quota,
        cpu_period=_CPU_PERIOD if config.cpu_quota else 0,
        memory_limit_in_bytes=config.memory_limit,
    )


def _security(
    wanted: Security, namespaces: pb.NamespaceOption, masked: Sequence[str], profiles: Path
) -> pb.LinuxContainerSecurityContext:
    found = pb.LinuxContainerSecurityContext(
        privileged=wanted.privileged,
        namespace_options=namespaces,
        readonly_rootfs=wanted.read_only_root,
        supplemental_groups=wanted.supplemental_groups,
        no_new_privs=wanted.no_new_privileges,
        capabilities=pb.Capability(
            add_capabilities=[_short(name) for name in wanted.add_capabilities],
            drop_capabilities=[_short(name) for name in wanted.drop_capabilities],
        ),
        masked_paths=() if wanted.privileged else masked,
        readonly_paths=() if wanted.privileged else READ_ONLY,
        supplemental_groups_policy=pb.Strict if wanted.strict_groups else pb.Merge,
        seccomp=_profile(wanted.seccomp, profiles),
    )
    if wanted.apparmor is not None:
        found.apparmor.CopyFrom(_profile(wanted.apparmor))
    if wanted.user is not None:
        found.run_as_user.value = wanted.user
    if wanted.group is not None:
        found.run_as_group.value = wanted.group
    return found


def _profile(wanted: Profile, directory: Path | None = None) -> pb.SecurityProfile:
    name = str(directory / wanted.name) if directory and wanted.type == LOCALHOST else wanted.name
    return pb.SecurityProfile(profile_type=wanted.type, localhost_ref=name)


def _short(capability: str) -> str:
    return capability.upper().removeprefix("CAP_")


def selector(owner: str, **more: str) -> Mapping[str, str]:
    """Labels to list by: all of this kubelet's, or those of one pod or container."""
    keys = {"pod_uid": POD_UID, "container": CONTAINER_NAME}
    return {OWNER: owner, **{keys[name]: value for name, value in more.items()}}
