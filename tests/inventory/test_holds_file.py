from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dray.errors import Error
from dray.inventory.holds_file import Content, HoldsFile
from dray.inventory.ledger import Door, Hold
from dray.runtime.clock import FakeClock
from dray.runtime.threads import Threads

ONE = Hold(Door.PLUGIN, "gpu", "gpu-1", ("pci:1",), "example.com/gpu")
TWO = Hold(Door.PLUGIN, "gpu", "gpu-2", ("pci:2",), "example.com/gpu")


async def test_after_a_failed_write_only_what_both_states_have_is_sure(tmp_path: Path) -> None:
    file = HoldsFile(tmp_path / "holds", FakeClock(), Threads())
    assert file.open().data is None
    await file.write(lambda: Content((ONE, TWO)))
    assert file.has(ONE)
    assert file.is_written(Content((ONE, TWO)))
    (tmp_path / ".holds.tmp").mkdir()
    with pytest.raises(Error):
        await file.write(lambda: Content((TWO,)))
    assert not file.has(ONE)
    assert file.has(TWO)
    assert not file.is_written(Content((ONE, TWO)))
    assert not file.is_written(Content((TWO,)))
    (tmp_path / ".holds.tmp").rmdir()
    await file.write(lambda: Content((TWO,)))
    file.close()
    again = HoldsFile(tmp_path / "holds", FakeClock(), Threads())
    assert again.open().data == Content((TWO,))
    assert again.has(TWO)
    again.close()


async def test_other_hardware_of_the_same_name_is_not_sure(tmp_path: Path) -> None:
    file = HoldsFile(tmp_path / "holds", FakeClock(), Threads())
    file.open()
    await file.write(lambda: Content((ONE,)))
    assert not file.has(Hold(Door.PLUGIN, "gpu", "gpu-1", ("pci:9",), "example.com/gpu"))
    file.close()


def test_what_a_file_leaves_out_is_as_it_always_was() -> None:
    """Files omit what has its default: another default would change what they say."""
    least = b'{"holds":[{"door":"plugin","kind":"pci","device":"5","parts":[]}]}'
    plain = Hold(Door.PLUGIN, "pci", "5", (), "", "", "", 0.0, confirmed=False)
    assert msgspec.json.decode(least, type=Content) == Content((plain,), complete=True)
