from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.errors import InvalidError
from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import Placement, XidEvent
from dray.hardware.nvml.protocol import XID
from dray.hardware.nvml.reading import read_gpus
from dray.hardware.nvml.recorded import Recorded
from dray.testing.nvml.machine import recording


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("no json", "[]", json.dumps({"format": 2})):
        path.write_text(text)
        with pytest.raises(InvalidError, match="recording"):
            Recorded.load(path)
    with pytest.raises(InvalidError):
        Recorded.load(tmp_path / "gone.json")


def test_two_machines_of_one_recording_are_apart() -> None:
    one, other = recording("h200"), recording("h200")
    one.set_mig(one.cards[0].uuid, on=True)
    with other.open() as nvml:
        assert nvml.mig_mode(nvml.handle(0)) == (0, 0)


def test_a_lost_card_answers_nothing_until_it_is_reset() -> None:
    cards = recording("h200")
    uuid = cards.cards[0].uuid
    with cards.open() as nvml:
        handle = nvml.handle(0)
        cards.lose(uuid)
        for call in (
            lambda: nvml.handle(0),
            lambda: nvml.handle_of(uuid),
            lambda: nvml.name(handle),
            lambda: nvml.mig_mode(handle),
            lambda: nvml.recovery_action(handle),
        ):
            with pytest.raises(NvmlError) as caught:
                call()
            assert caught.value.code is Code.GPU_IS_LOST
        cards.reset(uuid)
        assert nvml.name(nvml.handle(0)) == "NVIDIA H200"


def test_a_card_that_leaves_the_driver_is_gone() -> None:
    cards = recording("eight-h100")
    card = cards.take_away(cards.cards[2].uuid)
    with cards.open() as nvml:
        assert nvml.count() == 7
        with pytest.raises(NvmlError) as caught:
            nvml.handle_of(card.uuid)
        assert caught.value.code is Code.NOT_FOUND
        cards.give_back(card)
        assert len(read_gpus(nvml).items) == 8


def test_instances_are_made_by_the_rules_of_nvml() -> None:
    cards = recording("h200")
    changes: list[int] = []
    cards.changed = lambda: changes.append(len(cards.cards[0].instances))
    with cards.open() as nvml:
        handle = nvml.handle(0)

        def refused(profile: int, placement: Placement) -> Code:
            with pytest.raises(NvmlError) as caught:
                nvml.create_gpu_instance(handle, profile, placement)
            return caught.value.code

        assert refused(19, Placement(0, 1)) is Code.NOT_SUPPORTED  # MIG is off
        nvml.set_mig_mode(handle, on=True)
        assert refused(19, Placement(7, 1)) is Code.INVALID_ARGUMENT
        assert refused(4711, Placement(0, 1)) is Code.INVALID_ARGUMENT
        first = nvml.create_gpu_instance(handle, 9, Placement(0, 4))
        second = nvml.create_gpu_instance(handle, 9, Placement(4, 4))
        assert first != second
        assert refused(19, Placement(3, 1)) is Code.INSUFFICIENT_RESOURCES
        assert read_gpus(nvml).items[0].mig_devices == ()  # no compute instances yet
        _, uuid = nvml.create_compute_instance(handle, first, 3)
        assert [mig.uuid for mig in read_gpus(nvml).items[0].mig_devices] == [uuid]
        with pytest.raises(NvmlError):
            nvml.set_mig_mode(handle, on=False)
        cards.use(uuid)
        with pytest.raises(NvmlError) as caught:
            nvml.destroy_compute_instance(handle, first, 0)
        assert caught.value.code is Code.IN_USE
        cards.use(uuid, by_somebody=False)
        nvml.destroy_compute_instance(handle, first, 0)
        with pytest.raises(NvmlError) as caught:
            nvml.destroy_compute_instance(handle, first, 0)
        assert caught.value.code is Code.NOT_FOUND
        nvml.destroy_gpu_instance(handle, first)
        nvml.destroy_gpu_instance(handle, second)
        nvml.set_mig_mode(handle, on=False)
    assert changes[-1] == 0


def test_compute_slices_run_out_before_memory_does() -> None:
    """Of seven compute slices two instances of three leave one, though four memory slices are taken by each."""
    cards = recording("h200")
    with cards.open() as nvml:
        handle = nvml.handle(0)
        nvml.set_mig_mode(handle, on=True)
        nvml.create_gpu_instance(handle, 5, Placement(0, 4))
        nvml.create_gpu_instance(handle, 9, Placement(4, 4))
        assert sum(one.slices for one in cards.cards[0].instances) == 7


def test_events_reach_those_who_listen() -> None:
    cards = recording("eight-h100")
    first, second = cards.cards[0].uuid, cards.cards[1].uuid
    with cards.open() as nvml:
        events = nvml.events()
        events.add(nvml.handle_of(first), XID)
        cards.report(XidEvent(second, 48))
        cards.report(XidEvent(first, 79))
        assert events.next(0.0) == XidEvent(first, 79)
        assert events.next(0.01) is None
    assert cards.queues == []
