from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from dray.drivers.contract import Device
from dray.errors import ConflictError
from dray.inventory.handouts import UNTOLD
from dray.inventory.ledger import ClaimDevices, Door, Hold, KubeletLook, Ledger
from tests.inventory.conftest import claim, gpu

RESOURCE = "example.com/gpu"


def who(ledger: Ledger) -> dict[str, str]:
    return {f"{hold.door} {hold.device}": hold.holder for hold in ledger.holds}


def listed(at: float, **pods: str) -> KubeletLook:
    """Device `gpu_1` is held by a pod."""
    return KubeletLook(
        at, {(RESOURCE, name.replace("_", "-")): (f"default/{pod}",) for name, pod in pods.items()}
    )


def give(ledger: Ledger, now: float, *devices: Device) -> None:
    ledger.answered(ledger.take_plugin(RESOURCE, devices, 0.0), now)


def given(*devices: Device) -> Ledger:
    ledger = Ledger()
    give(ledger, 0.0, *devices)
    return ledger


def test_a_claim_does_not_get_what_a_pod_has() -> None:
    ledger = given(gpu(1))
    with pytest.raises(ConflictError, match=r"gpu-1 of example\.com/gpu is in use: a new pod"):
        ledger.take_claim(claim("a", gpu(1), gpu(2)), 0.0)
    assert who(ledger) == {"plugin gpu-1": "a new pod"}
    ledger.looked(listed(1.0, gpu_1="one"), [gpu(1)], 0.0)
    with pytest.raises(ConflictError, match=r"pod default/one has it as example\.com/gpu gpu-1"):
        ledger.take_claim(claim("a", gpu(1)), 0.0)
    ledger.take_claim(claim("a", gpu(2)), 0.0)


def test_a_pod_does_not_get_what_a_claim_has() -> None:
    ledger = Ledger()
    ledger.take_claim(claim("a", gpu(1)), 0.0)
    with pytest.raises(
        ConflictError, match=r"gpu-1 of example\.com/gpu is in use: claim default/a has it; it is"
    ):
        ledger.take_plugin(RESOURCE, [gpu(2), gpu(1)], 0.0)
    assert who(ledger) == {"dra gpu-1": "claim default/a"}


def test_a_claim_has_a_device_from_its_allocation_on() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1))], 0.0)
    with pytest.raises(ConflictError, match="claim default/a"):
        ledger.take_plugin(RESOURCE, [gpu(1)], 0.0)
    ledger.allocated([], 0.0)
    ledger.take_plugin(RESOURCE, [gpu(1)], 0.0)


def test_who_was_allocated_what_a_pod_has_waits_for_the_pod() -> None:
    ledger = given(gpu(1))
    ledger.allocated([claim("a", gpu(1))], 0.0)
    with pytest.raises(ConflictError):
        ledger.take_claim(claim("a", gpu(1)), 0.0)
    give(ledger, 1.0, gpu(1))  # the next container of the same pod
    for now in (20.0, 21.0):
        ledger.looked(KubeletLook(now), [gpu(1)], 0.0)
    ledger.take_claim(claim("a", gpu(1)), 0.0)
    assert who(ledger) == {"dra gpu-1": "claim default/a"}


def test_a_prepared_claim_is_not_overridden_by_who_had_it_before() -> None:
    ledger = given(gpu(1))
    ledger.restore(claim("a", gpu(1)), 0.0)  # lost state: both have it
    with pytest.raises(ConflictError, match="claim default/a"):
        give(ledger, 1.0, gpu(1))


def test_more_hardware_than_before_is_asked_for_again() -> None:
    ledger = given(gpu(1, hardware=("usb:1",)))
    ledger.allocated([claim("a", gpu(2, hardware=("usb:2",)))], 0.0)
    ledger.take_plugin(RESOURCE, [gpu(1, hardware=("usb:1",))], 0.0)
    with pytest.raises(ConflictError):
        ledger.take_plugin(RESOURCE, [gpu(1, hardware=("usb:1", "usb:2"))], 0.0)


def test_two_kinds_for_one_piece_of_hardware() -> None:
    ledger = given(gpu(1))
    with pytest.raises(
        ConflictError, match=r"vfio-1 of example\.com/vfio is in use: .* as example\.com/gpu gpu-1"
    ):
        ledger.take_plugin("example.com/vfio", [gpu(1, "vfio")], 0.0)
    ledger = Ledger()
    ledger.take_claim(claim("a", gpu(1)), 0.0)
    with pytest.raises(ConflictError, match="claim default/a has it as gpu gpu-1"):
        ledger.take_claim(claim("b", gpu(1, "vfio")), 0.0)
    ledger.take_claim(claim("a", gpu(1, "vfio")), 0.0)  # one holder


