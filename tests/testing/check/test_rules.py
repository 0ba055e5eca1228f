from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from dray.errors import InvariantError, UnavailableError
from dray.testing.check.rules import (
    EVIDENCE_CHARACTERS,
    Outcome,
    Report,
    Rule,
    Unready,
    Verdict,
    apply,
    failed,
    passed,
    skipped,
    together,
)


@dataclass
class Thing:
    is_live: bool = False
    reason: str = ""
    ended: str = ""
    ends_late: str = ""
    """Known only when it is given a moment."""
    asked: list[str] = field(default_factory=list)

    async def wait_ready(self) -> str:
        self.asked.append("ready")
        return self.reason

    def death(self) -> str:
        return self.ended

    async def wait_ended(self) -> None:
        self.asked.append("ended?")
        self.ended = self.ended or self.ends_late


async def good(thing: Thing) -> Outcome:
    return passed("seen")


async def bad(thing: Thing) -> Outcome:
    return failed("wrong")


async def raises(thing: Thing) -> Outcome:
    raise UnavailableError("nobody there")


async def unready(thing: Thing) -> Outcome:
    raise Unready("no list")


async def our_bug(thing: Thing) -> Outcome:
    raise InvariantError("ours")


async def dies(thing: Thing) -> Outcome:
    thing.ended = "exit code 3"
    return passed()


async def long_story(thing: Thing) -> Outcome:
    return failed("word \n" * 1000)


def rule(check: object, name: str = "r", **more: bool) -> Rule[Thing]:
    return Rule(id=name, title="t", kubelet="k", why="w", check=check, **more)  # type: ignore[arg-type]


async def outcomes(thing: Thing, *rules: Rule[Thing]) -> list[tuple[Verdict, str]]:
    results = await apply(rules, thing, lambda text: None)
    return [(one.outcome.verdict, one.outcome.evidence) for one in results]


async def test_each_way_a_rule_can_end() -> None:
    found = await outcomes(Thing(), rule(good), rule(bad), rule(raises), rule(unready), rule(good))
    assert found == [
        (Verdict.PASS, "seen"),
        (Verdict.FAIL, "wrong"),
        (Verdict.FAIL, "nobody there"),
        (Verdict.SKIPPED, "no list"),
        (Verdict.PASS, "seen"),
    ]


async def test_our_own_bugs_are_not_the_plugins() -> None:
    with pytest.raises(InvariantError):
        await outcomes(Thing(), rule(our_bug))


async def test_a_live_socket_gets_safe_rules_only() -> None:
    found = await outcomes(Thing(is_live=True), rule(good), rule(good, live=True))
    assert [verdict for verdict, _ in found] == [Verdict.SKIPPED, Verdict.PASS]


async def test_a_death_breaks_the_rule_during_which_it_happened() -> None:
    assert await outcomes(Thing(), rule(dies)) == [(Verdict.FAIL, "exit code 3")]
    assert await outcomes(Thing(), rule(dies, ends=True)) == [(Verdict.PASS, "")]


async def test_a_process_that_is_ending_gets_a_moment() -> None:
    """Else the next rules would meet its closed sockets, and break for nothing."""
    found = await outcomes(Thing(ends_late="exit code 3"), rule(raises))
    assert found == [(Verdict.FAIL, "nobody there; exit code 3")]


async def test_nothing_is_tried_after_it_never_came() -> None:
    thing = Thing()
    found = await outcomes(thing, rule(bad, bare=True), rule(good))
    assert found[1] == (Verdict.SKIPPED, "it did not register")
    assert thing.asked == []


async def test_what_is_not_ready_is_skipped_with_the_reason() -> None:
    assert await outcomes(Thing(reason="gone"), rule(good)) == [(Verdict.SKIPPED, "gone")]


async def test_long_evidence_is_one_line_and_cut() -> None:
    ((_, evidence),) = await outcomes(Thing(), rule(long_story))
    assert len(evidence) == EVIDENCE_CHARACTERS and "\n" not in evidence and evidence.endswith("…")


async def test_a_report_is_kept_unless_a_rule_is_broken() -> None:
    results = await apply([rule(good), rule(unready)], Thing(), lambda text: None)
    assert Report("x", results).is_kept
    results = await apply([rule(good), rule(bad)], Thing(), lambda text: None)
    assert not Report("x", results).is_kept


@pytest.mark.parametrize(
    ("several", "wanted"),
    [
        ([("a", passed("x"))], passed("x")),
        ([("a", passed("x")), ("b", failed("y"))], failed("b: y")),
        ([("a", skipped("n")), ("b", passed("x"))], passed("all 1; b: x")),
        ([("a", skipped("n")), ("b", skipped("m"))], skipped("n")),
        ([], skipped("nothing is registered")),
    ],
)
def test_several_are_one(several: list[tuple[str, Outcome]], wanted: Outcome) -> None:
    assert together(several) == wanted
