from __future__ import annotations

from typing import Any

import msgspec

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.core.pod import PodResourceClaimStatus, PodStatus
from dray.kubelet.pods.known import KnownPods, Phase, record_of
from dray.kubelet.pods.records import Record
from dray.kubelet.rejection import Rejection
from tests.kubelet.pods.pods import START


def pod(uid: str, status: PodStatus | None = None, **meta: Any) -> Pod:
    made = view({"metadata": {"name": uid, "uid": uid, **meta}, "spec": {"containers": [{"name": "a"}]}}, Pod)
    return msgspec.structs.replace(made, status=status) if status else made


def test_a_source_tells_its_whole_list() -> None:
    known = KnownPods({})
    assert known.take("api", [pod("1"), pod("2")]) == ["1", "2"]
    assert known.take("file", [pod("3")]) == ["3"]
    assert known.take("api", [pod("1"), pod("2")]) == []
    assert known.take("api", [pod("2"), pod("4")]) == ["4", "1"]
    assert [uid for uid, one in known.by_uid.items() if not one.is_wanted] == ["1"]
    assert known.by_uid["1"].is_leaving
    assert known.take("api", [pod("1"), pod("2"), pod("4")]) == ["1"]
    assert not known.by_uid["1"].is_leaving


def test_sources_are_ready_once_all_told() -> None:
    known = KnownPods({})
    known.take("api", [])
    assert not known.is_ready({"api", "file"})
    known.take("file", [])
    assert known.is_ready({"api", "file"})


def test_a_deletion_is_a_change_and_a_status_is_not() -> None:
    known = KnownPods({})
    known.take("api", [pod("1")])
    assert known.take("api", [pod("1", PodStatus(phase="Running"))]) == []
    gone = pod("1", deletionTimestamp=START.isoformat().replace("+00:00", "Z"), deletionGracePeriodSeconds=7)
    assert known.take("api", [gone]) == ["1"]
    assert (known.by_uid["1"].is_leaving, known.by_uid["1"].grace) == (True, 7.0)


def test_our_own_status_stays_and_that_of_controllers_is_taken_over() -> None:
    known = KnownPods({})
    known.take("api", [pod("1")])
    known.by_uid["1"].pod = pod("1", PodStatus(phase="Running", start_time=START))
    claims = (PodResourceClaimStatus(name="c", resource_claim_name="c-1"),)
    assert known.take("api", [pod("1", PodStatus(phase="Pending", resource_claim_statuses=claims))]) == ["1"]
    status = known.by_uid["1"].pod.status
    assert (status.phase, status.start_time, status.resource_claim_statuses) == ("Running", START, claims)


def test_who_may_hold_devices() -> None:
    records = {
        "new": Record(pod("new"), "api"),
        "over": Record(pod("over"), "api", ended=True),
        "refused": Record(pod("refused"), "api", Rejection("r", "m"), ended=True),
    }
    known = KnownPods(records)
    known.take("api", [pod(uid) for uid in ("new", "over", "refused", "fresh")])
    assert [one.metadata.uid for one in known.active] == ["fresh", "new"]
    assert [one.metadata.uid for one in known.taken] == ["new"]
    known.by_uid["fresh"].phase = Phase.TAKEN
    assert [one.metadata.uid for one in known.taken] == ["fresh", "new"]
    assert {uid: record_of(one) for uid, one in known.by_uid.items() if uid in records} == records


def test_a_pod_that_runs_was_taken_by_whichever_kubelet_was_here_before() -> None:
    known = KnownPods({})
    known.take("api", [pod("runs", PodStatus(phase="Running")), pod("waits", PodStatus(phase="Pending"))])
    assert {uid: one.was_taken for uid, one in known.by_uid.items()} == {"runs": True, "waits": False}
    assert [one.metadata.uid for one in known.taken] == ["runs"]
