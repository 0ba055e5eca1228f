"""The real API server by itself: identities, gates, restarts and forgotten history."""

from __future__ import annotations

import json
import urllib.error
from pathlib import Path

import pytest

from dray.errors import UnavailableError
from dray.testing.kubernetes.certificates import Authority
from dray.testing.kubernetes.control_plane import ControlPlane

TAINT_RULE = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "maintenance"},
    "spec": {
        "deviceSelector": {"driver": "a.example"},
        "taint": {"key": "a.example/broken", "effect": "NoExecute"},
    },
}


def who(plane: ControlPlane, kubeconfig: Path) -> dict[str, object]:
    answer = plane.kubectl("auth", "whoami", "-o", "json", f"--kubeconfig={kubeconfig}")
    user: dict[str, object] = json.loads(answer)["status"]["userInfo"]
    return user


def test_device_taint_rules_are_served_as_v1beta2(killable: ControlPlane) -> None:
    killable.kubectl("apply", "-f", "-", input=json.dumps(TAINT_RULE))
    path = "/apis/resource.k8s.io/v1beta2/devicetaintrules/maintenance"
    assert killable.request("GET", path)["spec"]["taint"]["effect"] == "NoExecute"
    killable.kubectl("delete", "devicetaintrule", "maintenance")


def test_identities_by_token_and_by_certificate(killable: ControlPlane) -> None:
    assert "system:masters" in str(who(killable, killable.kubeconfig)["groups"])
    assert "system:masters" in str(who(killable, killable.certificate_kubeconfig)["groups"])
    node = who(killable, killable.kubeconfig_for("system:node:a", "system:nodes"))
    assert node["username"] == "system:node:a"
    assert "system:nodes" in str(node["groups"])
    assert who(killable, killable.driver_kubeconfig)["username"] == "dray-driver"


def test_driver_identity_has_no_rights(killable: ControlPlane) -> None:
    with pytest.raises(UnavailableError, match="Forbidden"):
        killable.kubectl("get", "pods", f"--kubeconfig={killable.driver_kubeconfig}")


def test_the_certificate_is_really_verified(killable: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="certificate"):
        killable.kubectl("get", "pods", f"--certificate-authority={Authority(tmp_path).certificate}")


@pytest.mark.parametrize("end", ["stop_apiserver", "kill_apiserver"])
def test_restarted_apiserver_keeps_its_address_and_data(killable: ControlPlane, end: str) -> None:
    killable.kubectl("create", "namespace", end.replace("_", "-"))
    getattr(killable, end)()
    assert not killable.apiserver.is_running
    with pytest.raises(urllib.error.URLError):
        killable.request("GET", "/version")
    killable.start_apiserver()
    assert (
        killable.request("GET", f"/api/v1/namespaces/{end.replace('_', '-')}")["status"]["phase"] == "Active"
    )


def test_old_versions_are_gone_after_compaction(killable: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    old = killable.request("GET", path)["metadata"]["resourceVersion"]
    killable.kubectl("create", "configmap", "later")
    assert killable.compact_etcd() > int(old)
    killable.kill_apiserver()
    killable.start_apiserver()
    with pytest.raises(urllib.error.HTTPError) as gone:
        killable.request("GET", f"{path}?resourceVersion={old}&resourceVersionMatch=Exact&limit=1")
    assert gone.value.code == 410
    gone.value.close()
    event = killable.request("GET", f"{path}?watch=1&resourceVersion={old}")
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410


def test_gates_can_be_chosen(gated: ControlPlane) -> None:
    metrics = gated.kubectl("get", "--raw", "/metrics")
    assert 'kubernetes_feature_enabled{name="DRAListTypeAttributes",stage="ALPHA"} 1' in metrics
