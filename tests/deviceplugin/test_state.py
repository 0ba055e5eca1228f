from __future__ import annotations

from dray.deviceplugin.state import WAITING, Phase, PluginState


def test_states_as_people_read_them() -> None:
    assert str(WAITING) == "waiting for kubelet"
    assert str(PluginState(Phase.REFUSED, "taken")) == "refused: taken"
    assert str(PluginState(Phase.FAILED, "no answer", 2.0)) == "failed: no answer, next try in 2 s"
