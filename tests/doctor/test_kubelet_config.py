from __future__ import annotations

from pathlib import Path

from dray.doctor.kubelet_config import check_kubelet_config, look_at_kubelet_config
from dray.doctor.places import Places
from tests.doctor.findings_text import text_of, told

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def test_gates_that_are_off(tmp_path: Path) -> None:
    gates = "featureGates: {DynamicResourceAllocation: false, ResourceHealthStatus: false, DevicePluginCDIDevices: true}"
    (tmp_path / "config.yaml").write_text(f"{HEAD}topologyManagerPolicy: restricted\n{gates}\n")
    facts = look_at_kubelet_config(Places(kubelet_dir=tmp_path))
    findings = list(check_kubelet_config(facts))
    assert told(findings) == {
        ("kubelet-config", "ok"),
        ("feature-gates", "ok"),
        ("feature-gates", "note"),
        ("feature-gates", "fault"),
    }
    assert "policy is restricted" in text_of(findings, "kubelet-config")


def test_no_file_a_broken_one_and_another_shape(tmp_path: Path) -> None:
    places = Places(kubelet_dir=tmp_path)
    assert told(check_kubelet_config(look_at_kubelet_config(places))) == set()
    (tmp_path / "config.yaml").write_text("a: [")
    assert told(check_kubelet_config(look_at_kubelet_config(places))) == {("kubelet-config", "warning")}
    (tmp_path / "config.yaml").write_text(f"{HEAD}featureGates: none\n")
    assert told(check_kubelet_config(look_at_kubelet_config(places))) == {("kubelet-config", "ok")}
