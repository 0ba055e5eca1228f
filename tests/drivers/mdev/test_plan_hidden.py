"""Plans around devices that are there and cannot be read."""

from __future__ import annotations

from dray.drivers.mdev.plan import Why
from dray.hardware.change import CreateMdev
from tests.drivers.mdev.simulated_cards import FOREIGN, NVIDIA, identical, wish


def test_d_what_others_made_closes_its_card_even_when_it_cannot_be_read() -> None:
    node = identical(2)
    node.cards.add(CreateMdev("0000:00:00.0", "nvidia-222", FOREIGN))
    node.cards.hidden.add(FOREIGN)
    plan = node.settle(wish("nvidia-222"))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-222": 1}, "0000:01:00.0": {"nvidia-222": 16}}
    assert [(kept.mdev.parent, kept.why) for kept in plan.kept if kept.mdev.uuid == FOREIGN] == [
        ("0000:00:00.0", Why.HIDDEN)
    ]
    assert f"{FOREIGN} (it cannot be read in full)" in plan.problems[0].message


def test_d_one_on_a_card_that_nobody_knows_closes_all_cards_and_ours_may_still_go() -> None:
    node = identical(2)
    node.settle(wish("nvidia-222"))
    node.cards.drop(min(node.cards.mdevs))
    node.cards.cards["0000:05:00.0"] = NVIDIA
    node.cards.add(CreateMdev("0000:05:00.0", "nvidia-222", FOREIGN))
    node.cards.hidden.add(FOREIGN)
    node.cards.unlinked.add(FOREIGN)
    plan = node.plan(wish("nvidia-222", "nvidia-299"))
    assert plan.is_done and len(plan.problems) == 2 and plan.unplaced == ("nvidia-299",)
    assert node.settle(wish()).is_done and list(node.cards.mdevs) == [FOREIGN]


def test_ours_that_cannot_be_read_closes_only_its_card() -> None:
    """What we remember of it says the card, even where its link does not."""
    node = identical(2)
    node.settle(wish("nvidia-222"))
    hidden = min(uuid for uuid, one in node.cards.mdevs.items() if one.parent == "0000:00:00.0")
    node.cards.hidden.add(hidden)
    node.cards.unlinked.add(hidden)
    node.settle(wish("nvidia-299"))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-222": 1}, "0000:01:00.0": {"nvidia-299": 2}}


def test_d_a_hidden_uuid_of_ours_that_shows_up_on_another_card_is_somebody_elses() -> None:
    node = identical(2)
    node.owned.add(CreateMdev("0000:01:00.0", "nvidia-222", FOREIGN))
    node.cards.add(CreateMdev("0000:00:00.0", "nvidia-222", FOREIGN))
    node.cards.hidden.add(FOREIGN)
    node.settle(wish("nvidia-299"))
    assert node.cards.count() == {"0000:00:00.0": {"nvidia-222": 1}, "0000:01:00.0": {"nvidia-299": 2}}
