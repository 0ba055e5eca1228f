from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import stat
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dray.api.kinds import EVENTS, RESOURCE_CLAIMS
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.doctor.examine import examine
from dray.doctor.places import Places
from dray.doctor.support.bundle import MANIFEST, TOP, pack, write
from dray.doctor.support.collect import Item, collect
from dray.errors import Error, NotFoundError
from dray.inventory.holds_file import Content
from dray.inventory.ledger import Door, Hold
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.files.checkpoint_format import Format
from dray.up.place import UpPlace

NOW = datetime(2030, 1, 1, tzinfo=UTC)
WORD = "Zecret0815"
KEY = f"-----BEGIN PRIVATE KEY-----\n{WORD}\n-----END PRIVATE KEY-----"
CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "one", "namespace": "default", "annotations": {"a": f"token: {WORD}"}},
    "spec": {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}],
            "config": [
                {
                    "opaque": {
                        "driver": "sim.dray.internal",
                        "parameters": {"password": WORD, "env": {"A": WORD}},
                    }
                }
            ],
        }
    },
}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s", "namespace": "default"},
    "stringData": {"x": WORD},
}
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "default"},
    "involvedObject": {"kind": "ResourceClaim", "name": "one", "namespace": "default"},
    "reason": "DevicePrepareFailed",
    "message": f"could not log in with Authorization: Bearer {WORD}",
}


def _machine(path: Path) -> Places:
    """A node with a secret in every place that is read."""
    for name in ("kubelet/device-plugins", "kubelet/plugins/d", "state", "cdi", "data/agent"):
        (path / name).mkdir(parents=True)
    hold = Hold(Door.PLUGIN, "pci", "x", ("x",), owner=f"password={WORD}")
    (path / "state/holds").write_bytes(Format(Content).encode(Content((hold,))))
    (path / "state/good-config").write_bytes(Format(bytes).encode(json.dumps({"env": {"A": WORD}}).encode()))
    (path / "state/devices").write_text(f"damaged token={WORD}")
    (path / "kubelet/plugins/d/prepared-claims").write_bytes(
        Format(bytes, 2).encode(json.dumps({"edits": {"env": [["A", WORD]]}}).encode())
    )
    (path / "kubelet/device-plugins/kubelet_internal_checkpoint").write_text(json.dumps({"AllocResp": WORD}))
    (path / "kubelet/dra_manager_state").write_text(
        json.dumps({"Data": json.dumps({"token": WORD}), "Checksum": 1})
    )
    (path / "kubelet/config.yaml").write_text(
        f"apiVersion: v1\nkind: KubeletConfiguration\nstaticPodURLHeader: {{Authorization: [{WORD}]}}\n"
    )
    (path / "containerd.toml").write_text(
        f'[plugins."x".registry.auth]\npassword = "{WORD}"\nauth = "{WORD}"\n'
    )
    (path / "cdi/x.json").write_text(
        json.dumps({"cdiVersion": "0.6.0", "kind": "a.b/c", "containerEdits": {"env": [f"A={WORD}"]}})
    )
    (path / "data/agent/config.yaml").write_text(f"dray: {{note: '{KEY!r}'}}\n")
    (path / "data/dray.log").write_text(
        f"level=error msg=x token={WORD}\nlevel=error url=https://u:{WORD}@h/\n{KEY}\n"
    )
    (path / "data/dashboard.token").write_text("Tell-nobody-else\n")
    with (path / "data/dray.log").open("a") as log:
        log.write("opened /#Tell-nobody-else and From-the-environment\n")
    pod = path / "var/log/pods/dray-system_dray-agent-x_uid/agent"
    pod.mkdir(parents=True)
    (pod / "0.log").write_text("old life")
    (pod / "10.log").write_text(f"2030 stderr F level=error password={WORD} newest life\n")
    (path / "var/log/pods/default_web_uid/main").mkdir(parents=True)
    (path / "var/log/pods/default_web_uid/main/0.log").write_text("of others")
    return Places(
        host_root=str(path),
        kubelet_dir=path / "kubelet",
        device_plugin_dir=path / "kubelet/device-plugins",
        cdi_dir=path / "cdi",
        containerd_config=path / "containerd.toml",
        containerd_socket=path / "none.sock",
        state_dir=path / "state",
        data_dir=path / "data",
    )


def _unpacked(data: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        files = {one.name.removeprefix(f"{TOP}/"): tar.extractfile(one) for one in tar}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


async def test_secrets_in_every_place_are_in_no_file_of_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "From-the-environment")
    places = _machine(tmp_path)
    async with api_server(ApiServerOptions(tmp_path / "api", Address())) as server:
        access = find_access(server.kubeconfig)
        async with Client(access) as client:
            await client.create(RESOURCE_CLAIMS, CLAIM)
            await client.create(EVENTS, EVENT)
            with contextlib.suppress(NotFoundError):  # a server may keep no Secrets
                await client.raw(
                    Request("POST", "/api/v1/namespaces/default/secrets", body=json.dumps(SECRET).encode())
                )
        with (tmp_path / "data/dray.log").open("a") as log:
            log.write(f"sent {access.user.token}\n")
        places = replace(places, access=access)
        report = await examine(places)
        data = pack([item async for item in collect(places, report)], NOW)
    files = _unpacked(data)
    for secret in (WORD, "Tell-nobody-else", "From-the-environment", access.user.token):
        assert [name for name, text in files.items() if secret in text] == [], secret
    assert {
        "MANIFEST.json", "findings.json", "facts.json", "versions.json", "sockets.txt", "logs/dray.log",
        "config/containerd.toml", "config/kubelet.yaml", "config/agent.yaml",
        "cluster/claims.yaml", "cluster/events.yaml", "cluster/slices.yaml", "cluster/nodes.yaml",
    } <= files.keys()  # fmt: skip
    assert "deviceClassName: gpu" in files["cluster/claims.yaml"]
    assert "DevicePrepareFailed" in files["cluster/events.yaml"]
    assert sum(name.startswith("checkpoints/") for name in files) == 6
    assert "newest life" in files["logs/dray-system_dray-agent-x_uid_agent_10.log"]
    assert {name for name in files if name.startswith("logs/")} == {
        "logs/dray.log",
        "logs/dray-system_dray-agent-x_uid_agent_10.log",
    }
    assert sum(name.startswith("cdi/") for name in files) >= 1


def test_the_same_things_make_the_same_bytes_and_the_manifest_lists_them(tmp_path: Path) -> None:
    items = [Item("b.txt", "two\n", "there"), Item("a/x.txt", "öne\n", "here")]
    data = pack(items, NOW)
    assert data == pack(reversed(items), NOW)
    files = _unpacked(data)
    manifest = json.loads(files.pop(MANIFEST))
    assert [one["name"] for one in manifest["contents"]] == sorted(files)
    assert manifest["contents"][0]["bytes"] == len("öne\n".encode())
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(data))) as tar:
        assert {(one.mode, one.mtime, one.uid) for one in tar} == {(0o600, 0, 0)}


def test_it_is_for_its_owner_alone_and_a_missing_directory_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_text("old")
    path.chmod(0o644)
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(Error, match="no-such"):
        write(tmp_path / "no-such" / "x.tar.gz", b"")


def test_up_place_has_what_is_read_here(tmp_path: Path) -> None:
    place = UpPlace(tmp_path)
    assert {place.log.name, place.dashboard_token.name} == {"dray.log", "dashboard.token"}
    assert os.path.basename(place.agent_config) == "config.yaml"
