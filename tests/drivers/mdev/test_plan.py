from __future__ import annotations

from dataclasses import replace

import pytest

from dray.drivers.failures import Failures
from dray.drivers.mdev.plan import MOST_PER_CARD, MdevPlan, Why, plan_mdevs, uuids
from dray.drivers.mdev.situation import View
from dray.hardware.change import CreateMdev, RemoveMdev
from dray.hardware.mdev import MdevParent, MdevType
from tests.drivers.mdev.simulated_cards import FOREIGN, INTEL, NAMES, NVIDIA, Cards, Node, identical, wish

# The scenarios that KubeVirt's own tests name.


def test_types_spread_over_identical_cards() -> None:
    node = identical(3)
    node.cards.cards["0000:1f:00.0"] = INTEL
    plan = node.settle(wish("nvidia-223", "nvidia-222", "nvidia-299", "i915-GVTg_V5_8"))
    assert node.cards.count() == {
        "0000:00:00.0": {"nvidia-223": 8},
        "0000:01:00.0": {"nvidia-222": 16},
        "0000:02:00.0": {"nvidia-299": 2},
        "0000:1f:00.0": {"i915-GVTg_V5_8": 4},
    }
    assert not plan.problems and not plan.unplaced and len(plan.kept) == 30
    assert {kept.why for kept in plan.kept} == {Why.DESIRED}


def test_one_type_on_many_cards() -> None:
    node = identical(3)
    node.settle(wish("nvidia-222"))
    assert list(node.cards.count().values()) == [{"nvidia-222": 16}] * 3


def test_many_types_on_one_card() -> None:
    node = identical(1)
    plan = node.settle(wish("nvidia-299", *NVIDIA))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-299": 2}}
    assert plan.unplaced == ("nvidia-222", "nvidia-223", "nvidia-224") and not plan.problems


def test_two_types_on_five_cards_take_turns() -> None:
    node = identical(5)
    node.settle(wish("nvidia-224", "nvidia-299"))
    assert [list(made) for made in node.cards.count().values()] == [
        ["nvidia-224"],
        ["nvidia-299"],
        ["nvidia-224"],
        ["nvidia-299"],
        ["nvidia-224"],
    ]


def test_types_that_no_card_offers() -> None:
    plan = identical(2).plan(wish("nvidia-1", "nvidia-2"))
    assert plan == MdevPlan(unplaced=("nvidia-1", "nvidia-2"))


def test_no_cards_at_all() -> None:
    assert Node(Cards({})).plan(wish("nvidia-222")) == MdevPlan(unplaced=("nvidia-222",))


def test_hardware_that_appears_late_gets_what_is_missing() -> None:
    node = Node(Cards({}, NAMES))
    node.settle(wish("nvidia-222", "nvidia-223"))
    node.cards.cards["b"] = NVIDIA
    node.settle(wish("nvidia-222", "nvidia-223"))
    assert node.cards.count() == {"b": {"nvidia-222": 16}}
    node.cards.cards["a"] = NVIDIA
    plan = node.settle(wish("nvidia-222", "nvidia-223"))
    assert node.cards.count() == {"b": {"nvidia-222": 16}, "a": {"nvidia-223": 8}} and not plan.unplaced


@pytest.mark.parametrize("cards", [1, 3])
@pytest.mark.parametrize("desired", [("nvidia-222",), ("nvidia-222", "nvidia-299")])
def test_all_is_removed_when_nothing_is_desired_any_more(cards: int, desired: tuple[str, ...]) -> None:
    node = identical(cards)
    node.settle(wish(*desired))
    plan = node.settle(wish())
    assert not node.cards.mdevs and plan == MdevPlan()


def test_another_label_on_the_node_switches_the_type() -> None:
    node = identical(2)
    node.settle(wish("nvidia-222"))
    first = node.plan(wish("nvidia-223"))
    assert len(first.remove) == 32 and not first.create  # the cards cannot say yet how many they will make
    node.settle(wish("nvidia-223"))
    assert list(node.cards.count().values()) == [{"nvidia-223": 8}] * 2


@pytest.mark.parametrize("name", ["nvidia-222", "GRID_T4-1B", "GRID T4-1B"])
def test_a_type_is_named_by_id_or_name_with_or_without_spaces(name: str) -> None:
    """Upstream's desired names never match when they hold a space."""
    node = identical(1)
    node.settle(wish(name))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-222": 16}}
    assert not node.settle(wish("GRID T4-1B", "nvidia-222")).unplaced


# Defects of upstream, each its own test.


