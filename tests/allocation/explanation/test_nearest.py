from __future__ import annotations

from dray.allocation.explanation.false_part import FalsePart
from dray.allocation.explanation.nearest import Miss, NearestMisses, without_part
from dray.allocation.explanation.refusal import Check, Explainer, holders_of
from tests.allocation.dumps import claims, holding, situation, slices
from tests.allocation.world import Json, claim, device, first, piece, request, wish

TYPE = 'device.attributes["driver-a"].type'
MODEL = 'device.attributes["driver-a"].model'
SIZE = 'device.attributes["driver-a"].size'
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


def made(name: str, model: str, size: int, **fields: object) -> Json:
    return device(name, attributes={"model": {"string": model}, "size": {"int": size}}, **fields)


def misses(wanted: Json, *devices: Json, held: tuple[Json, ...] = (), driver: str = "driver-a") -> list[Miss]:
    one = situation(slices(piece(*devices, driver=driver)), claims(wanted, *held))
    explainer = Explainer(one.allocator, holders_of(one.cluster.claims))
    node, pending = one.cluster.nodes[0], one.cluster.claims[:1]
    refusal = explainer.explain(node, pending)
    finder = NearestMisses(one.allocator, one.selectors, one.features, explainer)
    return list(finder.find(node, pending, refusal))


def test_fewest_false_terms_win_and_values_are_shown() -> None:
    text = f'{MODEL} == "M" && ({SIZE} >= 3 && {SIZE} < 9)'
    (got,) = misses(claim(request(1, text)), made("far", "N", 1), made("near", "M", 2), made("wide", "N", 5))
    assert got.candidate.id.device == "near" and got.checks == (Check.SELECTOR,)
    assert [str(term) for term in got.false_terms] == [f"selector: {SIZE} >= 3 is false: {SIZE} is 2"]


def test_all_false_terms_of_one_device_are_told() -> None:
    (got,) = misses(claim(request(1, f'{MODEL} == "M" && {SIZE} == 1', f"{SIZE} == 2")), made("a", "N", 3))
    assert [(term.number, term.part.text) for term in got.false_terms] == [
        (0, f'{MODEL} == "M"'),
        (0, f"{SIZE} == 1"),
        (1, f"{SIZE} == 2"),
    ]


def test_the_closest_that_matches_and_the_closest_that_does_not() -> None:
    got = misses(
        claim(request(1, f"{SIZE} == 1")),
        made("tainted-and-held", "M", 1, taints=[TAINT]),
        made("held", "M", 1),
        made("small", "M", 0),
        held=(holding("h", "held", "tainted-and-held", pods=("web",)),),
    )
    assert [(one.candidate.id.device, one.checks) for one in got] == [
        ("held", (Check.IN_USE,)),
        ("small", (Check.SELECTOR,)),
    ]
    assert [str(holder) for holder in got[0].held_by] == ["driver-a/pool-1/held (claim default/h, pod web)"]


def test_a_device_of_another_class_is_far_off() -> None:
    got = misses(claim(request(1, "device.driver != ''")), made("a", "M", 1), driver="driver-b")
    assert got[0].checks == (Check.CLASS,) and got[0].distance[0] >= 10
    assert str(got[0].false_terms[0]).startswith('class: device.driver == "driver-a" is false')


def test_a_selector_that_fails_is_told_with_its_error() -> None:
    (got,) = misses(claim(request(1, f'{TYPE} == "X"')), made("a", "M", 1))
    assert got.checks == (Check.ERROR,) and "no such key: type" in got.error


def test_only_requests_that_are_short() -> None:
    wanted = claim(request(1, f"{SIZE} == 1", name="ok"), request(1, f"{SIZE} == 9", name="short"))
    assert {one.request for one in misses(wanted, made("a", "M", 1))} == {"short"}
    either = claim(first(wish(1, f"{SIZE} == 8"), wish(1, f"{SIZE} == 9")))
    assert [one.request for one in misses(either, made("a", "M", 1))] == ["req-0/sub-0", "req-0/sub-1"]


def test_without_a_part() -> None:
    assert without_part("a && b", FalsePart("b", 5, {})) == "a && true"


def test_of_many_false_terms_the_first_are_told() -> None:
    terms = [f"{SIZE} == {number}" for number in range(100, 140)]
    (got,) = misses(claim(request(1, " && ".join(terms))), made("a", "M", 1))
    told = [term.part.text for term in got.false_terms]
    assert 1 < len(told) < len(terms) and told == terms[: len(told)]
