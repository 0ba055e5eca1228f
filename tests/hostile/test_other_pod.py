"""Another pod on the node: what is one pod's, its Secrets, volumes, logs, devices and what is told of them, stays its own.

What another pod can reach of the host is what any user of the host can. A container of it has none but its own mounts.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.cdi.registry import read_registry
from dray.dra.claims.metadata import MetadataFiles
from dray.errors import Error, InvalidError, NotFoundError
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.pods.start import log_directory
from dray.kubelet.pods.volumes import Volumes
from dray.kubelet.runtimes.shim_log import Log
from dray.kubelet.server.log_files import find_log
from dray.runtime.clock import SystemClock
from tests.dra.prepare_node import DRIVER, POOL
from tests.dra.test_metadata import SECOND
from tests.dra.test_state import FULL
from tests.kubelet.claims.world import Driver, World, claim_of, direct, pod_of
from tests.kubelet.pods.test_environment import Objects

EVERYTHING: tuple[dict[str, Any], ...] = (
    {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o444}},
    {"name": "map", "configMap": {"name": "cm"}},
    {"name": "both", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "cm"}}]}},
    {"name": "empty", "emptyDir": {}},
)


def pod(name: str, *volumes: dict[str, Any], sub_path: str = "") -> Pod:
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}", "subPath": sub_path} for one in volumes]
    document = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid"},
        "spec": {"volumes": list(volumes), "containers": [{"name": "c", "volumeMounts": mounts}]},
    }
    return view(document, Pod)


def may_reach(path: Path, root: Path) -> bool:
    """Whether a user who owns nothing may open it, once he is in `root`."""
    above = [one for one in path.parents if one != root and root in one.parents]
    return bool(path.lstat().st_mode & stat.S_IROTH) and all(
        one.stat().st_mode & stat.S_IXOTH for one in above
    )


def files_below(directory: Path) -> list[Path]:
    found = [Path(place) / name for place, _, names in os.walk(directory) for name in names]
    assert found
    return found


def test_no_file_of_a_pods_volumes_can_be_reached_from_outside(tmp_path: Path) -> None:
    """Whatever mode the pod gave its files, which is for its own containers."""
    volumes = Volumes(tmp_path / "pods", Objects(), SystemClock(), has_mounts=False)
    made = volumes.make(pod("mine", *EVERYTHING))
    (made["empty"].path / "written").write_text("by its container")
    (made["empty"].path / "written").chmod(0o777)
    found = files_below(tmp_path / "pods")
    assert {"pass", "k", "written"} <= {one.name for one in found}
    assert [one for one in found if may_reach(one, tmp_path)] == []


def test_a_container_is_given_its_own_pods_volumes_alone(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / "pods", Objects(), SystemClock(), has_mounts=False)
    mine = volumes.make(pod("mine", *EVERYTHING))
    theirs = pod("theirs", *EVERYTHING)
    mounts = volumes.mounts(theirs, theirs.spec.containers[0], volumes.make(theirs), {})
    places = [Path(one.host_path).resolve() for one in mounts]
    assert len(places) == len(EVERYTHING)
    assert all((tmp_path / "pods" / "theirs-uid").resolve() in one.parents for one in places)
    assert not {one.path.resolve() for one in mine.values()} & set(places)


@pytest.mark.parametrize("name", ["../mine-uid/volumes/secret", "a/../../mine-uid", "..", "/etc"])
def test_no_sub_path_leads_into_another_pods_volumes(tmp_path: Path, name: str) -> None:
    volumes = Volumes(tmp_path / "pods", Objects(), SystemClock(), has_mounts=False)
    volumes.make(pod("mine", *EVERYTHING))
    theirs = pod("theirs", EVERYTHING[3], sub_path=name)
    with pytest.raises(Error):
        volumes.mounts(theirs, theirs.spec.containers[0], volumes.make(theirs), {})


def test_a_log_is_read_by_its_owner_alone(tmp_path: Path) -> None:
    """Those that were put aside too. Others read logs through the API server, which asks who they are."""
    place = log_directory(tmp_path, pod("mine")) / "c"
    place.mkdir(parents=True)
    log = Log(str(place / "0.log"), size=10, files=3)
    for _ in range(5):
        log.write(b"0123456789ab\n")
    found = files_below(place)
    assert len(found) == 3
    assert [one for one in found if may_reach(one, tmp_path)] == []


@pytest.mark.parametrize("container", ["../ns_mine_mine-uid/c", "../../etc", "", "c/../c"])
def test_no_name_of_a_container_leads_to_another_pods_log(tmp_path: Path, container: str) -> None:
    place = log_directory(tmp_path, pod("mine")) / "c"
    place.mkdir(parents=True)
    (place / "0.log").write_text("of mine")
    with pytest.raises(NotFoundError, match="not found in pod"):
        find_log(tmp_path, KnownPod(pod("theirs"), "api"), container, previous=False)
    with pytest.raises(InvalidError, match="is waiting to start"):
        find_log(tmp_path, KnownPod(pod("theirs"), "api"), "c", previous=False)


def test_a_container_is_told_of_its_own_claims_devices_alone(tmp_path: Path) -> None:
    """The CDI device of a claim mounts that claim's file, read-only; there is none for all."""
    files = MetadataFiles(DRIVER, POOL, tmp_path / "cdi", ["v1beta1"])
    seen = {}
    for entry in (FULL, SECOND):
        files.ensure(entry)
        names = [files.request_id(entry.claim.uid, one) for one in entry.requests]
        devices = read_registry([tmp_path / "cdi"]).resolve([one for one in names if one])
        edits = [one.device.container_edits for one in devices]
        assert all(not one.device_nodes and not one.env for one in edits)
        mounts = [mount for one in edits for mount in one.mounts]
        assert mounts and all("ro" in one.options for one in mounts)
        seen[entry.claim.uid] = {one.host_path for one in mounts}
        assert all(Path(one).name.startswith(f"{entry.claim.uid}_") for one in seen[entry.claim.uid])
    first, second = seen.values()
    assert not first & second


async def test_the_claim_of_another_pod_gives_no_device(tmp_path: Path) -> None:
    """Neither before nor after its own pod has prepared it, and nothing of it is in the other pod's containers."""
    world = World(tmp_path / "state", active={"mine-uid", "theirs-uid"})
    driver = Driver("a.io", tmp_path / "a.sock")
    mine = pod_of("mine", direct("c"), uses=[("c", "")])
    theirs = pod_of("theirs", direct("c"), uses=[("c", "")])
    why = r"pod theirs \(theirs-uid\) is not allowed to use ResourceClaim c"
    world.api.add(claim_of("c", pods=["mine"]))
    async with driver.serving(), world.running(driver) as manager:
        with pytest.raises(Error, match=why):
            await manager.prepare(theirs)
        assert driver.calls == []
        await manager.prepare(mine)
        assert manager.cdi_devices(mine, mine.spec.containers[0]) == ("a.io/dev=c",)
        with pytest.raises(Error, match=why):
            await manager.prepare(theirs)
        # Nor does its end take the devices away from the pod that has them.
        await manager.unprepare(theirs)
        assert driver.prepared == {"c-uid"}
        assert driver.calls == [("prepare", ("c",))]
