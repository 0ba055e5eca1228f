from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.cdi.edits import Mount
from dray.errors import Error, InvalidError
from dray.kubelet.pods.objects import names_of
from dray.kubelet.pods.volumes import Volume, Volumes, decoded
from dray.runtime.clock import SystemClock
from tests.kubelet.pods.test_environment import Objects


def pod(*volumes: dict[str, Any], mounts: list[dict[str, Any]] | None = None) -> Pod:
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "labels": {"a": "b"}},
        "spec": {"volumes": list(volumes), "containers": [{"name": "c", "volumeMounts": mounts or []}]},
    }
    return view(document, Pod)


def opened(tmp_path: Path) -> Volumes:
    """Without mounts: nobody has to be root. Those are in tests/hostile/test_pod.py."""
    return Volumes(tmp_path / "pods", Objects(), SystemClock(), has_mounts=False)


def made(tmp_path: Path, volume: dict[str, Any]) -> Path:
    return opened(tmp_path).make(pod({"name": "v"} | volume))["v"].path


def test_an_empty_directory_keeps_its_content_until_the_pod_goes(tmp_path: Path) -> None:
    volumes = opened(tmp_path)
    path = volumes.make(pod({"name": "v", "emptyDir": {}}))["v"].path
    (path / "file").write_text("x")
    assert volumes.make(pod({"name": "v", "emptyDir": {}}))["v"] == Volume(path)
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
    assert sorted(one.name for one in path.iterdir() if not one.name.startswith("..")) == ["k", "l", "labels"]
    assert (path / "labels").read_text() == 'a="b"'


def test_host_paths(tmp_path: Path) -> None:
    there = tmp_path / "there"
    assert made(tmp_path, {"hostPath": {"path": str(there), "type": "DirectoryOrCreate"}}) == there
    assert there.is_dir()
    assert made(tmp_path, {"hostPath": {"path": str(tmp_path / "f"), "type": "FileOrCreate"}}).is_file()
    opened(tmp_path).remove("u1")
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
        ({"configMap": {"name": "cm", "items": [{"key": "k"}]}}, "volume v: file '' must be relative"),
        ({"configMap": {"name": "cm", "items": [{"path": "k"}]}}, "volume v: configmap cm has no key"),
        ({"configMap": {"name": "cm", "items": ["k"]}}, r"volume v: .*items\[0\]"),
        ({"configMap": {"name": "cm", "defaultMode": "x"}}, "volume v: .*defaultMode"),
        ({"secret": "s"}, "volume v: "),
        ({"projected": "x"}, "volume v: projected: "),
        ({"projected": {"sources": 5}}, "volume v: projected: .*sources"),
        ({"hostPath": ["/"]}, "volume v: hostPath: "),
        ({"hostPath": {"path": "/", "type": "Fiel"}}, r"hostPath\.type 'Fiel' must be one of"),
        ({"projected": {"sources": [{"configMap": "x"}]}}, r"volume v: .*sources\[0\]"),
        ({"downwardAPI": {"items": [{"path": "a"}]}}, "field '' of the pod is not offered"),
        ({"hostPath": {"path": "/a\0b"}}, "must be absolute, without NUL"),
    ],
)
def test_what_cannot_be_made_is_named(tmp_path: Path, volume: dict[str, Any], text: str) -> None:
    with pytest.raises(Error, match=text):
        made(tmp_path, volume)


@pytest.mark.parametrize(
    "volume",
    [
        {"configMap": {"name": "cm", "defaultMode": None, "items": None, "optional": None}},
        {"configMap": {"name": "cm", "items": [{"key": "k", "path": "k", "mode": None}]}},
        {"projected": {"sources": None, "defaultMode": None}},
        {"projected": {"sources": [{"configMap": None}, {"configMap": {"name": "no", "optional": True}}]}},
        {"downwardAPI": {"items": None}},
        {"emptyDir": None},
    ],
)
def test_null_is_what_is_left_out(tmp_path: Path, volume: dict[str, Any]) -> None:
    if volume.get("projected", {}).get("sources"):
        with pytest.raises(Error, match='configmap "" not found'):
            made(tmp_path, volume)
        return
    assert made(tmp_path, volume).is_dir()
    assert list(names_of(pod({"name": "v"} | volume)))[:1] in ([], [("configmap", "ns", "cm")])


def test_optional_objects_may_be_missing(tmp_path: Path) -> None:
    path = made(tmp_path, {"configMap": {"name": "no", "optional": True}})
    assert all(one.name.startswith("..") for one in path.iterdir())