def test_claims_that_are_only_allocated_do_not_wait_for_each_other() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1)), claim("b", gpu(1, "vfio"))], 0.0)
    ledger.take_claim(claim("b", gpu(1, "vfio")), 0.0)
    with pytest.raises(ConflictError, match="claim default/b"):
        ledger.take_claim(claim("a", gpu(1)), 0.0)


def test_partitions_of_one_device_are_not_judged_here() -> None:
    ledger = Ledger()
    ledger.take_claim(claim("a", gpu(1, hardware=("pci:x",))), 0.0)
    ledger.take_claim(claim("b", gpu(2, hardware=("pci:x",))), 0.0)
    assert len(ledger.holds) == 2


def test_what_many_share_is_held_by_nobody() -> None:
    shared = gpu(1, shares=4)
    ledger = given(shared)
    ledger.take_claim(claim("a", shared), 0.0)
    ledger.allocated([claim("b", shared)], 0.0)
    ledger.looked(KubeletLook(0.0, {(RESOURCE, "gpu-11"): ("default/x",)}), [shared], 0.0)
    assert not ledger.holds


def test_what_can_be_given_once_has_one_holder_though_its_id_is_a_shares() -> None:
    single = gpu(1, shares=1)
    ledger = given(single)
    with pytest.raises(ConflictError, match="a new pod"):
        ledger.take_claim(claim("a", single), 0.0)
    ledger.looked(KubeletLook(1.0, {(RESOURCE, single.share_ids[0]): ("default/x",)}), [single], 0.0)
    with pytest.raises(ConflictError, match="pod default/x"):
        ledger.take_claim(claim("a", single), 0.0)


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_what_the_kubelet_does_not_list_any_more_goes_after_two_looks_and_a_while(is_confirmed: bool) -> None:
    ledger = given(gpu(1))
    if is_confirmed:
        ledger.looked(listed(0.5, gpu_1="one"), [gpu(1)], 0.0)
    for now in (1.0, 2.0, 3.0, UNTOLD - 0.1):
        ledger.looked(KubeletLook(now), [gpu(1)], 0.0)
        assert len(ledger.holds) == 1
    ledger.looked(KubeletLook(UNTOLD), [gpu(1)], 0.0)
    assert not ledger.holds


def test_one_look_is_not_enough() -> None:
    ledger = given(gpu(1))
    ledger.looked(KubeletLook(100.0), [gpu(1)], 0.0)
    ledger.looked(listed(101.0, gpu_1="one"), [gpu(1)], 0.0)
    ledger.looked(KubeletLook(102.0), [gpu(1)], 0.0)
    assert who(ledger) == {"plugin gpu-1": "pod default/one"}
    assert [hold.device for hold in ledger.unsettled()] == ["gpu-1"]
    ledger.looked(KubeletLook(103.0), [gpu(1)], 0.0)
    assert not ledger.holds


def test_what_is_given_again_begins_anew() -> None:
    ledger = given(gpu(1))
    ledger.looked(listed(50.0, gpu_1="one"), [gpu(1)], 0.0)
    ledger.looked(KubeletLook(60.0), [gpu(1)], 0.0)
    give(ledger, 61.0, gpu(1))
    for now in (62.0, 63.0):
        ledger.looked(KubeletLook(now), [gpu(1)], 0.0)
    assert who(ledger) == {"plugin gpu-1": "a new pod"}
    ledger.looked(listed(64.0, gpu_1="two"), [gpu(1)], 0.0)
    assert who(ledger) == {"plugin gpu-1": "pod default/two"}
    assert ledger.unsettled() == ()


def test_an_init_container_keeps_its_device_as_long_as_the_kubelet_has_its_pod() -> None:
    ledger = given(gpu(1))
    for now in range(100):
        ledger.looked(KubeletLook(float(now), lingering=frozenset({(RESOURCE, "gpu-1")})), [gpu(1)], 0.0)
    assert len(ledger.holds) == 1
    ledger.looked(KubeletLook(101.0), [gpu(1)], 0.0)
    assert not ledger.holds


def test_the_notes_of_a_pod_that_was_listed_do_not_count() -> None:
    """The kubelet keeps notes of pods that have ended until the next one comes."""
    ledger = given(gpu(1))
    ledger.looked(listed(1.0, gpu_1="one"), [gpu(1)], 0.0)
    for now in (20.0, 21.0):
        ledger.looked(KubeletLook(now, lingering=frozenset({(RESOURCE, "gpu-1")})), [gpu(1)], 0.0)
    assert not ledger.holds


