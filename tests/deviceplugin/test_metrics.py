from __future__ import annotations

import pytest

from dray.deviceplugin.metrics import NoMetrics, PluginMetrics
from dray.errors import HardwareError
from dray.runtime.metrics import Metrics
from dray.wire.registration_state import REGISTERED, RegistrationPhase, RegistrationState

NAMES = {
    "dray_deviceplugin_allocations_total",
    "dray_deviceplugin_allocate_seconds",
    "dray_deviceplugin_pre_starts_total",
    "dray_deviceplugin_pre_start_seconds",
    "dray_deviceplugin_registrations_total",
    "dray_deviceplugin_list_updates_total",
    "dray_deviceplugin_registered",
}


def test_names_and_values() -> None:
    metrics = Metrics()
    plugins = PluginMetrics(metrics)
    plugins.follow(lambda: {"b": RegistrationState(RegistrationPhase.REFUSED, "taken"), "a": REGISTERED})
    one = plugins.of("a")
    with one.allocating():
        pass
    with pytest.raises(HardwareError), one.pre_starting():
        raise HardwareError("it is on fire")
    one.registered()
    one.listed()
    text = metrics.render().decode()
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert {name for name in names if not name.endswith("_created")} == NAMES
    for line in (
        'dray_deviceplugin_allocations_total{resource="a",result="success"} 1.0',
        'dray_deviceplugin_allocations_total{resource="a",result="error"} 0.0',
        'dray_deviceplugin_allocate_seconds_count{resource="a"} 1.0',
        'dray_deviceplugin_pre_starts_total{resource="a",result="error"} 1.0',
        'dray_deviceplugin_pre_start_seconds_count{resource="a"} 1.0',
        'dray_deviceplugin_registrations_total{resource="a"} 1.0',
        'dray_deviceplugin_list_updates_total{resource="a"} 1.0',
        'dray_deviceplugin_registered{resource="a"} 1\ndray_deviceplugin_registered{resource="b"} 0',
    ):
        assert line in text


def test_a_plugin_without_metrics_counts_nothing() -> None:
    nobody = NoMetrics()
    with nobody.allocating(), nobody.pre_starting():
        nobody.registered()
        nobody.listed()
