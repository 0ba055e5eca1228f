from __future__ import annotations

import json
from pathlib import Path

import msgspec

from dray.api.core import Pod
from dray.api.core.pod import PodStatus
from dray.kubelet.pods.publish import ByOrigin, FileStatuses
from tests.kubelet.pods.pods import pod


def test_a_pod_without_an_object_has_its_status_in_a_file(tmp_path: Path) -> None:
    statuses = FileStatuses(tmp_path / "status")
    for phase in ("Pending", "Running"):
        statuses.tell(pod("a"), PodStatus(phase=phase))
    statuses.ended(pod("a"))
    (path,) = (tmp_path / "status").iterdir()
    document = json.loads(path.read_text())
    assert (path.name, document["status"]["phase"]) == ("ns_p.json", "Running")
    assert document["spec"]["containers"][0]["name"] == "a"


class Told:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def tell(self, pod: Pod, status: PodStatus) -> None:
        self.calls.append(f"tell {status.phase}")

    def ended(self, pod: Pod) -> None:
        self.calls.append("ended")


def test_each_pod_goes_to_where_it_came_from() -> None:
    files, api = Told(), Told()
    local = pod("a")
    served = msgspec.structs.replace(
        local, metadata=msgspec.structs.replace(local.metadata, resource_version="7")
    )
    both = ByOrigin(files, api)
    both.tell(local, PodStatus(phase="L"))
    both.tell(served, PodStatus(phase="S"))
    both.ended(served)
    ByOrigin(files, None).tell(served, PodStatus(phase="alone"))
    assert (files.calls, api.calls) == (["tell L", "tell alone"], ["tell S", "ended"])
