from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.sim.profile import SimProfile
from dray.errors import InvalidError
from dray.up.fleet.objects import fleet_nodes
from dray.up.fleet.profile_file import load_profile, profile_names, read_profile

GROUP = """groups:
  - name: n
    devices:
      - driver: d.example.com
        count: 2
"""


def refused(text: str) -> str:
    with pytest.raises(InvalidError) as caught:
        read_profile(text, "p.yaml")
    return str(caught.value)


def test_the_shipped_profiles() -> None:
    nodes = {name: load_profile(name).node_count for name in profile_names()}
    assert nodes == {"100-nodes": 100, "1000x8": 1000, "h200x8-mig": 1, "laptop": 0}
    assert all(load_profile(name).description for name in profile_names())
    assert all(load_profile(name).local.devices for name in profile_names())


def test_a_hundred_nodes_are_mixed_and_not_all_well() -> None:
    profile = load_profile("100-nodes")
    assert len(fleet_nodes(profile)) == 100
    products = {entry.product for group in profile.groups for entry in group.devices}
    assert len(products) == 3
    faults = [fault for group in profile.groups for fault in group.faults]
    assert any(one.reason for one in faults) and any(one.taints for one in faults)
    assert [group.resources for group in profile.groups if group.resources] == [{"nvidia.com/gpu": 8}]


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GROUP)
    assert load_profile(str(path)).groups[0].devices[0].count == 2


def test_neither_name_nor_file() -> None:
    with pytest.raises(InvalidError, match=r"--sim: there is no profile 'loptop' .* laptop, or give a YAML"):
        load_profile("loptop")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="no such file"):
        load_profile(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p.yaml: must be one map"),
        ("- a", "p.yaml: must be one map"),
        ("{}\n---\n{}", "p.yaml: must be one map"),
        ("groups: [", "p.yaml:2:1: "),
        (GROUP.replace("count", "coutn"), 'p.yaml:4: groups[0].devices[0].coutn: unknown field: did you mean "count"?'),
        (GROUP.replace("2", "two"), "p.yaml:4: groups[0].devices[0].count: expected `int`"),
        (GROUP.replace("name: n", "name: N"), "p.yaml:2: groups[0].name: Invalid value"),
        (GROUP + "    faults: [{device: gpu-7}]", 'groups[0].faults[0].device: Not found: "gpu-7": the names are gpu-0 to gpu-1'),
        ("classes: [{name: a, expression: 'device.'}]", "classes[0].expression: Invalid value"),
        (GROUP + "        attributes: {'a b': 1}", "groups[0].devices: gpu-0.attributes[a b]: is left out"),
        (GROUP + "        versions: {v: one}", "groups[0].devices: gpu-0.attributes[v]: is left out"),
    ],
)  # fmt: skip
def test_errors_name_line_and_field(text: str, said: str) -> None:
    assert said in refused(text)


def test_all_faults_are_told_at_once() -> None:
    text = refused("groups:\n  - name: N\n  - name: m\n    count: 0\n")
    assert "p.yaml:2: groups[0].name" in text and "p.yaml:3: groups[1].count" in text


def test_an_empty_map_is_nothing() -> None:
    assert read_profile("{}", "p.yaml") == SimProfile()
