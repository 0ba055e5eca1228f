from __future__ import annotations

import msgspec

from dray.dra.claims.stored_device import StoredDevice, restore, store
from dray.drivers.contract import Device
from tests.dra.test_state import DEVICE


def test_a_device_comes_back_as_it_was() -> None:
    restored = restore(store(DEVICE))
    assert restored.parts == DEVICE.parts
    facts = {name: getattr(restored, name) for name in Device.__dataclass_fields__}
    before = {name: getattr(DEVICE, name) for name in Device.__dataclass_fields__}
    assert {name for name, value in facts.items() if value != before[name]} == {"health", "reason"}


def test_what_a_file_leaves_out_is_as_it_always_was() -> None:
    """Files omit what has its default: another default would change what they say."""
    plain = restore(msgspec.json.decode(b'{"id":"a","kind":"k"}', type=StoredDevice))
    assert (plain.open_first, plain.permissions, plain.shares) == (False, "mrw", None)
