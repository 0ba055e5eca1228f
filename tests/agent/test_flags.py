from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from dray.agent.flags import add_cluster, add_host, read_options
from dray.runtime.flags import METRICS_ADDRESS

TOLD = {"KUBELET_DIR": "/k", "DEVICE_PLUGIN_DIR": "/d", "CDI_DIR": "/c", "KUBECONFIG": "none"}


def parsed(*words: str, reads_environment: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_host(parser, metrics=METRICS_ADDRESS, reads_environment=reads_environment)
    add_cluster(parser.add_argument_group("cluster"), reads_environment=reads_environment)
    return parser.parse_args(words)


def test_only_who_says_so_reads_places_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**TOLD, "NODE_NAME": "node-1", "POD_UID": "uid"}.items():
        monkeypatch.setenv(name, value)
    told = parsed(reads_environment=True)
    assert (told.kubelet_dir, told.device_plugin_dir, told.cdi_dir) == (Path("/k"), Path("/d"), Path("/c"))
    assert told.kubeconfig == Path("none")
    fixed = parsed(reads_environment=False)
    assert fixed.kubelet_dir == Path("/var/lib/kubelet")
    assert fixed.device_plugin_dir == Path("/var/lib/kubelet/device-plugins")
    assert fixed.cdi_dir == Path("/var/run/cdi")
    assert fixed.kubeconfig is None
    for one in (told, fixed):
        assert (one.node_name, one.instance_id) == ("node-1", "uid")


def test_what_the_flags_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--kubelet-dir=k", "--device-plugin-dir=d", "--cdi-dir=c", "--host-root=/h", "--kubeconfig=none"]
    words += ["--node-name=n1", "--instance-id=i1", "--metrics-address=none"]
    options = read_options(parsed(*words, reads_environment=False))
    assert (options.kubelet_dir, options.device_plugin_dir) == (tmp_path / "k", tmp_path / "d")
    assert (options.cdi_dir, options.host_root) == (tmp_path / "c", "/h")
    assert (options.node_name, options.instance) == ("n1", "i1")
    assert (options.config, options.access, options.metrics) == (None, None, None)
