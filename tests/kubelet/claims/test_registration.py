"""Drivers that come through the plugin watcher, as real ones do."""

from __future__ import annotations

from pathlib import Path

from dray.kubelet.plugins.watcher import PluginWatcher
from dray.runtime.clock import SystemClock
from dray.wire.registration import DRA_PLUGIN
from tests.kubelet.claims.world import Driver, World, claim_of, direct, pod_of
from tests.waiting import wait_until

POD = pod_of("pod", direct("c"), uses=[("c", "")])


async def test_a_driver_from_its_socket_to_the_container(tmp_path: Path) -> None:
    world = World(tmp_path / "state", active={"pod-uid"})
    world.api.add(claim_of("c"))
    registry = tmp_path / "plugins_registry"
    registry.mkdir()
    driver, refused = Driver("a.io", registry / "a.sock"), Driver("b.io", registry / "b.sock", ["1.0.0"])
    async with world.running() as manager:
        watcher = PluginWatcher(registry, {DRA_PLUGIN: manager.drivers}, SystemClock())
        async with watcher.running(), driver.serving(), refused.serving():
            await wait_until(lambda: manager.drivers.is_usable("a.io") and bool(refused.notified))
            assert [note.plugin_registered for note in driver.notified] == [True]
            assert refused.notified[0].error == (
                "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA "
                f"driver plugin b.io at endpoint {refused.path}: none of services supported by the plugin "
                '(["1.0.0"]) are supported by the kubelet (["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            )
            await manager.prepare(POD)
            assert manager.cdi_devices(POD, POD.spec.containers[0]) == ("a.io/dev=c",)
            await manager.unprepare(POD)
    assert driver.calls == [("prepare", ("c",)), ("unprepare", ("c",))]
