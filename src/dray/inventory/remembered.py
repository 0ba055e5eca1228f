"""What a kind was showing before the agent was stopped or killed, so that it stays together and stays in the list.

A USB set that lost a member must not be made anew from what is left of it while a container holds it; a PCI function
that was taken from vfio-pci stays listed as unhealthy. Both need the devices of the look before, over a restart too.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from dray.drivers.contract import Device, Health
from dray.errors import ConflictError, Error
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.logs import get_log

_log = get_log("inventory")


class _Remembered(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    kind: str
    resource: str
    label: str = ""
    numa_node: int | None = None
    iommu_group: int | None = None
    pcie_root: str | None = None
    attributes: dict[str, str | int | bool] = {}
    paths: tuple[str, ...] = ()
    watch: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    name: str = ""
    hardware: tuple[str, ...] = ()
    shares: int | None = None


class _Content(msgspec.Struct, frozen=True):
    devices: tuple[_Remembered, ...] = ()
    former: tuple[_Remembered, ...] = ()


_FIELDS = tuple(field.name for field in msgspec.structs.fields(_Remembered))


class RememberedDevices:
    """The file. Entered = loaded, and no other process writes it; `devices` is what it held then.

    A file that cannot be used is set aside and told; it is as if there were none. Errors on entering: ConflictError
    (another agent runs with this directory; with `takes_over` we replace that one, and write when it has ended),
    DeniedError.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None, takes_over: bool = False) -> None:
        self._checkpoint = Checkpoint(path, Format(_Content), clock=clock)
        self._takes_over = takes_over
        self._saved = _Content()
        self._is_told = False

    def __enter__(self) -> RememberedDevices:
        loaded = self._checkpoint.follow() if self._takes_over else self._checkpoint.open()
        if loaded.set_aside:
            _log.warning("remembered devices are lost", error=str(loaded.set_aside))
        self._saved = loaded.data or _Content()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._checkpoint.__exit__(*exc_info)

    @property
    def devices(self) -> tuple[Device, ...]:
        """What was saved last. Nobody has looked at them since, so none is healthy."""
        return tuple(map(_device, self._saved.devices))

    @property
    def former(self) -> tuple[Device, ...]:
        """What containers may hold under names that the devices do not have any more (`former.py`)."""
        return tuple(map(_device, self._saved.former))

    def save(self, devices: Iterable[Device], former: Iterable[Device] = ()) -> None:
        """Keep these; called after every look, and writes only what is new. A full disk is told once, and tried again."""
        content = _Content(
            tuple(_remembered(device) for device in devices if device.is_exclusive),
            tuple(map(_remembered, former)),
        )
        if content == self._saved:
            return
        try:
            self._checkpoint.save(content)
        except ConflictError:
            if not self._takes_over:
                raise
            return  # after the next look the process before us has ended
        except Error as error:
            if not self._is_told:
                _log.warning("devices are not remembered over a restart", error=str(error))
            self._is_told = True
            return
        self._saved, self._is_told = content, False


def _device(one: _Remembered) -> Device:
    return Device(health=Health.UNHEALTHY, reason="not looked at yet", **msgspec.structs.asdict(one))


def _remembered(device: Device) -> _Remembered:
    facts = {name: getattr(device, name) for name in _FIELDS}
    return _Remembered(**{**facts, "attributes": dict(device.attributes)})
