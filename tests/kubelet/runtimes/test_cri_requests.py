from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dray.cdi.edits import DeviceNode, Mount
from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, Profile, SandboxConfig, Security
from dray.kubelet.runtimes.cri_requests import (
    cgroup_parent,
    container_request,
    sandbox_config,
    sandbox_config_again,
    selector,
)
from dray.wire.gen import cri_v1_pb2 as pb

POD = PodIdentity("u1", "ns", "p")
SANDBOX = SandboxConfig(
    POD, "host", Path("/logs/p"), 2, labels=(("app", "x"),), annotations=(("note", "y"), ("a", "b"))
)
CONTAINER = ContainerConfig(POD, "c", "docker.io/local/x:1", Path("/logs/p/c/3.log"), 3)


def kept(made: pb.PodSandboxConfig) -> pb.PodSandboxStatus:
    """What a runtime tells of a sandbox later."""
    options = made.linux.security_context.namespace_options
    return pb.PodSandboxStatus(
        id="s",
        metadata=made.metadata,
        labels=made.labels,
        annotations=made.annotations,
        linux=pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options)),
    )


def test_a_sandbox() -> None:
    made = sandbox_config(SANDBOX, "me", "/dray-me")
    assert made.metadata == pb.PodSandboxMetadata(name="p", uid="u1", namespace="ns", attempt=2)
    assert (made.hostname, made.log_directory, made.linux.cgroup_parent) == ("host", "/logs/p", "/dray-me")
    labels = {"app": "x", "io.kubernetes.pod.uid": "u1", "dray.internal/kubelet": "me"}
    assert labels.items() <= dict(made.labels).items()
    assert made.annotations["note"] == "y"
    options = made.linux.security_context.namespace_options
    assert (options.network, options.pid, options.ipc) == (pb.POD, pb.CONTAINER, pb.POD)


def test_with_the_hosts_network_goes_its_name() -> None:
    made = sandbox_config(replace(SANDBOX, host_network=True, host_pid=True, privileged=True), "me", "")
    options = made.linux.security_context.namespace_options
    assert (made.hostname, options.network, options.pid) == ("", pb.NODE, pb.NODE)
    assert made.linux.security_context.privileged


def test_labels_of_a_pod_do_not_hide_whose_it_is() -> None:
    stranger = replace(SANDBOX, labels=(("dray.internal/kubelet", "other"), ("io.kubernetes.pod.uid", "u9")))
    made = sandbox_config(stranger, "me", "")
    assert selector("me", pod_uid="u1").items() <= dict(made.labels).items()


@pytest.mark.parametrize("host_network", [False, True])
def test_a_sandbox_is_told_again_from_what_the_runtime_kept(host_network: bool) -> None:
    made = sandbox_config(replace(SANDBOX, host_network=host_network), "me", "/dray-me")
    assert sandbox_config_again(kept(made), privileged=False) == made


def test_a_container() -> None:
    config = replace(
        CONTAINER,
        command=("sh",),
        args=("-c", "true"),
        working_dir="/w",
        env=(("A", "1"), ("B", "\udcff")),
        mounts=(Mount("/h", "/c", read_only=True),),
        device_nodes=(DeviceNode("/dev/a", "/dev/b", "r"),),
        cdi_devices=("v/c=d", "v/c=e"),
        annotations=(("cdi.k8s.io/x", "v/c=f"), ("io.kubernetes.container.restartCount", "99")),
        cpu_shares=512,
        cpu_quota=50_000,
        memory_limit=1 << 20,
    )
    request = container_request(kept(sandbox_config(SANDBOX, "me", "/g")), config, "me", image="sha256:1")
    made = request.config
    assert (request.pod_sandbox_id, request.sandbox_config.log_directory, made.log_path) == (
        "s",
        "/logs/p",
        "c/3.log",
    )
    assert made.metadata == pb.ContainerMetadata(name="c", attempt=3)
    assert (list(made.command), list(made.args), made.working_dir) == (["sh"], ["-c", "true"], "/w")
    assert [(one.key, one.value) for one in made.envs] == [("A", b"1"), ("B", b"\xff")]
    assert list(made.mounts) == [pb.Mount(container_path="/c", host_path="/h", readonly=True)]
    assert list(made.devices) == [pb.Device(container_path="/dev/b", host_path="/dev/a", permissions="r")]
    assert [one.name for one in made.CDI_devices] == ["v/c=d", "v/c=e"]
    assert dict(made.annotations) == {"cdi.k8s.io/x": "v/c=f", "io.kubernetes.container.restartCount": "3"}
    assert selector("me", pod_uid="u1", container="c").items() <= dict(made.labels).items()
    resources = made.linux.resources
    assert (resources.cpu_shares, resources.cpu_quota, resources.cpu_period) == (512, 50_000, 100_000)
    assert resources.memory_limit_in_bytes == 1 << 20


