"""A rule as data, what it found, and the loop that applies rules one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from dray.errors import Error, UnavailableError

EVIDENCE_CHARACTERS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How many seconds things get. `within`: to register, to come back and to end."""

    within: float = 20.0
    first_list: float = 5.0
    stays: float = 2.0
    """How long a stream is watched for its end."""
    away: float = 1.5
    """How long the kubelet is away."""
    settle: float = 0.4
    """Without another registration, after which all are taken to have come."""
    hanging: float = 3.0
    """To answer beside callers that hang."""


class Unready(Exception):  # noqa: N818
    """What a rule looks at is not there, and another rule says so: this one is skipped."""


class Verdict(StrEnum):
    """What a rule found."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    """A kubelet copes with it, and users notice."""
    FAIL = "fail"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict with what was seen, or for SKIPPED the reason."""

    verdict: Verdict
    evidence: str


def passed(evidence: str = "") -> Outcome:
    """The rule is kept."""
    return Outcome(Verdict.PASS, evidence)


def warned(evidence: str) -> Outcome:
    """The rule is kept as far as a kubelet needs, and not as its users would wish."""
    return Outcome(Verdict.WARN, evidence)


def failed(evidence: str) -> Outcome:
    """The rule is broken."""
    return Outcome(Verdict.FAIL, evidence)


def skipped(reason: str) -> Outcome:
    """The rule was not tried."""
    return Outcome(Verdict.SKIPPED, reason)


def together(outcomes: Sequence[tuple[str, Outcome]]) -> Outcome:
    """One outcome for several things that a program serves, by name: broken where one is, warned where one is, skipped where all are."""
    if len(outcomes) == 1:
        return outcomes[0][1]
    broken = [f"{name}: {one.evidence}" for name, one in outcomes if one.verdict is Verdict.FAIL]
    if broken:
        return failed("; ".join(broken))
    odd = [f"{name}: {one.evidence}" for name, one in outcomes if one.verdict is Verdict.WARN]
    if odd:
        return warned("; ".join(odd))
    good = [(name, one) for name, one in outcomes if one.verdict is Verdict.PASS]
    if not good:
        return skipped(outcomes[0][1].evidence if outcomes else "nothing is registered")
    return passed(f"all {len(good)}; {good[0][0]}: {good[0][1].evidence or 'kept'}")


def as_outcome(found: Sequence[str] | Outcome) -> Outcome:
    """Faults, or an outcome that says more."""
    if isinstance(found, Outcome):
        return found
    return failed("; ".join(found)) if found else passed()


class Subject(Protocol):
    """What is checked: a live socket, or a process that may be ended and started again."""

    @property
    def is_live(self) -> bool:
        """Somebody else's kubelet uses it: only rules that are safe there are applied."""
        ...

    async def wait_ready(self) -> str:
        """Return when rules can be applied, with nothing; or with the reason why they cannot. A dead process is started again."""
        ...

    def death(self) -> str:
        """How the process ended, nothing while it runs."""
        ...

    async def wait_ended(self) -> None:
        """Give a process that is ending a moment: its sockets close before its end is known."""
        ...


S = TypeVar("S", bound=Subject)
S_contra = TypeVar("S_contra", bound=Subject, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[S_contra]):
    """One sentence of the contract.

    `check` may raise errors of `dray.errors`, which are failures with their text as evidence, and `Unready`. `bare` rules are applied
    whether or not the subject is ready; `ends` rules end the process themselves, all others must leave it alive.
    """

    id: str
    title: str
    kubelet: str
    """What the kubelet does, that this is the answer to."""
    why: str
    """What goes wrong where it is broken."""
    check: Callable[[S_contra], Awaitable[Outcome]]
    live: bool = False
    bare: bool = False
    ends: bool = False
    limit: float = 180.0


@dataclass(frozen=True, slots=True)
class Result:
    """A rule with its outcome and how long it took to find out."""

    rule: str
    title: str
    why: str
    outcome: Outcome
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """All rules that there are for this kind of subject, in their order."""

    subject: str
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """No rule is broken."""
        return all(one.outcome.verdict is not Verdict.FAIL for one in self.results)


Say = Callable[[str], None]


async def apply(rules: Sequence[Rule[S]], subject: S, say: Say) -> tuple[Result, ...]:
    """Apply the rules in order; a broken one never keeps the others from being tried."""
    results = []
    loop = asyncio.get_running_loop()
    came = True
    for rule in rules:
        say(f"{rule.id}: {rule.title}")
        started = loop.time()
        outcome = await _outcome(rule, subject) if came else skipped("it did not register")
        came = came and not (rule is rules[0] and outcome.verdict is Verdict.FAIL)
        seconds = round(loop.time() - started, 3)
        results.append(Result(rule.id, rule.title, rule.why, _cut(outcome), seconds))
    return tuple(results)


async def _outcome(rule: Rule[S], subject: S) -> Outcome:
    if subject.is_live and not rule.live:
        return skipped("not safe on a live socket")
    if not rule.bare and (reason := await subject.wait_ready()):
        return skipped(reason)
    outcome = await _checked(rule, subject)
    if outcome.verdict in (Verdict.PASS, Verdict.WARN) and not rule.ends and (death := subject.death()):
        return failed(death)
    return outcome


async def _checked(rule: Rule[S], subject: S) -> Outcome:
    limit = asyncio.timeout(rule.limit)
    try:
        async with limit:
            return await rule.check(subject)
    except Unready as reason:
        return skipped(str(reason))
    except UnavailableError as error:
        await subject.wait_ended()
        death = subject.death()
        return failed(f"{error}; {death}" if death else str(error))
    except Error as error:
        return failed(str(error))
    except TimeoutError:  # before OSError, which it is a kind of
        return failed(f"not done within {rule.limit:g} s" if limit.expired() else "no answer in time")
    except OSError as error:
        return failed(str(error))


def _cut(outcome: Outcome) -> Outcome:
    text = " ".join(outcome.evidence.split())
    short = text if len(text) <= EVIDENCE_CHARACTERS else text[: EVIDENCE_CHARACTERS - 1] + "…"
    return Outcome(outcome.verdict, short)
