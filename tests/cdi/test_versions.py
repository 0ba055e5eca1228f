from __future__ import annotations

import pytest

from dray.cdi.spec import Edits, MountEdit, NetDeviceEdit, NodeEdit, RdtEdit, Spec, SpecDevice
from dray.cdi.versions import (
    KNOWN,
    at_minimum_version,
    enforced_version,
    minimum_version,
    version_advice,
    version_faults,
)

ENV = Edits(env=("A=1",))
NOTHING = Edits()


def spec(
    *devices: Edits, kind: str = "a/b", name: str = "d", version: str = "0.3.0", beside: Edits = NOTHING
) -> Spec:
    made = tuple(SpecDevice(f"{name}{position}", edits) for position, edits in enumerate(devices or (ENV,)))
    return Spec(version, kind, made, beside)


NEEDS = [
    ("0.4.0", Edits(mounts=(MountEdit("/a", "/b", type="bind"),))),
    ("0.5.0", Edits(device_nodes=(NodeEdit("/a", "/b"),))),
    ("0.7.0", Edits(additional_gids=(5,))),
    ("0.7.0", Edits(intel_rdt=RdtEdit())),
    ("1.1.0", Edits(intel_rdt=RdtEdit(schemata=()))),
    ("1.1.0", Edits(intel_rdt=RdtEdit(enable_monitoring=True))),
    ("1.1.0", Edits(net_devices=(NetDeviceEdit("a", "b"),))),
]


@pytest.mark.parametrize(("version", "edits"), NEEDS)
def test_edits_need_a_version_in_a_device_and_beside_them(version: str, edits: Edits) -> None:
    for made in (spec(edits), spec(beside=edits), spec(ENV, edits)):
        assert minimum_version(made) == enforced_version(made) == version
        assert version_faults(made)[0].startswith(f"must be {version} or newer: ")
        assert version_faults(at_minimum_version(made)) == []


def test_names_and_annotations_need_a_version() -> None:
    assert minimum_version(spec()) == "0.3.0"
    assert minimum_version(spec(name="0")) == "0.5.0"
    assert minimum_version(spec(kind="a/b.c")) == "0.6.0"
    assert minimum_version(spec(kind="a.c/b")) == "0.3.0"
    assert minimum_version(Spec("", "a/b", (), annotations={"a": "b"})) == "0.6.0"
    assert minimum_version(Spec("", "a/b", (SpecDevice("d", ENV, {"a": "b"}),))) == "0.6.0"


def test_versions_that_exist() -> None:
    assert [said for said in KNOWN if version_faults(spec(version=said))] == ["0.1.0", "0.2.0"]
    assert version_faults(spec(version="v1.0.0")) == []
    for said in ("", "1.2.0", "vv1.0.0", "1.0", "latest"):
        assert "is not a version of CDI" in version_faults(spec(version=said))[0]


@pytest.mark.parametrize(("version", "edits"), NEEDS[:2])
def test_what_runtimes_do_not_notice_is_advice(version: str, edits: Edits) -> None:
    """They look for these in the last device only. The version that we write counts all."""
    made = spec(edits, ENV)
    assert (minimum_version(made), enforced_version(made)) == (version, "0.3.0")
    assert version_faults(made) == []
    assert version_advice(made)[0].startswith(f"should be {version} or newer")
    assert version_advice(at_minimum_version(made)) == []
