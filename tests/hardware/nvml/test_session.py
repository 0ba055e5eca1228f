"""The real bindings over a library that answers from a recording: what is read and changed is what the recording has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pynvml
import pytest

from dray.errors import UnavailableError
from dray.hardware.host_root import HostRoot
from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import WHOLE, Placement, XidEvent
from dray.hardware.nvml.protocol import EVENTS
from dray.hardware.nvml.reading import read_gpus
from dray.hardware.nvml.session import Session, open_nvml
from dray.testing.nvml.machine import recording
from tests.hardware.nvml.small_library import SmallLibrary, loaded

ROOT = HostRoot(Path("/"))


@contextmanager
def opened(name: str) -> Iterator[tuple[SmallLibrary, Session]]:
    library = SmallLibrary(recording(name))
    with loaded(library), open_nvml(ROOT) as session:
        yield library, session
    assert library.sessions == 0


@pytest.mark.parametrize("name", ["h200", "a100-mig", "eight-h100"])
def test_the_library_is_read_as_the_recording(name: str) -> None:
    with opened(name) as (library, session):
        found = read_gpus(session)
        assert found == read_gpus(library.session)
        assert found.items
        assert found.problems == ()


def test_an_older_library_tells_less() -> None:
    with opened("h200") as (library, session):
        library.missing = {
            "nvmlDeviceGetGpuInstanceProfileInfoV",
            "nvmlDeviceGetAddressingMode",
            "nvmlDeviceGetFieldValues",
        }
        pynvml._nvmlGetFunctionPointer_cache.clear()
        gpu = read_gpus(session).items[0]
        assert gpu.addressing_mode is None
        assert [profile.name for profile in gpu.profiles][:2] == ["1g.18gb", "2g.35gb"]
        assert session.recovery_action(session.handle(0)) is None


def test_a_session_is_closed_once() -> None:
    with opened("h200") as (library, session):
        session.close()
        session.close()
        assert library.sessions == 0


def test_a_driver_that_is_not_loaded_is_told() -> None:
    library = SmallLibrary(recording("h200"))
    library.fails["nvmlInitWithFlags"] = Code.DRIVER_NOT_LOADED
    with (
        loaded(library),
        pytest.raises(UnavailableError, match="kernel module nvidia is not loaded"),
        open_nvml(ROOT),
    ):
        pass


def test_without_a_library_nothing_is_opened(tmp_path: Path) -> None:
    with (
        loaded(None),  # type: ignore[arg-type]  # nothing was loaded yet
        pytest.raises(UnavailableError, match=r"libnvidia-ml\.so\.1 was not found below"),
        open_nvml(HostRoot(tmp_path)),
    ):
        pass


def test_without_the_bindings_their_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UnavailableError, match="nvidia-ml-py is not installed"), open_nvml(ROOT):
        pass


def test_a_lost_card_is_told_and_the_others_are_read() -> None:
    with opened("eight-h100") as (library, session):
        library.cards.lose(library.cards.cards[3].uuid)
        found = read_gpus(session)
        assert (len(found.items), found.lost) == (7, 1)
        assert "GPU 3" in found.problems[0].path
        assert "fell off the bus" in found.problems[0].message


def test_mig_devices_are_made_and_removed() -> None:
    with opened("h200") as (_, session):
        handle = session.handle(0)
        session.set_mig_mode(handle, on=True)
        assert session.mig_mode(handle) == (1, 1)
        number = session.create_gpu_instance(handle, 14, Placement(2, 2))
        compute, uuid = session.create_compute_instance(handle, number, 2)
        assert session.gpu_instances(handle) == ((number, 14, Placement(2, 2)),)
        assert session.compute_instances(handle, number) == (compute,)
        mig = read_gpus(session).items[0].mig_devices[0]
        assert (mig.uuid, mig.profile, mig.placement, mig.fills) == (uuid, "2g.35gb", Placement(2, 2), True)
        with pytest.raises(NvmlError) as caught:
            session.create_gpu_instance(handle, 19, Placement(3, 1))
        assert caught.value.code is Code.INSUFFICIENT_RESOURCES
        session.destroy_compute_instance(handle, number, compute)
        session.destroy_gpu_instance(handle, number)
        assert session.gpu_instances(handle) == ()
        session.set_mig_mode(handle, on=False)


def test_persistence_is_read_and_set() -> None:
    with opened("h200") as (_, session):
        handle = session.handle(0)
        assert session.persistence_mode(handle) is True
        session.set_persistence_mode(handle, on=False)
        assert session.persistence_mode(handle) is False


def test_handles_by_uuid_are_remembered() -> None:
    with opened("eight-h100") as (library, session):
        uuid = library.cards.cards[5].uuid
        handle = session.handle_of(uuid)
        assert session.uuid(handle) == uuid
        library.fails["nvmlDeviceGetHandleByUUID"] = Code.UNKNOWN
        assert session.handle_of(uuid) is handle
        with pytest.raises(NvmlError, match="NVML error 999"):
            session.handle_of("GPU-other")


def test_events_come_in_their_order() -> None:
    with opened("a100-mig") as (library, session):
        uuid = library.cards.cards[0].uuid
        events = session.events()
        events.add(session.handle_of(uuid), EVENTS)
        assert events.next(0.0) is None
        library.cards.report(XidEvent(uuid, 0))  # a single bit error, which is no XID
        library.cards.report(XidEvent(uuid, 79))
        library.cards.report(XidEvent(uuid, 31, 7, 0))
        assert events.next(1.0) == XidEvent(uuid, 79, WHOLE, WHOLE)
        assert events.next(0.0) == XidEvent(uuid, 31, 7, 0)
        events.close()
        events.close()
        assert library.cards.queues == []


def test_a_card_without_events_refuses() -> None:
    with opened("h200") as (library, session):
        library.cards.cards[0].answers["supportedEvents"] = 0
        with pytest.raises(NvmlError) as caught:
            session.events().add(session.handle(0), EVENTS)
        assert caught.value.code is Code.NOT_SUPPORTED
