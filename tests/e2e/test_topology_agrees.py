"""Random cases: our topology and device managers and the kubelet's own, of Kubernetes 1.36, give the same answers."""

from __future__ import annotations

import pytest

from tests.campaign import seeds
from tests.oracle_kubelet.compare import DEVICES, MERGE, Kind, compare
from tests.oracle_kubelet.corpus import committed
from tests.oracle_kubelet.program import KubeletOracle

MERGES = seeds(2_000, 100_000, first=1_000_000)
MACHINES = seeds(200, 10_000, first=1_000_000)


def test_merges_and_admissions_agree() -> None:
    """Policies, scopes and options over hints of any shape: the merged hint, the admission, who was asked to allocate."""
    report = compare(MERGE, MERGES)
    print(report)
    assert not report.differences, str(report)
    assert report.outcomes.total() == len(MERGES)
    assert report.outcomes["admitted"] > len(MERGES) / 4
    assert report.outcomes["Resources cannot be allocated with Topology locality"] > len(MERGES) / 4
    assert len(report.outcomes) >= 8


def test_devices_agree() -> None:
    """Hints, refusals with their texts, where the picks sit, what plugins are asked; also for pods from before a restart."""
    report = compare(DEVICES, MACHINES)
    print(report)
    assert not report.differences, str(report)
    assert report.outcomes["admitted"] > len(MACHINES) / 4
    assert len(report.outcomes) >= 8
    assert report.varying < len(MACHINES) / 10


@pytest.mark.parametrize("kind", [MERGE, DEVICES], ids=lambda kind: kind.question)
def test_the_oracle_still_gives_the_committed_answers(kind: Kind) -> None:
    """Asked again where it may pick by chance what it did not pick when the case was chosen."""
    with KubeletOracle(kind.question) as oracle:
        for case in committed(kind):
            expected = case.pop("answer")
            assert any(kind.view(oracle.ask(case)) == expected for _ in range(5)), case["name"]
