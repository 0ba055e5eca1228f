from __future__ import annotations

from pathlib import Path

from dray.agent.events import COMPONENT, AgentEvents, Reason, node_reference
from dray.api.core import ObjectReference
from dray.api.kinds import EVENTS
from dray.client.event_recorder import EventRecorder
from dray.dra.parcels import ClaimRef
from dray.errors import InvalidError
from dray.runtime.clock import SystemClock
from tests.controllers.server import cluster

CLAIM = ClaimRef("default", "c", "00000000-0000-4000-8000-000000000001")


async def test_a_claim_and_its_pods_are_told(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (api, client):
        recorder = EventRecorder(client, COMPONENT, SystemClock(), host="n")
        events = AgentEvents(recorder)
        events.tell_claim(CLAIM, Reason.DEVICE_PREPARED, "gpu-0", [("p2", "u2"), ("p1", "u1")])
        events.tell_claim(CLAIM, Reason.DEVICE_PREPARE_FAILED, "gpu-0 is gone")
        events.tell_node(Reason.CHECKPOINT_RESET, "who would hear it? the node is not known")
        await recorder.flush(5)
        told = sorted(
            (one["involvedObject"]["kind"], one["involvedObject"]["name"], one["type"], one["reason"], one["message"])
            for one in api.every(EVENTS)
        )  # fmt: skip
    assert told == [
        ("Pod", "p1", "Normal", "DevicePrepared", "claim c: gpu-0"),
        ("Pod", "p2", "Normal", "DevicePrepared", "claim c: gpu-0"),
        ("ResourceClaim", "c", "Normal", "DevicePrepared", "gpu-0"),
        ("ResourceClaim", "c", "Warning", "DevicePrepareFailed", "gpu-0 is gone"),
    ]


def test_without_an_api_server_nothing_is_written() -> None:
    events = AgentEvents()
    events.tell_claim(CLAIM, Reason.DEVICE_RELEASED, "x", [("p", "u")])
    events.config_rejected(InvalidError("x"), (ObjectReference(kind="ConfigMap"),))


def test_a_node_without_uid_is_named_as_a_kubelet_does() -> None:
    assert node_reference("n", "").uid == "n"
    assert node_reference("n", "u").uid == "u"


def test_every_reason_is_documented() -> None:
    page = Path("docs/reference/agent.md").read_text()
    assert [reason for reason in Reason if f"`{reason}`" not in page] == []