def test_what_the_kubelet_lists_and_nobody_noted_is_added() -> None:
    ledger = Ledger()
    added = ledger.looked(listed(0.0, gpu_1="one", gpu_9="two"), [gpu(1), gpu(2)], 7.0)
    assert [(hold.device, hold.owner, hold.confirmed, hold.since) for hold in added] == [
        ("gpu-1", "default/one", True, 7.0)
    ]
    assert ledger.looked(listed(1.0, gpu_1="one"), [gpu(1)], 8.0) == ()


def test_a_claim_that_is_given_back_is_kept_while_it_is_allocated() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1))], 0.0)
    ledger.take_claim(claim("a", gpu(1)), 1.0)
    ledger.give_back("gpu", "uid-a")
    assert [hold.confirmed for hold in ledger.holds] == [False]
    ledger.take_claim(claim("a", gpu(1)), 2.0)
    assert [(hold.confirmed, hold.since) for hold in ledger.holds] == [(True, 0.0)]
    ledger.allocated([], 0.0)
    assert [hold.confirmed for hold in ledger.holds] == [True]  # its containers run
    ledger.give_back("gpu", "uid-a")
    assert not ledger.holds


def test_before_claims_are_known_a_given_back_one_may_be_allocated() -> None:
    ledger = Ledger()
    ledger.take_claim(claim("a", gpu(1)), 1.0)
    ledger.give_back("gpu", "uid-a")
    assert len(ledger.holds) == 1
    ledger.allocated([], 0.0)
    assert not ledger.holds


def test_each_driver_gives_back_its_own() -> None:
    ledger = Ledger()
    ledger.allocated([], 0.0)
    ledger.take_claim(claim("a", gpu(1)), 0.0)
    ledger.take_claim(claim("a", gpu(2, "nic")), 0.0)
    ledger.give_back("nic", "uid-a")
    ledger.give_back("nic", "uid-unknown")
    assert who(ledger) == {"dra gpu-1": "claim default/a"}


@pytest.mark.parametrize(
    ("later", "kept"),
    [([], []), ([claim("a", gpu(2))], ["gpu-2"]), ([claim("a", complete=False)], ["gpu-1"])],
    ids=["gone", "another device", "a device that is not known now"],
)
def test_an_allocation_that_changed(later: Sequence[ClaimDevices], kept: list[str]) -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1))], 0.0)
    ledger.allocated(later, 0.0)
    assert [hold.device for hold in ledger.holds] == kept


def test_what_a_driver_has_prepared_after_a_restart_counts() -> None:
    ledger = Ledger()
    ledger.take_claim(claim("kept", gpu(2)), 0.0)
    ledger.take_plugin(RESOURCE, [gpu(4)], 0.0)  # the pod ended, and nobody told yet
    ledger = Ledger(ledger.holds, 0.0)
    assert ledger.restore(claim("kept", gpu(2)), 0.0) == ()
    assert [hold.owner for hold in ledger.restore(claim("new", gpu(4)), 0.0)] == ["default/new"]
    ledger.allocated([], 0.0)
    assert sorted(hold.owner for hold in ledger.holds if hold.door is Door.DRA) == [
        "default/kept",
        "default/new",
    ]


def test_taken_back_is_as_before() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1))], 0.0)
    before = {hold.key: hold for hold in ledger.holds}
    noted = [*ledger.take_claim(claim("a", gpu(1), gpu(2)), 0.0)]
    ledger.undo(noted, before)
    assert {hold.key: hold for hold in ledger.holds} == before
    noted = [*ledger.take_plugin(RESOURCE, [gpu(3)], 0.0)]
    ledger.answered(noted, 0.0)
    ledger.looked(listed(1.0, gpu_3="one"), [gpu(3)], 0.0)
    ledger.undo(noted, before)
    assert len(ledger.holds) == 2  # the kubelet lists it: it is somebody's
    assert {hold.door for hold in ledger.holds} == {Door.PLUGIN, Door.DRA}


def test_a_look_from_before_does_not_count() -> None:
    ledger = given(gpu(1))
    give(ledger, 50.0, gpu(1))
    for _ in range(3):
        ledger.looked(listed(49.0, gpu_1="former"), [gpu(1)], 0.0)
    assert who(ledger) == {"plugin gpu-1": "a new pod"}
    for at in (49.0, 49.5, 60.0):
        ledger.looked(KubeletLook(at), [gpu(1)], 0.0)
    assert who(ledger) == {"plugin gpu-1": "a new pod"}


