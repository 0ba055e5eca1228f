from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from dray.hardware.nvml.codes import Code
from dray.hardware.nvml.facts import MigMode, MigProfile, NvmlSystem, Placement
from dray.hardware.nvml.reading import read_gpus
from dray.hardware.nvml.recorded import Recorded
from dray.testing.nvml.machine import recording


def test_the_h200_is_what_nvidia_smi_says() -> None:
    """Both were recorded in the same moment, on a real machine."""
    cards = recording("h200")
    assert cards.recording["about"] == "recorded on a real machine"
    log = ElementTree.fromstring(cards.recording["host"]["nvidiaSmi"])
    with cards.open() as nvml:
        found = read_gpus(nvml)
    (gpu,) = found.items
    (said,) = log.findall("gpu")

    def text(path: str) -> str:
        return said.findtext(path) or ""

    assert found.system == NvmlSystem(
        log.findtext("driver_version") or "", log.findtext("cuda_version") or ""
    )
    assert gpu.uuid == text("uuid")
    assert gpu.name == text("product_name")
    assert gpu.brand.upper() == text("product_brand")
    assert gpu.architecture == text("product_architecture")
    assert str(gpu.minor) == text("minor_number")
    assert f"0000{gpu.bus_id}".upper() == said.get("id", "").upper()
    assert gpu.addressing_mode == text("addressing_mode")
    assert gpu.memory is not None
    assert f"{gpu.memory >> 20} MiB" == text("fb_memory_usage/total")
    assert gpu.mig == MigMode(current=False, pending=False)
    assert text("mig_mode/current_mig") == "Disabled"
    assert text("gpu_recovery_action") == "None"
    assert gpu.is_guest is False


def test_the_h200_can_be_divided_as_its_driver_says() -> None:
    with recording("h200").open() as nvml:
        (gpu,) = read_gpus(nvml).items
    assert {profile.name: (profile.id, len(profile.placements)) for profile in gpu.profiles} == {
        "1g.18gb": (19, 7),
        "1g.18gb+me": (20, 7),
        "1g.35gb": (15, 4),
        "2g.35gb": (14, 3),
        "3g.71gb": (9, 2),
        "4g.71gb": (5, 1),
        "7g.141gb": (0, 1),
    }
    assert gpu.memory_slices == 8
    biggest = gpu.profile(0)
    assert biggest is not None
    assert (biggest.multiprocessors, biggest.copy_engines, biggest.decoders, biggest.memory) == (
        132,
        8,
        7,
        143360 << 20,
    )


def test_mig_devices_are_told_with_their_place() -> None:
    with recording("a100-mig").open() as nvml:
        divided, whole = read_gpus(nvml).items
    assert [
        (mig.profile, mig.placement, mig.gpu_instance, mig.compute_instance, mig.fills, mig.index)
        for mig in divided.mig_devices
    ] == [
        ("1g.5gb", Placement(0, 1), 7, 0, True, 0),
        ("2g.10gb", Placement(2, 2), 3, 0, True, 1),
        ("3g.20gb", Placement(4, 4), 2, 0, True, 2),
    ]
    assert divided.is_divided
    assert not whole.is_divided
    assert whole.mig_devices == ()
    assert divided.addressing_mode is None


def test_cards_come_by_bus_id_whatever_their_numbers() -> None:
    cards = recording("eight-h100")
    cards.cards.reverse()
    with cards.open() as nvml:
        found = read_gpus(nvml)
    assert [gpu.bus_id for gpu in found.items] == [
        f"0000:{bus}:00.0" for bus in ("1b", "2c", "3d", "4e", "9b", "ac", "bd", "ce")
    ]


def test_profiles_are_asked_for_once() -> None:
    cards = recording("h200")
    remembered: dict[str, tuple[MigProfile, ...]] = {}
    with cards.open() as nvml:
        first = read_gpus(nvml, remembered)
        del cards.cards[0].answers["profiles"]
        assert read_gpus(nvml, remembered) == first
        assert read_gpus(nvml).items[0].profiles == ()


def _with(cards: Recorded, **answers: object) -> Recorded:
    cards.cards[0].answers.update(answers)
    return cards


def test_a_card_without_mig_or_memory_of_its_own_is_plain() -> None:
    refused = {"error": int(Code.NOT_SUPPORTED)}
    cards = _with(recording("h200"), migMode=refused, memory=refused, virtualizationMode=2, brand=99)
    with cards.open() as nvml:
        (gpu,) = read_gpus(nvml).items
    assert (gpu.mig, gpu.profiles, gpu.memory, gpu.is_guest) == (None, (), None, True)
    assert gpu.brand == "Unknown"


def test_one_card_that_does_not_answer_hides_no_other() -> None:
    cards = _with(recording("eight-h100"), name={"error": int(Code.NO_PERMISSION)})
    with cards.open() as nvml:
        found = read_gpus(nvml)
    assert (len(found.items), found.lost) == (7, 0)
    assert found.problems[0].message.endswith("run it as root")


def test_a_bus_id_that_is_none_is_a_problem() -> None:
    cards = _with(recording("h200"), pci={"busId": "nonsense"})
    with cards.open() as nvml:
        found = read_gpus(nvml)
    assert found.items == ()
    assert "'nonsense'" in found.problems[0].message


def test_a_gpu_instance_alone_is_no_mig_device() -> None:
    cards = recording("a100-mig")
    cards.cards[0].instances[0].uuid = ""  # its compute instance is gone
    with cards.open() as nvml:
        assert len(read_gpus(nvml).items[0].mig_devices) == 2
