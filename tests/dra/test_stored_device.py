from __future__ import annotations

from dray.dra.claims.stored_device import restore, store
from dray.drivers.contract import Device
from tests.dra.test_state import DEVICE


def test_a_device_comes_back_as_it_was() -> None:
    restored = restore(store(DEVICE))
    assert restored.parts == DEVICE.parts
    facts = {name: getattr(restored, name) for name in Device.__dataclass_fields__}
    before = {name: getattr(DEVICE, name) for name in Device.__dataclass_fields__}
    assert {name for name, value in facts.items() if value != before[name]} == {"health", "reason"}