def test_volumes_of_objects_are_read_only_whatever_the_pod_asks_for(tmp_path: Path) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "configMap": {"name": "cm"},
        "secret": {"secretName": "s"},
        "downwardAPI": {"items": []},
        "projected": {"sources": []},
        "emptyDir": {},
        "hostPath": {"path": str(tmp_path)},
    }
    one = pod(
        *({"name": kind.lower(), kind: source} for kind, source in kinds.items()),
        mounts=[{"name": kind.lower(), "mountPath": f"/{kind}", "readOnly": False} for kind in kinds],
    )
    volumes = opened(tmp_path)
    found = volumes.mounts(one, one.spec.containers[0], volumes.make(one), {})
    assert {mount.container_path for mount in found if not mount.read_only} == {"/emptyDir", "/hostPath"}


def test_mounts_of_a_container(tmp_path: Path) -> None:
    mounts: list[dict[str, Any]] = [
        {"name": "v", "mountPath": "/a", "readOnly": True},
        {"name": "v", "mountPath": "/b", "subPath": "x/y"},
        {"name": "v", "mountPath": "/c", "subPathExpr": "$(N)"},
        {"name": "v", "mountPath": "/d", "subPath": "./x//y/"},
    ]
    one, known = pod(mounts=mounts), {"v": Volume(tmp_path)}
    found = opened(tmp_path).mounts(one, one.spec.containers[0], known, {"N": "n"})
    assert found == (
        Mount(str(tmp_path), "/a", read_only=True),
        Mount(str(tmp_path / "x/y"), "/b"),
        Mount(str(tmp_path / "n"), "/c"),
        Mount(str(tmp_path / "x/y"), "/d"),
    )
    assert (tmp_path / "x/y").is_dir()
    faulty: list[dict[str, Any]] = [
        {"name": "v", "mountPath": "/a", "subPath": "../x"},
        {"name": "v", "mountPath": "/a", "subPath": "/x"},
        {"name": "w", "mountPath": "/a"},
    ]
    for bad in faulty:
        with pytest.raises(Error, match=r"leads out of the volume|no volume 'w'"):
            bad_pod = pod(mounts=[bad])
            opened(tmp_path).mounts(bad_pod, bad_pod.spec.containers[0], known, {})


@pytest.mark.parametrize(
    ("expression", "below"), [("$(N)/x", "n/x"), ("$$(M)", "$(M)"), ("$(E)", ""), ("a$(", "a$(")]
)
def test_a_sub_path_of_variables(tmp_path: Path, expression: str, below: str) -> None:
    one = pod(mounts=[{"name": "v", "mountPath": "/a", "subPathExpr": expression}])
    known, env = {"v": Volume(tmp_path)}, {"N": "n", "E": ""}
    (found,) = opened(tmp_path).mounts(one, one.spec.containers[0], known, env)
    assert found.host_path == str(tmp_path / below)


def test_a_sub_path_of_a_variable_that_is_not_there_makes_nothing(tmp_path: Path) -> None:
    one = pod(mounts=[{"name": "v", "mountPath": "/a", "subPathExpr": "a/$(NOPE)"}])
    with pytest.raises(InvalidError, match=r"failed to prepare subPath .* missing value for 'NOPE'"):
        opened(tmp_path).mounts(one, one.spec.containers[0], {"v": Volume(tmp_path)}, {})
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_writable_below_a_read_only_mount_is_refused(tmp_path: Path) -> None:
    """Kubernetes promises that nothing there can be written to."""
    for given, is_refused in (("Enabled", True), ("IfPossible", False), ("Disabled", False), (None, False)):
        mount = {"name": "v", "mountPath": "/a", "readOnly": True, "recursiveReadOnly": given}
        one, known = pod(mounts=[mount]), {"v": Volume(tmp_path)}
        if is_refused:
            with pytest.raises(
                InvalidError,
                match=r"container c: volumeMounts\[0\]\.recursiveReadOnly: Enabled is not supported",
            ):
                opened(tmp_path).mounts(one, one.spec.containers[0], known, {})
        else:
            assert opened(tmp_path).mounts(one, one.spec.containers[0], known, {})[0].read_only


def test_directories_made_for_a_sub_path_have_the_volumes_mode(tmp_path: Path) -> None:
    one = pod({"name": "v", "emptyDir": {}}, mounts=[{"name": "v", "mountPath": "/a", "subPath": "x/y"}])
    volumes = opened(tmp_path)
    found = volumes.mounts(one, one.spec.containers[0], volumes.make(one), {})
    path = Path(found[0].host_path)
    assert [each.stat().st_mode & 0o777 for each in (path, path.parent)] == [0o777, 0o777]


def test_only_we_look_below_the_pods_directory(tmp_path: Path) -> None:
    path = made(tmp_path, {"emptyDir": {}})
    assert [one.stat().st_mode & 0o777 for one in path.parents[:3]] == [0o700, 0o700, 0o700]


def test_a_secret_that_is_no_base64() -> None:
    with pytest.raises(InvalidError, match="not valid base64"):
        decoded({"a": "x"})


def test_secrets_are_decoded() -> None:
    assert decoded({"a": "d29yZA==", "b": "/w=="}) == {"a": "word", "b": "\udcff"}
