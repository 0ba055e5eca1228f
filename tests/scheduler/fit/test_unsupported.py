"""What nobody here can judge is refused, not passed over."""

from __future__ import annotations

from typing import Any

import pytest

from dray.scheduler.fit.filters import Fit
from dray.scheduler.nodes import Nodes
from tests.scheduler.objects import make_pod


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]},
            "spec.volumes[0].persistentVolumeClaim",
        ),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, "spec.volumes[0].ephemeral"),
        ({"volumes": [{"name": "e", "emptyDir": {}}, {"name": "v", "rbd": {}}]}, "spec.volumes[1].rbd"),
    ],
)
def test_refused_with_the_field(spec: dict[str, Any], named: str) -> None:
    found = Fit.of(make_pod(**spec), Nodes()).barred()
    assert found is not None
    assert found.reasons == (f"this scheduler does not place pods with {named}",)


def test_wishes_and_other_volumes_pass() -> None:
    spec: dict[str, Any] = {
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "x"}}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}},
    }
    assert Fit.of(make_pod(**spec), Nodes()).barred() is None