def test_a_nothing_survives_from_an_earlier_plan() -> None:
    """(a) upstream's list of available types outlives a run, and undesired types are made later."""
    node = identical(1)
    node.plan(wish("nvidia-299"))
    node.settle(wish("nvidia-222"))
    node.cards.cards["0000:01:00.0"] = NVIDIA
    node.settle(wish("nvidia-222"))
    assert list(node.cards.count().values()) == [{"nvidia-222": 16}] * 2


def test_b_a_failed_creation_is_not_tried_again_at_once() -> None:
    """(b) upstream tries the first of two cards for ever, at full speed."""
    node = identical(2)
    first = node.plan(wish("nvidia-299"))
    assert [change.parent for change in first.create] == ["0000:00:00.0"] * 2 + ["0000:01:00.0"] * 2
    node.failures = node.failures.after(first.create[0], "the card is ill", now=0.0)
    plan = node.settle(wish("nvidia-299"))
    assert node.cards.count() == {"0000:01:00.0": {"nvidia-299": 2}}
    assert plan.next_try == 2.0 and len(plan.problems) == 1 and not plan.unplaced
    assert plan.problems[0].path == "/sys/class/mdev_bus/0000:00:00.0"
    assert plan.problems[0].message == "nvidia-299 was not made the first time: the card is ill"
    node.now = 2.0
    plan = node.settle(wish("nvidia-299"))
    assert len(node.cards.mdevs) == 4 and plan.next_try is None and not plan.problems


def test_b_another_type_may_take_the_card_that_failed() -> None:
    node = identical(2)
    bad = CreateMdev("0000:00:00.0", "nvidia-222", FOREIGN)
    node.failures = node.failures.after(bad, "no", 0.0).after(bad, "no", 0.0)
    plan = node.settle(wish("nvidia-222", "nvidia-299"))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-299": 2}, "0000:01:00.0": {"nvidia-222": 16}}
    assert not plan.problems and plan.next_try is None  # nothing waits for the retry any more


def test_c_a_card_filled_half_way_is_filled_up() -> None:
    """(c) upstream calls such a card configured, for ever."""
    node = identical(1)
    plan = node.plan(wish("nvidia-223"))
    node.owned |= set(plan.create)  # intents, all on the disk
    for change in plan.create[:3]:
        node.cards.apply(change)
    repair = node.plan(wish("nvidia-223"))
    assert repair.create == plan.create[3:] and not repair.remove
    node.failures = node.failures.after(plan.create[3], "no", 0.0)
    waiting = node.plan(wish("nvidia-223"))
    assert waiting.is_done and waiting.next_try == 2.0 and "no" in waiting.problems[0].message


def test_c_one_that_somebody_removed_comes_back_under_its_uuid() -> None:
    node = identical(1)
    node.settle(wish("nvidia-299"))
    before = dict(node.cards.mdevs)
    node.cards.drop(min(before))
    node.settle(wish("nvidia-299"))
    assert node.cards.mdevs == before


def test_d_what_others_made_is_never_removed() -> None:
    """(d) upstream removes all when its list is empty (issues 9037, 19099)."""
    node = identical(2)
    node.cards.add(CreateMdev("0000:00:00.0", "nvidia-299", FOREIGN))
    for wishes in (wish(), wish("nvidia-222"), wish()):
        plan = node.settle(wishes)
        assert [kept.why for kept in plan.kept if kept.mdev.uuid == FOREIGN] == [Why.FOREIGN]
        assert "0000:00:00.0" in node.cards.count() and node.cards.mdevs.keys() >= {FOREIGN}


def test_d_a_card_that_somebody_else_uses_is_left_to_them() -> None:
    cards = Cards({"card": {"big": 2, "small": 8}}, shared=True)
    cards.add(CreateMdev("card", "small", FOREIGN))
    plan = Node(cards).plan(wish("small", "big"))
    assert plan.is_done and plan.unplaced == ("big",)  # small is there, whoever made it
    assert f"because of {FOREIGN} (somebody else made it)" in plan.problems[0].message


@pytest.mark.parametrize("changed", ["parent", "type_id"])
def test_d_a_uuid_of_ours_on_another_card_or_type_is_not_ours(changed: str) -> None:
    node = identical(2)
    mine = CreateMdev("0000:00:00.0", "nvidia-299", FOREIGN)
    node.owned.add(mine)
    other = {"parent": "0000:01:00.0", "type_id": "nvidia-222"}
    fields = {"parent": mine.parent, "type_id": mine.type_id, "uuid": FOREIGN, changed: other[changed]}
    node.cards.add(CreateMdev(**fields))
    assert node.plan(wish()).is_done


