from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.cdi.registry import read_registry
from dray.dra.claims.metadata import MetadataFiles, check_versions
from dray.dra.parcels import ClaimRef
from dray.errors import DeniedError, InvalidError
from tests.dra.prepare_node import DRIVER, POOL
from tests.dra.test_state import FULL, REF, SHARES

SECOND = msgspec.structs.replace(FULL, claim=ClaimRef("default", "web", "second"), pod_claim="")


def metadata(tmp_path: Path, *versions: str) -> MetadataFiles:
    return MetadataFiles(DRIVER, POOL, tmp_path / "cdi", versions)


def path_of(tmp_path: Path, uid: str = REF.uid) -> Path:
    return tmp_path / "cdi" / f"{DRIVER}_metadata" / f"{uid}_gpu.json"


def stream(path: Path) -> list[Any]:
    """As a reader of a JSON stream sees it."""
    text, found, decoder = path.read_text(), [], json.JSONDecoder()
    while text.strip():
        value, end = decoder.raw_decode(text.lstrip())
        found.append(value)
        text = text.lstrip()[end:]
    return found


def names(directory: Path) -> list[str]:
    return (
        sorted(str(one.relative_to(directory)) for one in directory.rglob("*")) if directory.exists() else []
    )


def test_a_container_is_told_its_devices(tmp_path: Path) -> None:
    files = metadata(tmp_path, "v1alpha1")
    assert files.ensure(FULL)
    assert not files.ensure(FULL)
    path = path_of(tmp_path)
    assert stream(path) == [
        {
            "kind": "DeviceMetadata",
            "apiVersion": "metadata.resource.k8s.io/v1alpha1",
            "metadata": {"name": "web", "namespace": "default", "uid": REF.uid, "generation": 1},
            "podClaimName": "gpus",
            "requests": [
                {
                    "name": "gpu/big",
                    "devices": [
                        {
                            "driver": DRIVER,
                            "pool": POOL,
                            "name": "gpu-3",
                            "attributes": {"model": {"string": "T-1"}, "index": {"int": 3}},
                        }
                    ],
                }
            ],
        }
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_it_is_mounted_by_a_cdi_file_of_its_own(tmp_path: Path) -> None:
    files = metadata(tmp_path, "v1alpha1")
    files.ensure(FULL)
    request = FULL.requests[0]
    name = files.request_id(REF.uid, request)
    assert name == f"{DRIVER}/metadata={REF.uid}_gpu"
    registry = read_registry([tmp_path / "cdi"])
    assert registry.broken == ()
    (found,) = registry.resolve([name])
    assert found.path == tmp_path / "cdi" / f"{DRIVER}_metadata_{REF.uid}_gpu.json"
    assert found.spec.version == "0.5.0"
    (mount,) = found.device.container_edits.mounts
    assert mount.host_path == str(path_of(tmp_path))
    directory = "/var/run/kubernetes.io/dra-device-attributes"
    assert mount.container_path == f"{directory}/resourceclaimtemplates/gpus/gpu/{DRIVER}-metadata.json"
    assert mount.options == ("ro", "bind")
    files.ensure(SECOND)
    (found,) = read_registry([tmp_path / "cdi"]).resolve([f"{DRIVER}/metadata=second_gpu"])
    (mount,) = found.device.container_edits.mounts
    assert mount.container_path == f"{directory}/resourceclaims/web/gpu/{DRIVER}-metadata.json"


def test_versions_newest_first(tmp_path: Path) -> None:
    metadata(tmp_path, "v1alpha1", "v1beta1").ensure(FULL)
    path = path_of(tmp_path)
    first, second = stream(path)
    assert [one.pop("apiVersion").rpartition("/")[2] for one in (first, second)] == ["v1beta1", "v1alpha1"]
    assert first == second
    with pytest.raises(InvalidError, match="'v2' is not known: use some of v1beta1, v1alpha1"):
        check_versions(["v2"])


def test_without_versions_nothing_is_written_and_all_is_removed(tmp_path: Path) -> None:
    off = metadata(tmp_path)
    assert not off.ensure(FULL)
    assert off.request_id(REF.uid, FULL.requests[0]) is None
    assert names(tmp_path) == []
    off.remove(REF.uid, requests=None)
    assert off.uids() == ()
    metadata(tmp_path, "v1alpha1").ensure(FULL)
    assert off.uids() == (REF.uid,)
    off.remove(REF.uid, requests=None)
    assert names(tmp_path / "cdi") == [f"{DRIVER}_metadata"]


def test_claims_of_one_name_have_files_of_their_own(tmp_path: Path) -> None:
    files = metadata(tmp_path, "v1alpha1")
    files.ensure(FULL)
    files.ensure(SECOND)
    assert files.uids() == tuple(sorted((REF.uid, "second")))
    files.remove(REF.uid, requests=["gpu", "look"])
    files.remove(REF.uid, requests=["gpu", "look"])
    assert files.uids() == ("second",)
    assert not path_of(tmp_path).exists()
    assert stream(path_of(tmp_path, "second"))[0]["metadata"]["uid"] == "second"


def test_what_a_killed_process_left_is_seen_and_removed(tmp_path: Path) -> None:
    files = metadata(tmp_path, "v1alpha1")
    files.ensure(FULL)
    half = path_of(tmp_path, "half")
    half.with_name(f".{half.name}.tmp").touch()
    assert files.uids() == tuple(sorted((REF.uid, "half")))
    files.remove("half", requests=None)
    assert files.uids() == (REF.uid,)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "keep").mkdir(parents=True)
    (tmp_path / "cdi").mkdir()
    directory = path_of(tmp_path).parent
    directory.symlink_to(outside)
    files = metadata(tmp_path, "v1alpha1")
    for _ in range(2):
        with pytest.raises(DeniedError, match="symbolic link"):
            files.ensure(FULL)
    assert names(outside) == ["keep"]
    directory.unlink()
    directory.mkdir()
    path_of(tmp_path).symlink_to(outside / "file")
    files.ensure(FULL)
    assert not path_of(tmp_path).is_symlink()
    path_of(tmp_path).unlink()
    path_of(tmp_path).symlink_to(outside)
    files.remove(REF.uid, requests=None)
    assert not path_of(tmp_path).is_symlink()
    assert names(outside) == ["keep"]


def test_it_says_nothing_of_shares(tmp_path: Path) -> None:
    """The kubelet's share is no attribute of the device."""
    metadata(tmp_path, "v1alpha1").ensure(FULL)
    assert SHARES[0] not in path_of(tmp_path).read_text()


def test_either_of_the_two_files_tells_of_the_claim(tmp_path: Path) -> None:
    files = metadata(tmp_path, "v1alpha1")
    files.ensure(FULL)
    path_of(tmp_path).unlink()
    for one in (tmp_path / "cdi" / f"{DRIVER}_metadata").iterdir():
        one.unlink()
    assert files.uids() == (REF.uid,)
    files.ensure(FULL)
    for one in (tmp_path / "cdi").glob("*.json"):
        one.unlink()
    assert files.uids() == (REF.uid,)
