from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.cdi.edits import Mount
from dray.errors import Error
from dray.kubelet.pods.volumes import Volumes, decoded, mounts_of
from tests.kubelet.pods.test_environment import Objects


def pod(*volumes: dict[str, Any], mounts: list[dict[str, Any]] | None = None) -> Pod:
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "labels": {"a": "b"}},
        "spec": {"volumes": list(volumes), "containers": [{"name": "c", "volumeMounts": mounts or []}]},
    }
    return view(document, Pod)


def made(tmp_path: Path, volume: dict[str, Any]) -> Path:
    return Volumes(tmp_path / "pods", Objects()).make(pod({"name": "v"} | volume))["v"]


def test_an_empty_directory_keeps_its_content_until_the_pod_goes(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / "pods", Objects())
    path = volumes.make(pod({"name": "v", "emptyDir": {}}))["v"]
    (path / "file").write_text("x")
    assert volumes.make(pod({"name": "v", "emptyDir": {}}))["v"] == path
    assert (path / "file").read_text() == "x"
    assert path.stat().st_mode & 0o777 == 0o777
    volumes.remove("u1")
    volumes.remove("u1")
    assert not path.exists()


def test_objects_become_files(tmp_path: Path) -> None:
    path = made(
        tmp_path, {"configMap": {"name": "cm", "items": [{"key": "k", "path": "d/x", "mode": 0o600}]}}
    )
    assert (path / "d/x").read_text() == "v"
    assert (path / "d/x").stat().st_mode & 0o777 == 0o600
    path = made(tmp_path, {"secret": {"secretName": "s"}})
    assert (path / "pass").read_text() == "word"


def test_projected_and_downward(tmp_path: Path) -> None:
    down = {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
    path = made(tmp_path, {"projected": {"sources": [{"configMap": {"name": "cm"}}, down]}})
    assert sorted(one.name for one in path.iterdir()) == ["k", "l", "labels"]
    assert (path / "labels").read_text() == 'a="b"'


def test_host_paths(tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert made(tmp_path, {"hostPath": {"path": str(there), "type": "DirectoryOrCreate"}}) == there
    assert there.is_dir()
    assert made(tmp_path, {"hostPath": {"path": str(tmp_path / "f"), "type": "FileOrCreate"}}).is_file()
    Volumes(tmp_path / "pods", Objects()).remove("u1")
    assert there.is_dir()


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"hostPath": {"path": "x"}}, "must be absolute"),
        (
            {"hostPath": {"path": "/proc", "type": "Socket"}},
            "hostPath type check failed: /proc is not a Socket",
        ),
        ({"nfs": {"server": "x"}}, "nfs is not supported here; use one of emptyDir"),
        ({"configMap": {"name": "no"}}, 'configmap "no" not found'),
        ({"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}}, "has no key z"),
        ({"configMap": {"name": "cm", "items": [{"key": "k", "path": "../k"}]}}, "leads out of its volume"),
    ],
)
def test_what_cannot_be_made_is_named(tmp_path: Path, volume: dict[str, Any], text: str) -> None:
    with pytest.raises(Error, match=text):
        made(tmp_path, volume)


def test_optional_objects_may_be_missing(tmp_path: Path) -> None:
    assert list(made(tmp_path, {"configMap": {"name": "no", "optional": True}}).iterdir()) == []


def test_mounts_of_a_container(tmp_path: Path) -> None:
    mounts: list[dict[str, Any]] = [
        {"name": "v", "mountPath": "/a", "readOnly": True},
        {"name": "v", "mountPath": "/b", "subPath": "x/y"},
        {"name": "v", "mountPath": "/c", "subPathExpr": "$(N)"},
    ]
    container = pod(mounts=mounts).spec.containers[0]
    found = mounts_of(container, {"v": tmp_path}, {"N": "n"})
    assert found == (
        Mount(str(tmp_path), "/a", read_only=True),
        Mount(str(tmp_path / "x/y"), "/b"),
        Mount(str(tmp_path / "n"), "/c"),
    )
    assert (tmp_path / "x/y").is_dir()
    faulty: list[dict[str, Any]] = [
        {"name": "v", "mountPath": "/a", "subPath": "../x"},
        {"name": "w", "mountPath": "/a"},
    ]
    for bad in faulty:
        with pytest.raises(Error, match=r"leads out of the volume|no volume 'w'"):
            mounts_of(pod(mounts=[bad]).spec.containers[0], {"v": tmp_path}, {})


def test_secrets_are_decoded() -> None:
    assert decoded({"a": "d29yZA==", "b": "/w=="}) == {"a": "word", "b": "\udcff"}
