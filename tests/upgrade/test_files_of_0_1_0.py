"""A node that ran 0.1.0 starts with its files. `node-0.1.0` is what one left that was killed (`dray up --sim laptop`, four
simulated GPUs offered by both doors): the pod `hello` has gpu-0 by a claim, the pod `counted` gpu-1 and gpu-2 by a device plugin.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from dray.agent.config.last_known import LastKnown
from dray.agent.node_view import LAYOUT
from dray.api.codec.json_codec import loads
from dray.apiserver.store.journal import Journal
from dray.dra.claims.claim_files import ClaimFiles
from dray.dra.claims.state import STATE_FORMAT, Phase
from dray.inventory.holds_file import HoldsFile
from dray.inventory.remembered import RememberedDevices
from dray.kubelet.claims import health_record, state_file
from dray.kubelet.devices import checkpoint as devices_checkpoint
from dray.kubelet.pods.records import Records
from dray.kubelet.runtimes.records import ContainerRecord, SandboxRecord
from dray.runtime.clock import FakeClock
from dray.runtime.threads import Threads

DRIVER = "sim.dray.internal"
RESOURCE = "dray.internal/sim-gpu"
CLAIM = "f7b65011-3393-4d4c-a851-98c8b43d65a3"
HELLO, COUNTED = "67e842e9-f162-4a3a-9b49-7dca52f8cbb1", "e5bebfe3-16d1-4056-a65f-3f161fa67dd1"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return Path(shutil.copytree(Path(__file__).with_name("node-0.1.0"), tmp_path / "node"))


def test_who_holds_what(node: Path) -> None:
    file = HoldsFile(node / "agent/holds", FakeClock(), Threads())
    loaded = file.open()
    file.close()
    assert loaded.set_aside is None and loaded.data is not None
    assert loaded.data.complete
    assert [(hold.door, hold.device, hold.owner, hold.parts) for hold in loaded.data.holds] == [
        ("dra", "gpu-0", "default/hello-gpu-2t9s2", ("sim:gpu-0",)),
        ("plugin", "gpu-1", "default/counted", ("sim:gpu-1",)),
        ("plugin", "gpu-2", "default/counted", ("sim:gpu-2",)),
    ]


def test_devices_as_they_were(node: Path, caplog: pytest.LogCaptureFixture) -> None:
    with RememberedDevices(node / "agent/devices") as remembered:
        devices = remembered.devices
    assert caplog.records == []
    assert [(one.id, one.kind, one.resource, one.name, one.numa_node, one.pcie_root) for one in devices] == [
        (f"gpu-{number}", "sim", RESOURCE, f"gpu-{number}", 0, "pci0000:00") for number in range(4)
    ]
    assert all(one.attributes["memory"] == "80Gi" and one.parts == (f"sim:{one.id}",) for one in devices)


def test_prepared_claims(node: Path) -> None:
    state = STATE_FORMAT.decode((node / f"kubelet/plugins/{DRIVER}/prepared-claims").read_bytes())
    (entry,) = state.entries
    assert (entry.claim.namespace, entry.claim.name, entry.claim.uid) == ("default", "hello-gpu-2t9s2", CLAIM)
    assert entry.phase is Phase.COMPLETED and entry.parts == {"sim:gpu-0"}
    (device,) = entry.held_devices()
    assert (device.id, device.name, dict(device.versions)) == ("gpu-0", "gpu-0", {"driverVersion": "1.0.0"})
    (request,) = entry.requests
    assert request.edits.env == (("SIM_RESOURCE_GPU_GPU", "gpu-0"),)
    # The same, from the CDI file that the container runtime reads.
    files = ClaimFiles(DRIVER, node / "cdi")
    assert files.read_back() == (entry,)
    files.close()


def test_the_kubelets_state(node: Path) -> None:
    (claim,) = state_file.decode((node / "kubelet/dra_manager_state").read_bytes())
    assert (claim.uid, set(claim.pods)) == (CLAIM, {HELLO})
    saved = devices_checkpoint.decode(
        (node / "kubelet/device-plugins/kubelet_internal_checkpoint").read_bytes()
    )
    (grant,) = saved.grants
    assert (grant.pod_uid, grant.resource, set(grant.ids)) == (COUNTED, RESOURCE, {"gpu-1", "gpu-2"})
    assert len(saved.registered["devices.kubevirt.io/kvm"] or ()) == 1000
    health = health_record.decode((node / "kubelet/dra_health_state").read_bytes())
    moment = datetime(2026, 11, 20, 0, 4, 40, tzinfo=UTC)
    told = [health.get(DRIVER, "vm", f"gpu-{number}", moment).health for number in range(5)]
    assert told == ["Healthy"] * 4 + ["Unknown"]


def test_pods_that_ran(node: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = Records(node / "kubelet/state/records").load()
    assert {uid: record.pod.metadata.name for uid, record in records.items()} == {
        HELLO: "hello",
        COUNTED: "counted",
    }
    assert not any(record.ended or record.rejection for record in records.values())
    assert caplog.records == []


def test_labels_of_the_node(node: Path) -> None:
    known = LastKnown(node / "agent/node-labels", LAYOUT).load()
    assert known is not None and (known.name, known.labels["kubernetes.io/arch"]) == ("vm", "amd64")


def test_objects_of_the_api_server(node: Path) -> None:
    journal = Journal(node / "apiserver/store.db")
    journal.open()
    rows = list(journal.rows())
    journal.close()
    assert journal.given >= len(rows) == 44
    newest = {(row.new.key.resource, row.new.key.name): loads(row.new.raw) for row in rows}
    claim = newest["resourceclaims.resource.k8s.io", "hello-gpu-2t9s2"]
    assert claim["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "hello", "uid": HELLO}]
    assert newest["pods", "counted"]["spec"]["nodeName"] == newest["pods", "hello"]["spec"]["nodeName"]


def test_containers(node: Path) -> None:
    runtime = node / "kubelet/state/containers"
    containers = [
        msgspec.json.decode(file.read_bytes(), type=ContainerRecord)
        for file in runtime.rglob("container.json")
    ]
    sandboxes = [
        msgspec.json.decode(file.read_bytes(), type=SandboxRecord) for file in runtime.rglob("sandbox.json")
    ]
    assert sorted((one.pod.name, one.name, one.attempt) for one in containers) == [
        ("counted", "main", 0),
        ("hello", "main", 0),
    ]
    assert {one.sandbox for one in containers} == {one.id for one in sandboxes}
