from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.errors import InvalidError
from dray.kubelet.pods.contract import RunOptions
from dray.kubelet.pods.start import container_config, sandbox_config
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, Profile, Security
from tests.kubelet.pods.test_environment import Objects

OPTIONS = RunOptions(
    ContainerEdits(
        env=(("GPU", "0"), ("X", "device")),
        device_nodes=(DeviceNode("/dev/g0", "/dev/g0"),),
        mounts=(Mount("/host/lib", "/lib/g"), Mount("/host/x", "/x")),
        annotations=(("a", "b"),),
    ),
    ("v/c=plugin", "v/c=both"),
)


def config(
    security: dict[str, Any] | None = None, pod_security: dict[str, Any] | None = None, **more: Any
) -> ContainerConfig:
    container = {
        "name": "c",
        "image": "i",
        "command": ["run", "$(GPU)$(X)"],
        "env": [{"name": "X", "value": "pod"}],
        "volumeMounts": [{"name": "v", "mountPath": "/x"}],
        "securityContext": security or {},
        **more,
    }
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [container], "securityContext": pod_security or {}},
    }
    pod = view(document, Pod)
    return container_config(
        pod,
        pod.spec.containers[0],
        2,
        OPTIONS,
        claims_cdi=("v/c=claim", "v/c=both"),
        mounts=lambda _: (Mount("/volume", "/x"),),
        sources=Objects(),
        logs=Path("/logs"),
    )


def test_devices_and_the_pods_own_are_put_together() -> None:
    found = config()
    assert found.pod == PodIdentity("u", "ns", "p")
    assert found.env == (("GPU", "0"), ("X", "pod"))
    assert found.command == ("run", "0pod")
    assert found.mounts == (Mount("/host/lib", "/lib/g"), Mount("/volume", "/x"))
    assert found.cdi_devices == ("v/c=claim", "v/c=both", "v/c=plugin")
    assert (found.device_nodes, found.annotations) == (OPTIONS.edits.device_nodes, (("a", "b"),))
    assert (found.attempt, found.log_path) == (2, Path("/logs/ns_p_u/c/2.log"))


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, (0, 0, 0)),
        ({"limits": {"cpu": "500m", "memory": "1Gi"}}, (512, 50_000, 1 << 30)),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, (2048, 400_000, 0)),
        ({"requests": {"cpu": "1m"}}, (2, 0, 0)),
        ({"limits": {"cpu": "1m"}}, (2, 1000, 0)),
    ],
)
def test_limits(resources: dict[str, Any], expected: tuple[int, int, int]) -> None:
    found = config(resources=resources)
    assert (found.cpu_shares, found.cpu_quota, found.memory_limit) == expected


def test_the_containers_security_goes_before_the_pods() -> None:
    found = config(
        {
            "runAsUser": 7,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
            "allowPrivilegeEscalation": False,
        },
        {"runAsUser": 8, "runAsGroup": 9, "supplementalGroups": [10]},
    )
    assert found.security == Security(
        user=7,
        group=9,
        supplemental_groups=(10,),
        add_capabilities=("NET_ADMIN",),
        drop_capabilities=("ALL",),
        no_new_privileges=True,
    )


def test_what_the_runtime_has_to_look_at_comes_along() -> None:
    whole = {
        "runAsNonRoot": True,
        "supplementalGroupsPolicy": "Strict",
        "seccompProfile": {"type": "RuntimeDefault"},
        "appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"},
    }
    found = config({"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}}, whole).security
    assert (found.non_root, found.strict_groups) == (True, True)
    assert (found.seccomp, found.apparmor) == (Profile("Localhost", "a/b.json"), Profile("Localhost", "mine"))
    assert config(pod_security=whole).security.seccomp == Profile("RuntimeDefault")
    assert config({"runAsNonRoot": False}, whole).security.non_root is False
    assert (config().security.seccomp, config().security.apparmor) == (Profile("Unconfined"), None)


def test_null_takes_nothing_back_that_the_pod_says() -> None:
    """A container with `runAsNonRoot: null` says nothing of it, as for every kubelet."""
    whole = {"runAsNonRoot": True, "runAsUser": 7, "seccompProfile": {"type": "RuntimeDefault"}}
    found = config({**dict.fromkeys(whole), "capabilities": {"add": None, "drop": None}}, whole).security
    assert found == Security(non_root=True, user=7, seccomp=Profile("RuntimeDefault"))


@pytest.mark.parametrize(
    ("profile", "text"),
    [
        ({"type": "Localhost"}, "localhostProfile must be set"),
        ({"type": "Localhost", "localhostProfile": "../x"}, "without empty parts"),
        ({"type": "Localhost", "localhostProfile": "/etc/x"}, "without empty parts"),
        ({"type": "None"}, "must be RuntimeDefault, Localhost or Unconfined"),
    ],
)
def test_profiles_that_cannot_be(profile: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidError, match=text):
        config({"seccompProfile": profile})


@pytest.mark.parametrize(
    ("own", "pods", "field"),
    [
        ({"capabilities": [1]}, {}, r"spec\.containers\[c\]\.securityContext: .*capabilities"),
        ({"capabilities": {"add": "ALL"}}, {}, r"securityContext: .*capabilities\.add"),
        ({"capabilities": {"add": [7]}}, {}, r"capabilities\.add\[0\]"),
        ({"seccompProfile": "RuntimeDefault"}, {}, "seccompProfile"),
        ({"appArmorProfile": []}, {}, "appArmorProfile"),
        ({"runAsUser": "0"}, {}, "runAsUser"),
        ({"runAsNonRoot": "false"}, {}, "runAsNonRoot"),
        ({"privileged": "false"}, {}, "privileged"),
        ({"allowPrivilegeEscalation": 0}, {}, "allowPrivilegeEscalation"),
        ({}, {"supplementalGroups": 5}, r"spec\.securityContext: .*supplementalGroups"),
        ({}, {"supplementalGroups": ["5"]}, r"supplementalGroups\[0\]"),
        ({}, {"runAsGroup": True}, "runAsGroup"),
    ],
)
def test_a_security_context_of_another_form_is_refused_with_its_field(
    own: dict[str, Any], pods: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidError, match=field):
        config(own, pods)


def test_a_pod_that_needs_a_user_namespace_is_refused() -> None:
    """Its root would be the node's."""
    for given, is_refused in ((False, True), (True, False), (None, False)):
        document = {"metadata": {"name": "p"}, "spec": {"hostUsers": given, "containers": [{"name": "c"}]}}
        if is_refused:
            with pytest.raises(InvalidError, match=r"spec\.hostUsers: false is not supported by this node"):
                sandbox_config(view(document, Pod), 0, Path("/logs"))
        else:
            assert sandbox_config(view(document, Pod), 0, Path("/logs")).hostname == "p"


def test_a_sandbox_is_privileged_where_one_container_is() -> None:
    for given in (True, False, "true"):
        document = {"spec": {"initContainers": [{"name": "c", "securityContext": {"privileged": given}}]}}
        assert sandbox_config(view(document, Pod), 0, Path("/logs")).privileged is (given is True)