def test_what_is_being_given_stays_however_long_it_takes() -> None:
    ledger = Ledger()
    taken = ledger.take_plugin(RESOURCE, [gpu(1)], 0.0)
    for at in (100.0, 200.0, 300.0):
        ledger.looked(KubeletLook(at), [gpu(1)], 0.0)
    assert len(ledger.holds) == 1
    ledger.answered(taken, 300.0)
    for at in (301.0, 309.0, 310.0):
        assert len(ledger.holds) == 1
        ledger.looked(KubeletLook(at), [gpu(1)], 0.0)
    assert not ledger.holds
    ledger.answered(taken, 310.0)


def test_one_kind_is_one_kind_though_its_name_was_read_from_elsewhere() -> None:
    """Names that come from a file are equal, not identical."""
    ledger = Ledger()
    ledger.take_claim(claim("a", gpu(1, hardware=("pci:x",))), 0.0)
    ledger.take_claim(claim("b", gpu(2, str(b"gpu", "ascii"), hardware=("pci:x",))), 0.0)
    assert len(ledger.holds) == 2


def test_a_claim_has_all_its_devices_here_unless_it_says_otherwise() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1), gpu(2))], 0.0)
    ledger.allocated([ClaimDevices("default", "a", "uid-a", (gpu(2),))], 0.0)
    assert [hold.device for hold in ledger.holds] == ["gpu-2"]


def test_pods_of_the_process_before_are_adopted_and_claims_are_not() -> None:
    before = Ledger()
    before.take_claim(claim("a", gpu(1)), 1.0)
    before.take_plugin(RESOURCE, [gpu(2), gpu(3)], 1.0)
    ledger = Ledger()
    give(ledger, 0.0, gpu(3))
    ledger.looked(listed(1.0, gpu_3="one"), [gpu(3)], 0.0)
    ledger.adopt(before.holds, 5.0)
    assert who(ledger) == {"plugin gpu-2": "a new pod", "plugin gpu-3": "pod default/one"}
    for at in (14.0, 14.9):
        ledger.looked(KubeletLook(at), [gpu(2)], 0.0)
    assert "plugin gpu-2" in who(ledger), "its time begins with the adoption"
    ledger.looked(KubeletLook(15.0), [gpu(2)], 0.0)
    assert "plugin gpu-2" not in who(ledger)


def test_only_plugins_holds_wait_for_the_kubelet() -> None:
    ledger = Ledger()
    ledger.allocated([claim("a", gpu(1))], 0.0)
    ledger.take_plugin(RESOURCE, [gpu(2)], 0.0)
    assert [hold.device for hold in ledger.unsettled()] == ["gpu-2"]
    assert [hold.device for hold in Ledger(ledger.holds, 0.0).unsettled()] == ["gpu-2"], "after a restart too"


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_claim_gives_back_what_is_its_own(name: str) -> None:
    ledger = Ledger()
    ledger.allocated([], 0.0)
    ledger.take_claim(claim("a", gpu(1)), 0.0)
    ledger.take_claim(claim("b", gpu(2)), 0.0)
    ledger.give_back("gpu", f"uid-{name}")
    assert sorted(who(ledger).values()) == [f"claim default/{'b' if name == 'a' else 'a'}"]


def test_what_lingers_in_the_kubelets_notes_is_added_only_where_all_was_lost() -> None:
    look = KubeletLook(1.0, lingering=frozenset({(RESOURCE, "gpu-1")}))
    ledger = Ledger()
    assert ledger.looked(look, [gpu(1)], 0.0) == () and not ledger.holds
    assert [hold.confirmed for hold in ledger.looked(look, [gpu(1)], 0.0, is_lost=True)] == [False]


def test_the_owner_is_the_pod_that_the_kubelet_lists_now() -> None:
    ledger = given(gpu(1))
    ledger.looked(listed(1.0, gpu_1="one"), [gpu(1)], 0.0)
    ledger.looked(listed(2.0, gpu_1="two"), [gpu(1)], 0.0)
    assert who(ledger) == {"plugin gpu-1": "pod default/two"}
    both = KubeletLook(3.0, {(RESOURCE, "gpu-1"): ("default/one", "default/two")})
    ledger.looked(both, [gpu(1)], 0.0)
    assert who(ledger) == {"plugin gpu-1": "pod default/two"}, "it is still one of them"


def test_a_hold_that_says_nothing_of_its_time_is_as_old_as_can_be() -> None:
    plain = msgspec.json.decode(b'{"door":"dra","kind":"gpu","device":"gpu-1","parts":[]}', type=Hold)
    assert (plain.since, plain.confirmed, plain.owner) == (0.0, False, "")
