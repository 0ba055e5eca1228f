from __future__ import annotations

from dray.agent.config.additions import Additions
from dray.agent.config.reading import read_view, report, steps_to
from dray.api.field_errors import FieldError, Path, Reason
from dray.api.kubevirt.types import Configuration


def test_a_view_without_what_is_mistyped() -> None:
    raw = {
        "generic": [{"name": "a", "count": "x"}, 5, {"name": "b"}],
        "domain": 1,
        "nodeLabels": {"x.y/z": []},
    }
    additions, faults = read_view(raw, Additions, Path("dray"))
    assert [one.name for one in additions.generic] == ["a", "", "b"]
    assert sorted(fault.field for fault in faults) == [
        "dray.domain",
        "dray.generic[0].count",
        "dray.generic[1]",
        "dray.nodeLabels[x.y/z]",
    ]
    assert raw["domain"] == 1, "the document itself is not changed"


def test_a_key_that_cannot_be_followed_ends_the_search() -> None:
    additions, faults = read_view({"nodeLabels": {"a]b": 1}, "domain": 5}, Additions, Path())
    assert additions.node_labels == {}
    assert faults[0].field.startswith(("nodeLabels", "domain"))


def test_many_faults_are_cut_off() -> None:
    raw = {"hypervisors": [{"name": number} for number in range(80)]}
    _, faults = read_view(raw, Configuration, Path())
    assert len(faults) == 50


def test_steps() -> None:
    document = {"a": [{"b.c": 1, "7": {"x": 2}}]}
    assert steps_to(document, "a[0]") == ["a", 0]
    assert steps_to(document, "a[0][b.c]") == ["a", 0, "b.c"]
    assert steps_to(document, "a[0][7].x") == ["a", 0, "7", "x"]
    assert steps_to(document, "a[1].x") == ["a"]
    assert steps_to(document, "nothing.here") == []
    assert steps_to(5, "a") == []


def test_a_report_of_a_document_without_lines() -> None:
    error = report("f.json", {"a": 1}, {}, [FieldError("a", Reason.INVALID, "is bad")])
    assert str(error) == "f.json: a: is bad"


def test_a_report_of_many_faults_stays_readable() -> None:
    faults = [FieldError(f"a[{number}]", Reason.INVALID, "is bad") for number in range(25)]
    error = report("f", {}, {}, faults)
    assert len(error.causes) == 25
    assert str(error).endswith("f: a[19]: is bad; and 5 more")
