"""`dray bench up` on a small fleet: a real `dray up`, loaded and measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.kinds import RESOURCE_CLAIM_TEMPLATES, by_kind
from dray.api.validation.entry import validate
from dray.bench.measure import Figure
from dray.bench.up import Sizes, figures
from dray.bench.up_load import documents, is_settled, template
from dray.errors import UnavailableError

PROFILE = """
classes:
  - name: gpu.nvidia.com
    expression: device.driver == "gpu.nvidia.com"
groups:
  - name: n
    count: 3
    devices: [{driver: gpu.nvidia.com, count: 8}]
"""


def test_every_figure_of_a_small_fleet(tmp_path: Path) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text(PROFILE)
    told: list[str] = []
    sizes = Sizes(str(profile), pods=12, impossible=3, rest=0.0, idle=0.2)
    found = [one for one in figures(sizes=sizes, say=told.append) if isinstance(one, Figure)]
    values = {one.name.removeprefix(f"{profile}: "): one.dray for one in found}
    assert values["12 pods, 3 impossible: running"] == 9
    assert values["12 pods, 3 impossible: explained"] == 3
    assert all(value > 0 for name, value in values.items() if "CPU when quiet" not in name)
    assert len(values) == len(found) == 8
    assert len(told) == 3


def test_one_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="there is no profile"):
        next(iter(figures(sizes=Sizes(str(tmp_path / "none")))))


@pytest.mark.parametrize(("count", "impossible"), [(1000, 50), (7, 0), (4, 4), (10, 3)])
def test_so_many_pods_are_impossible(count: int, impossible: int) -> None:
    made = [view(one, Pod) for one in documents(count, impossible)]
    names = [one.spec.resource_claims[0].resource_claim_template_name for one in made]
    assert (len(names), names.count("bench-nine")) == (count, impossible)
    assert len({one.metadata.name for one in made}) == count


def test_templates_are_valid() -> None:
    document = template("t", 9)
    assert by_kind(document["apiVersion"], document["kind"]) is RESOURCE_CLAIM_TEMPLATES
    assert validate(RESOURCE_CLAIM_TEMPLATES, view(document, RESOURCE_CLAIM_TEMPLATES.type)) == []


def test_a_pod_is_open_until_it_runs_or_says_why_it_never_will() -> None:
    def condition(message: str) -> dict[str, object]:
        told = {"type": "PodScheduled", "status": "False", "message": message}
        return {"status": {"phase": "Pending", "conditions": [told]}}

    possible, impossible = (documents(1, number)[0] for number in (0, 1))
    refused, waiting = condition("0/3 nodes are available: 3 cannot"), condition("waiting for its claim")
    running = {"status": {"phase": "Running"}}
    assert [is_settled(view(possible | one, Pod)) for one in ({}, refused, running)] == [False, False, True]
    assert [is_settled(view(impossible | one, Pod)) for one in ({}, waiting, refused)] == [False, False, True]