def test_e_a_type_that_comes_back_has_the_uuids_it_had() -> None:
    """(e), and issue 8425: remove a type, add it again, and upstream makes nothing."""
    node = identical(2)
    node.settle(wish("nvidia-223"))
    before = dict(node.cards.mdevs)
    node.settle(wish("nvidia-222"))
    assert not before.keys() & node.cards.mdevs.keys()
    node.settle(wish())
    node.settle(wish("nvidia-223"))
    assert node.cards.mdevs == before


def test_a_card_with_none_left_does_not_use_up_the_turn() -> None:
    """Upstream counts a card that makes 0 instances as done."""
    full = MdevParent("a", (MdevType("t", "t", 0),))
    free = MdevParent("b", (MdevType("t", "t", 4), MdevType("u", "u", 4)))
    plan = plan_mdevs(View((full, free), ()), wish("t", "u"), set(), Failures(), 0)
    assert [(change.parent, change.type_id) for change in plan.create] == [("b", "t")] * 4
    assert plan.unplaced == ("u",)


# What stays, and why.


@pytest.mark.parametrize("external", ["nvidia-222", "GRID_T4-1B", "GRID T4-1B"])
def test_external_types_stay_even_those_we_made(external: str) -> None:
    node = identical(2)
    node.settle(wish("nvidia-222"))
    plan = node.settle(wish("nvidia-299", external=[external]))
    assert list(node.cards.count().values()) == [{"nvidia-222": 16}] * 2
    assert {kept.why for kept in plan.kept} == {Why.EXTERNAL} and plan.unplaced == ("nvidia-299",)
    node.settle(wish("nvidia-299"))
    assert list(node.cards.count().values()) == [{"nvidia-299": 2}] * 2


def test_a_held_instance_stays_and_its_card_waits() -> None:
    node = identical(2)
    node.settle(wish("nvidia-299"))
    held = min(uuid for uuid, one in node.cards.mdevs.items() if one.parent == "0000:00:00.0")
    node.cards.held.add(held)
    plan = node.settle(wish("nvidia-222"))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-299": 1}, "0000:01:00.0": {"nvidia-222": 16}}
    assert [(problem.path, "in use" in problem.message) for problem in plan.problems] == [
        (f"/sys/bus/mdev/devices/{held}", True)
    ]
    assert [kept.why for kept in plan.kept if kept.mdev.uuid == held] == [Why.HELD]
    node.cards.held.clear()
    node.settle(wish("nvidia-222"))
    assert list(node.cards.count().values()) == [{"nvidia-222": 16}] * 2


def test_a_removal_that_failed_is_tried_again_later() -> None:
    node = identical(1)
    node.settle(wish("nvidia-299"))
    stuck = min(node.cards.mdevs)
    node.failures = node.failures.after(RemoveMdev(stuck), "in use by process 77", 0.0)
    plan = node.settle(wish("nvidia-222"))
    assert list(node.cards.mdevs) == [stuck] and plan.next_try == 2.0
    assert plan.problems[0].message.endswith("and was not removed the first time: in use by process 77")
    node.now = 2.0
    node.settle(wish("nvidia-222"))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-222": 16}}


def test_ours_that_cannot_be_read_stays_and_its_uuid_is_not_used() -> None:
    node = identical(1)
    node.settle(wish("nvidia-299"))
    hidden = min(node.cards.mdevs)
    node.cards.hidden.add(hidden)
    for wishes in (wish("nvidia-299"), wish("nvidia-222"), wish()):
        plan = node.settle(wishes)
        assert [kept.why for kept in plan.kept if kept.mdev.uuid == hidden] == [Why.HIDDEN]
        assert hidden in node.cards.mdevs
    node.cards.hidden.clear()
    node.settle(wish())
    assert not node.cards.mdevs


def test_ours_stays_while_its_types_name_cannot_be_read() -> None:
    """The configuration names types by name: one bad read must not cost all devices of the type."""
    node = identical(1)
    node.settle(wish("GRID T4-1B"))
    whole = node.cards.view()
    view = replace(
        whole,
        mdevs=tuple(replace(mdev, type_name=mdev.type_id) for mdev in whole.mdevs),
        unclear=whole.present,
    )
    plan = plan_mdevs(view, wish("GRID T4-1B"), node.owned, Failures(), 0)
    assert plan.is_done and {kept.why for kept in plan.kept} == {Why.HIDDEN}


