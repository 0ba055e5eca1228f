"""The manifests as text: what every pod may do, that the flags exist, and that versions and names agree with the code."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import load_documents, to_raw
from dray.cli.main import make_parser
from dray.dra.classes import kind_class, nvidia_classes
from dray.testing.image import REPOSITORY, USER, runtime_lock
from tests.deploy.pod_security import not_restricted

Json = dict[str, Any]
MANIFESTS = Path("deploy/manifests")
CHART = Path("deploy/helm/dray")
PARTS = ("agent", "controllers", "dashboard", "guard", "scheduler")
VERSION = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]


def documents(part: str) -> list[Json]:
    text = (MANIFESTS / f"{part}.yaml").read_text()
    return [dict(one.raw) for one in load_documents(text, f"{part}.yaml")]


def of_kind(part: str, *kinds: str) -> list[Json]:
    return [one for one in documents(part) if one["kind"] in kinds]


def pod_spec(part: str) -> Json:
    (workload,) = of_kind(part, "DaemonSet", "Deployment")
    spec: Json = workload["spec"]["template"]["spec"]
    return spec


def test_every_part_has_its_file() -> None:
    assert {path.stem for path in MANIFESTS.iterdir()} == {"namespace", *PARTS}


@pytest.mark.parametrize("part", [one for one in PARTS if one != "agent"])
def test_pods_keep_to_the_restricted_standard(part: str) -> None:
    assert not_restricted(pod_spec(part)) == []


def test_what_the_agent_does_beyond_the_restricted_standard() -> None:
    assert not_restricted(pod_spec("agent")) == [
        "container agent: does not say runAsNonRoot",
        "runs as user 0",
        *(
            f"volume {name}: hostPath"
            for name in ("cdi", "dev", "plugins", "pod-resources", "registry", "state", "sys")
        ),
    ]


def test_the_agent_mounts_these_directories_and_no_more() -> None:
    spec = pod_spec("agent")
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    assert paths == {
        "plugins": "/var/lib/kubelet/plugins",
        "registry": "/var/lib/kubelet/plugins_registry",
        "pod-resources": "/var/lib/kubelet/pod-resources",
        "cdi": "/var/run/cdi",
        "state": "/var/lib/dray",
        "sys": "/sys",
        "dev": "/dev",
    }
    mounts = {one["name"]: one for one in spec["containers"][0]["volumeMounts"]}
    assert {name for name in paths if mounts[name]["mountPath"] != paths[name]} == set()
    assert {name for name in paths if mounts[name].get("readOnly")} == {"dev", "pod-resources", "sys"}


@pytest.mark.parametrize("part", PARTS)
def test_every_root_is_read_only(part: str) -> None:
    assert [one["securityContext"]["readOnlyRootFilesystem"] for one in pod_spec(part)["containers"]] == [
        True
    ]


@pytest.mark.parametrize("part", PARTS)
def test_flags_are_those_of_the_program(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by our own parser, which knows flags and their values."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    (container,) = pod_spec(part)["containers"]
    words = container["args"]
    assert make_parser(words).parse_args(words).command == ("controllers" if part == "guard" else part)


@pytest.mark.parametrize("part", PARTS)
def test_probes_ask_ports_that_are_served(part: str) -> None:
    (container,) = pod_spec(part)["containers"]
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    asked = [container[name] for name in container if name.endswith("Probe")]
    assert {(one.get("httpGet") or one["tcpSocket"])["port"] for one in asked} <= ports.keys()
    served = {int(found) for word in container["args"] for found in re.findall(r"=0\.0\.0\.0:(\d+)$", word)}
    assert set(ports.values()) == served


@pytest.mark.parametrize("part", PARTS)
def test_images_and_versions_are_ours(part: str) -> None:
    assert [one["image"] for one in pod_spec(part)["containers"]] == [f"{REPOSITORY}:{VERSION}"]
    labels = [one["metadata"]["labels"] for one in documents(part)]
    assert {one["app.kubernetes.io/version"] for one in labels} == {VERSION}


def test_the_chart_and_the_containerfile_have_our_version() -> None:
    chart = dict(next(iter(load_documents((CHART / "Chart.yaml").read_text(), "Chart.yaml"))).raw)
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    text = Path("Containerfile").read_text()
    assert f"ARG VERSION={VERSION}\n" in text and f"{REPOSITORY}:{VERSION}" in text
    assert f"USER {USER}:{USER}\n" in text


def test_the_lock_of_the_image_is_part_of_ours() -> None:
    """Written by `python -m dray.testing.image --lock deploy/requirements.lock`."""
    lock = Path("deploy/requirements.lock").read_text()
    assert lock == runtime_lock(Path("requirements.lock").read_text())
    assert "--hash=sha256:" in lock and "pytest" not in lock


def rules(part: str) -> Iterator[Json]:
    for role in of_kind(part, "ClusterRole", "Role"):
        yield from role["rules"]


@pytest.mark.parametrize("part", PARTS)
def test_no_right_is_a_wildcard_or_reaches_secrets(part: str) -> None:
    given = [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in rules(part)]
    assert given
    words = {word for groups, resources, verbs in given for word in (*groups, *resources, *verbs)}
    assert words.isdisjoint(
        {"*", "secrets", "escalate", "bind", "impersonate", "pods/exec", "serviceaccounts/token"}
    )


def test_the_rights_of_the_agent_are_those_of_its_page() -> None:
    page = Path("docs/reference/agent.md").read_text()
    (shown,) = re.findall(
        r"^kind: ClusterRole\nmetadata: \{name: dray-agent\}\n(rules:\n.*?)^---",
        page,
        re.MULTILINE | re.DOTALL,
    )
    (role,) = of_kind("agent", "ClusterRole")
    written = next(iter(load_documents(f"apiVersion: v1\nkind: Rules\n{shown}", "agent.md"))).raw["rules"]
    assert sorted(map(_flat, role["rules"])) == sorted(map(_flat, written))


def test_the_policy_on_the_page_of_the_agent_is_the_one_of_the_manifests() -> None:
    page = Path("docs/reference/agent.md").read_text()
    shown = re.findall(r"^```yaml\n(apiVersion: admission.*?)^```", page, re.MULTILINE | re.DOTALL)
    found = [dict(one.raw) for text in shown for one in load_documents(text, "agent.md")]
    (written,) = [one for one in found if one["kind"] == "ValidatingAdmissionPolicy"]
    (served,) = [
        one
        for one in of_kind("agent", "ValidatingAdmissionPolicy")
        if one["metadata"]["name"] == written["metadata"]["name"]
    ]
    assert written["spec"] == served["spec"]


def _flat(rule: Json) -> str:
    return json.dumps({name: sorted(words) for name, words in rule.items()}, sort_keys=True)


def test_device_classes_are_those_the_agent_would_make() -> None:
    found = {one["metadata"]["name"]: one["spec"] for one in of_kind("agent", "DeviceClass")}
    kinds = ("generic", "iommufd", "mdev", "pci", "sim", "socket", "usb")
    wanted = [*(kind_class(f"{kind}.dray.internal") for kind in kinds), *nvidia_classes()]
    assert found == {one.metadata.name: to_raw(one)["spec"] for one in wanted}
    (config,) = of_kind("agent", "ConfigMap")
    assert "createClasses: false" in config["data"]["agent.yaml"]


def test_the_webhook_goes_with_the_guard() -> None:
    """A webhook without a guard refuses every allocation: it must be deleted with the rest. The guard fills it in."""
    (hook,) = of_kind("guard", "ValidatingWebhookConfiguration")
    assert hook["metadata"]["name"] == "dray-guard" and "webhooks" not in hook
