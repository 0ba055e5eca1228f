"""Disks that two pods of a node cannot both write."""

from __future__ import annotations

from typing import Any

import pytest

from dray.scheduler.nodes import Nodes
from tests.scheduler.fit.storage_objects import fit_with
from tests.scheduler.objects import make_node, make_pod

GCE: dict[str, Any] = {"pdName": "x"}
ISCSI: dict[str, Any] = {"iqn": "x", "lun": 0}
RBD: dict[str, Any] = {"monitors": ["m1", "m2"], "image": "x"}
READ = {"readOnly": True}


@pytest.mark.parametrize(
    ("kind", "wanted", "there", "does"),
    [
        ("gcePersistentDisk", GCE, GCE, False),
        ("gcePersistentDisk", GCE, {"pdName": "y"}, True),
        ("gcePersistentDisk", GCE | READ, GCE, False),
        ("gcePersistentDisk", GCE | READ, GCE | READ, True),
        ("awsElasticBlockStore", {"volumeID": "x"} | READ, {"volumeID": "x"} | READ, False),
        ("awsElasticBlockStore", {"volumeID": "x"}, {"volumeID": "y"}, True),
        ("iscsi", ISCSI, ISCSI | {"lun": 1}, False),
        ("iscsi", ISCSI | READ, ISCSI | READ, True),
        ("rbd", RBD, RBD | {"monitors": ["m2", "m3"]}, False),
        ("rbd", RBD, RBD | {"monitors": ["m3"]}, True),
        ("rbd", RBD, RBD | {"pool": "other"}, True),
        ("rbd", RBD, RBD | {"pool": "rbd"}, False),
    ],
)
def test_conflicts(kind: str, wanted: dict[str, Any], there: dict[str, Any], does: bool) -> None:
    nodes = Nodes()
    nodes.put_node(make_node())
    nodes.put_pod(make_pod("other", node="node", volumes=[{"name": "v", kind: there}]))
    fit, info = fit_with(make_pod(volumes=[{"name": "v", kind: wanted}]), nodes=nodes), nodes.get("node")
    assert info is not None and fit.barred() is None
    found = fit.refused(info)
    if does:
        assert found is None
    else:
        assert found is not None and found.can_resolve
        assert (found.check, found.reasons) == ("VolumeRestrictions", ("node(s) had no available disk",))
