"""The node that a pod names."""

from __future__ import annotations

import pytest

from dray.scheduler.fit.names import refused
from tests.scheduler.objects import make_node, make_pod


@pytest.mark.parametrize(("asked", "fits"), [("", True), ("a", True), ("b", False)])
def test_only_the_named_node(asked: str, fits: bool) -> None:
    found = refused(make_pod(node=asked), make_node("a"))
    assert (found is None) is fits
    if found is not None:
        assert str(found) == "node(s) didn't match the requested node name" and not found.can_resolve