def test_what_a_container_may_do() -> None:
    status = kept(sandbox_config(SANDBOX, "me", ""))

    def made(security: Security) -> pb.CreateContainerRequest:
        return container_request(status, replace(CONTAINER, security=security), "me", image="sha256:1")

    plain = made(Security()).config.linux.security_context
    assert not plain.HasField("run_as_user")
    assert not plain.HasField("run_as_group")
    assert "/proc/kcore" in plain.masked_paths
    assert "/proc/sys" in plain.readonly_paths
    chosen = made(
        Security(user=0, group=5, add_capabilities=("CAP_NET_ADMIN", "sys_time"), no_new_privileges=True)
    ).config.linux.security_context
    assert (chosen.run_as_user.value, chosen.HasField("run_as_user"), chosen.run_as_group.value) == (
        0,
        True,
        5,
    )
    assert list(chosen.capabilities.add_capabilities) == ["NET_ADMIN", "SYS_TIME"]
    assert chosen.no_new_privs
    free = made(Security(privileged=True))
    assert free.sandbox_config.linux.security_context.privileged
    assert not free.config.linux.security_context.masked_paths


def test_a_log_elsewhere_is_refused() -> None:
    status = kept(sandbox_config(SANDBOX, "me", ""))
    with pytest.raises(InvalidError, match="below the pod's log directory"):
        container_request(
            status, replace(CONTAINER, log_path=Path("/elsewhere/0.log")), "me", image="sha256:1"
        )


def test_the_cgroup_is_named_as_the_runtime_needs_it() -> None:
    assert cgroup_parent("me", pb.CGROUPFS) == "/dray-me"
    assert cgroup_parent("me", pb.SYSTEMD) == "dray-me.slice"


def test_profiles_and_groups_are_told_as_a_kubelet_tells_them() -> None:
    sandbox = sandbox_config(SANDBOX, "me", "")
    assert sandbox.linux.security_context.seccomp.profile_type == pb.SecurityProfile.RuntimeDefault

    def told(security: Security) -> pb.LinuxContainerSecurityContext:
        config = replace(CONTAINER, security=security)
        made = container_request(
            kept(sandbox), config, "me", image="sha256:1", seccomp=Path("/k/seccomp"), masked=("/proc/x",)
        )
        return made.config.linux.security_context

    plain = told(Security())
    assert plain.seccomp.profile_type == pb.SecurityProfile.Unconfined
    assert (plain.HasField("apparmor"), plain.supplemental_groups_policy) == (False, pb.Merge)
    assert list(plain.masked_paths) == ["/proc/x"]
    own = told(
        Security(
            strict_groups=True,
            seccomp=Profile("Localhost", "a.json"),
            apparmor=Profile("Localhost", "mine"),
        )
    )
    assert (own.seccomp.localhost_ref, own.apparmor.localhost_ref) == ("/k/seccomp/a.json", "mine")
    assert own.supplemental_groups_policy == pb.Strict
    assert told(Security(seccomp=Profile("RuntimeDefault"))).seccomp.profile_type == 0
