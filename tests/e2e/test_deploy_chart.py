"""What the chart makes of its values, by the real helm; no cluster is asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.cli.main import make_parser
from dray.errors import InvalidError
from dray.testing.kubernetes.tools import Tools
from tests.e2e.deploy_cluster import install_helm
from tests.e2e.deploy_manifests import EVERYTHING, PARTS, render_values

Json = dict[str, Any]
Render = Callable[..., list[Json]]


@pytest.fixture(scope="module")
def render(tools: Tools) -> Render:
    helm = install_helm(tools)

    def rendered(*words: str) -> list[Json]:
        chosen = ("--set", "guard.apiServerCIDRs=none", *words)
        return [one for one in yaml.safe_load_all(render_values(helm, *chosen)) if one]

    return rendered


def named(documents: list[Json], kind: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in documents if one["kind"] == kind}


def agent(documents: list[Json]) -> tuple[Json, Json]:
    """Its DaemonSet's spec, and the container in it."""
    spec: Json = named(documents, "DaemonSet")["dray-agent"]["spec"]
    return spec, spec["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("kinds", "added"),
    [
        ("pci,mdev", ["SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"]),
        ("usb", ["CHOWN", "FOWNER", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"]),
        ("socket,pci", ["CHOWN", "FOWNER", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE"]),
    ],
)
def test_each_kind_adds_the_capabilities_it_needs(render: Render, kinds: str, added: list[str]) -> None:
    spec, container = agent(render("--set", f"agent.hostChanges={{{kinds}}}"))
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": added}
    assert "privileged" not in container["securityContext"]
    assert spec["template"]["spec"]["hostPID"] is True
    assert "--host-root=/proc/1/root" in container["args"]


@pytest.mark.parametrize("kind", ["iommufd", "nvidia"])
def test_only_kinds_that_open_nodes_are_privileged(render: Render, kind: str) -> None:
    _, container = agent(render("--set", f"agent.hostChanges={{{kind}}}"))
    assert container["securityContext"]["privileged"] is True
    assert "capabilities" not in container["securityContext"]


def test_a_device_plugin_has_one_owner(render: Render) -> None:
    spec, container = agent(render("--set", "agent.doors={plugin}"))
    assert spec["updateStrategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": "10%"}
    mounts = {one["name"] for one in container["volumeMounts"]}
    assert {"device-plugins", "pods"} <= mounts and not {"plugins", "registry"} & mounts


def test_without_dra_there_are_no_rights_for_it(render: Render) -> None:
    found = render("--set", "agent.doors={plugin}")
    groups = {
        group for rule in named(found, "ClusterRole")["dray-agent"]["rules"] for group in rule["apiGroups"]
    }
    assert groups == {""} and named(found, "ValidatingAdmissionPolicy") == {}


def test_a_kubevirt_object_is_read_where_it_is(render: Render) -> None:
    found = render(
        "--set", "agent.kubevirt.enabled=true,agent.kubevirt.namespace=virt,agent.kubevirt.name=kv"
    )
    _, container = agent(found)
    assert {"--config=kubevirt:virt/kv", "--additions=configmap:dray-system/dray-agent"} <= set(
        container["args"]
    )
    rights = [one for one in found if one["kind"] == "Role" and one["metadata"]["namespace"] == "virt"]
    assert [rule["resourceNames"] for one in rights for rule in one["rules"]] == [["kv"]]


def test_names_of_drivers_follow_the_domain(render: Render) -> None:
    found = render("--set", "domain=example.com,kinds={sim,nvidia}")
    assert {"sim.example.com", "gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"} == named(
        found, "DeviceClass"
    ).keys()
    rules = named(found, "ClusterRole")["dray-agent"]["rules"]
    assert [rule["resourceNames"] for rule in rules if "resourceNames" in rule] == [
        ["sim.example.com", "gpu.nvidia.com"]
    ]


def test_everything_at_once(render: Render) -> None:
    found = render(*EVERYTHING)
    workloads = [*named(found, "Deployment").values(), *named(found, "DaemonSet").values()]
    for one in workloads:
        words = one["spec"]["template"]["spec"]["containers"][0]["args"]
        make_parser(words).parse_args(words)
    assert named(found, "PodDisruptionBudget").keys() == {"dray-controllers", "dray-guard", "dray-scheduler"}
    assert named(found, "NetworkPolicy").keys() == {f"dray-{part}" for part in PARTS}
    json.loads(named(found, "ConfigMap")["dray-grafana"]["data"]["dray.json"])
    labels = {one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"] for one in workloads}
    for name, service in named(found, "Service").items():
        if name == "dray-guard-webhook":  # the guard that leads makes its EndpointSlice
            assert "selector" not in service["spec"]
            continue
        chosen = service["spec"]["selector"].items()
        assert [one for one, has in labels.items() if chosen <= has.items()] == [
            name.removesuffix("-metrics")
        ]


def test_who_may_connect_can_be_named(render: Render, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    chosen = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    file.write_text(json.dumps({"networkPolicy": {"enabled": True, "metricsFrom": chosen}}))
    policies = named(render("-f", str(file)), "NetworkPolicy")
    assert policies["dray-scheduler"]["spec"]["ingress"] == [
        {"ports": [{"port": 9618, "protocol": "TCP"}], "from": chosen}
    ]


@pytest.mark.parametrize(
    "bad",
    [
        "agent.hostchanges={pci}",
        "agent.hostChanges={gpu}",
        "guard.replicas=0",
        "guard.apiServerCIDRs={everywhere}",
        "guard.clientCASecret=ca",
        "guard.clientCASecret=ca,guard.clientNames={}",
        "agent.ownClaimsPolicy=maybe",
        "metrics.token=short",
        "dashboard.token=short",
        "kinds={}",
    ],
)
def test_bad_values_are_refused(render: Render, bad: str) -> None:
    with pytest.raises(InvalidError, match="schema"):
        render("--set", bad)


def test_who_may_ask_the_guard_must_be_said(tools: Tools, render: Render) -> None:
    with pytest.raises(
        InvalidError, match=r"guard\.apiServerCIDRs: say from which addresses API servers reach"
    ):
        render_values(install_helm(tools))
    assert "guard" not in render_values(install_helm(tools), "--set", "guard.enabled=false")
    assert named(render(), "NetworkPolicy") == {}
    policies = named(render("--set", "guard.apiServerCIDRs={10.0.0.0/24,fd00::/64}"), "NetworkPolicy")
    assert policies["dray-guard"]["spec"]["ingress"][1] == {
        "ports": [{"port": 9617, "protocol": "TCP"}],
        "from": [{"ipBlock": {"cidr": one}} for one in ("10.0.0.0/24", "fd00::/64")],
    }


@pytest.mark.parametrize(
    ("version", "chosen", "there"),
    [
        ("v1.34.9", "", True),
        ("v1.36.0", "", True),
        ("v1.34.9", "auto", True),
        ("v1.35.2-eks-1", "auto", True),
        ("v1.36.0", "auto", False),
        ("v1.36.0", "on", True),
        ("v1.35.0", "off", False),
    ],
)
def test_a_policy_checks_what_older_servers_do_not_unless_it_is_turned_off(
    render: Render, version: str, chosen: str, there: bool
) -> None:
    choice = ("--set", f"agent.ownClaimsPolicy={chosen}") if chosen else ()
    found = render("--kube-version", version, *choice)
    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert ("dray-agent-own-claims" in named(found, kind)) is there


def test_metrics_need_a_token_unless_somebody_opens_them(render: Render) -> None:
    for open_, needed in (("false", True), ("true", False)):
        found = render("--set", f"metrics.open={open_},serviceMonitor.enabled=true,controllers.enabled=true")
        workloads = [*named(found, "Deployment").values(), *named(found, "DaemonSet").values()]
        words = {
            one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["args"]
            for one in workloads
        }
        flags = {name: any("--metrics-token-file" in word for word in said) for name, said in words.items()}
        assert {name for name, has in flags.items() if has} == (
            words.keys() - {"dray-dashboard"} if needed else set()
        )
        (endpoint,) = named(found, "ServiceMonitor")["dray"]["spec"]["endpoints"]
        assert ("authorization" in endpoint) is needed