def test_nothing_is_done_without_a_look() -> None:
    node = identical(1)
    node.settle(wish("nvidia-299"))
    view = replace(node.cards.view(), mdevs=(), blind="permission denied")
    plan = plan_mdevs(view, wish("nvidia-222"), node.owned, Failures(), 0)
    assert plan.is_done and plan.problems[0].message == "no mediated device is changed: permission denied"


def test_instances_of_a_card_that_shows_no_types_can_go() -> None:
    node = identical(1)
    node.settle(wish("nvidia-299"))
    view = replace(node.cards.view(), parents=())
    assert len(plan_mdevs(view, wish(), node.owned, Failures(), 0).remove) == 2
    assert plan_mdevs(view, wish("nvidia-299"), node.owned, Failures(), 0).is_done


def test_a_card_with_two_types_of_ours_is_left_as_it_is() -> None:
    """A device that appeared long after its creation was given up."""
    node = Node(Cards({"card": {"big": 4, "small": 8}}, shared=True))
    for change in (
        CreateMdev("card", "big", FOREIGN),
        CreateMdev("card", "small", FOREIGN.replace("1", "2")),
    ):
        node.cards.add(change)
        node.owned.add(change)
    plan = node.plan(wish("big", "small"))
    assert plan.is_done and "no desired type is made here" in plan.problems[0].message


# Which card takes what.


def test_the_card_without_a_choice_comes_first() -> None:
    """The first card alone could make b: it must not be spent on a."""
    node = Node(Cards({"card1": {"a": 1, "b": 1}, "card2": {"a": 1}}))
    assert not node.settle(wish("a", "b")).unplaced
    assert node.cards.count() == {"card1": {"b": 1}, "card2": {"a": 1}}


def test_a_card_that_is_being_cleared_keeps_its_share() -> None:
    node = Node(Cards({"card1": {"a": 1, "b": 1, "old": 1}}))
    node.settle(wish("old"))
    node.cards.cards["card2"] = {"a": 1, "b": 1}
    plan = node.plan(wish("a", "b"))
    assert len(plan.remove) == 1 and [(change.parent, change.type_id) for change in plan.create] == [
        ("card2", "b")
    ]
    node.settle(wish("a", "b"))
    assert node.cards.count() == {"card1": {"a": 1}, "card2": {"b": 1}}


def test_the_order_of_the_look_does_not_matter() -> None:
    node = identical(4)
    node.cards.add(CreateMdev("0000:02:00.0", "nvidia-299", FOREIGN))
    view = node.cards.view()
    turned = replace(view, parents=view.parents[::-1], mdevs=view.mdevs[::-1])
    wishes = wish("nvidia-222", "nvidia-299")
    assert plan_mdevs(turned, wishes, set(), Failures(), 0) == node.plan(wishes)


def test_uuids_differ_by_machine_card_type_and_number_and_leave_out_those_taken() -> None:
    def first(seed: str, card: str, mdev_type: str) -> str:
        return next(uuids(seed, card, mdev_type, frozenset()))

    assert len({first(s, c, t) for s in ("", "m") for c in ("a", "b") for t in ("x", "y")}) == 8
    assert first("a", "b", "c") != first("ab", "", "c")
    two = [uuid for uuid, _ in zip(uuids("m", "a", "x", frozenset()), range(2), strict=False)]
    assert next(uuids("m", "a", "x", {two[0]})) == two[1]
    assert first("m", "a", "x") == "f00c1d5c-3b28-5af2-943c-e708e7c5bb2f"


def test_a_count_that_nobody_believes() -> None:
    parent = MdevParent("card", (MdevType("t", "t", 10**12),))
    plan = plan_mdevs(View((parent,), ()), wish("t"), set(), Failures(), 0)
    assert len(plan.create) == len({change.uuid for change in plan.create}) == MOST_PER_CARD
    made = plan.create[0]
    some = Cards({"card": {"t": 2}}, mdevs={made.uuid: made}).view().mdevs
    assert plan_mdevs(View((parent,), some), wish("t"), {made}, Failures(), 0).create == plan.create[1:]
    assert (
        plan.problems[0].message
        == f"{10**12} instances of t are offered, which nobody believes: 1024 are made"
    )


def test_a_name_that_could_lead_elsewhere_is_a_problem_of_its_card_only() -> None:
    parents = (MdevParent("a b", (MdevType("t", "t", 1),)), MdevParent("card", (MdevType("t", "t", 1),)))
    plan = plan_mdevs(View(parents, ()), wish("t"), set(), Failures(), 0)
    assert [change.parent for change in plan.create] == ["card"]
    assert "parent 'a b' must be one name" in plan.problems[0].message
