"""Why somebody has no devices, and how many more would fit: the allocator asked over the objects of the cluster. Writes nothing.

The answers are the JSON of `dray explain -o json` and `dray simulate -o json`. They may take a second, so they are made in
threads, few at once; where nobody waits any more, they end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from dray.allocation.budget import FILTER_SECONDS
from dray.allocation.cluster.cluster_dump import Cluster, read_cluster
from dray.allocation.cluster.simulate import simulate
from dray.allocation.cluster.simulation_documents import failed_document, simulation_document
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import find_workload, to_copy
from dray.allocation.explanation.documents import explanation_document
from dray.allocation.explanation.extended import explain_pod, use_of
from dray.allocation.faults import AllocationError
from dray.allocation.features import Features, features_for
from dray.allocation.policies import Policy
from dray.allocation.profiles import profile_of_server
from dray.allocation.selector import check_selector
from dray.api.codec import load_documents
from dray.api.field_errors import FieldError, Path
from dray.dashboard.fleet.fleet import Fleet
from dray.dashboard.telling.courtesy import Courtesy
from dray.errors import InvalidError, UnavailableError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.quarantine import Quarantine, object_key
from dray.runtime.threads import Threads
from dray.semantics.features import NO_SWITCHES, GateSwitches

AT_ONCE: Final = 2
MOST_WAITING: Final = 16
SECONDS: Final = 60.0
MOST_CLAIMS: Final = 10_000
_NAMESPACE: Final = "default"
_SOURCE: Final = "manifests"

T = TypeVar("T")
Check = Callable[[], None]
"""Called now and then by those who think; raises LeftError where nobody waits any more."""


class BusyError(UnavailableError):
    """Too many others are asking already: ask again in a moment."""


class LeftError(UnavailableError):
    """Whoever asked has left, or waited too long: ends the work. Nobody sees it."""


class WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The question: how many more of these claims fit?"""

    manifests: str
    claims: int
    policy: Policy = Policy.FIRST_FIT


@dataclass(frozen=True, slots=True)
class _Known:
    """The cluster as it was when somebody asked."""

    cluster: Cluster
    server: tuple[str, str]
    major: str
    minor: str
    notes: tuple[str, ...]
    switches: GateSwitches

    def situation(self, check: Check, files: Cluster | None = None) -> tuple[Situation, tuple[str, ...]]:
        """As the scheduler of such a server sees it; and what was guessed. Asks `check` before each question and in its course."""
        profile, guess = profile_of_server(self.major, self.minor)
        features = self.features()
        cluster = self.cluster if files is None else self.cluster.under(files)
        notes = (*self.notes, *([guess] if guess else []), *cluster.notes)

        def now() -> float:
            check()
            return SystemClock().monotonic()

        situation = Situation.of(cluster, profile, features).within(FILTER_SECONDS, now)
        return situation.checked(check), notes

    def features(self) -> Features:
        profile, _ = profile_of_server(self.major, self.minor)
        return features_for(profile, self.switches, has_served_rules=self.cluster.has_served_rules)


class Questions:
    """Answers from the fleet as it is in that moment. Who finds others asking waits for a turn, up to `most` of them."""

    def __init__(
        self,
        fleet: Fleet,
        at_once: int = AT_ONCE,
        seconds: float = SECONDS,
        most: int = MOST_WAITING,
        clock: Clock | None = None,
        quarantine: Quarantine | None = None,
        switches: GateSwitches = NO_SWITCHES,
    ) -> None:
        clock = clock or SystemClock()
        self._quarantine = quarantine or Quarantine(None, clock)
        self._fleet = fleet
        self._switches = switches
        self._seconds = seconds
        self._threads = Threads(at_once)
        self._most = at_once + most
        self._asking = 0
        self._courtesy = Courtesy(clock)

    async def explain(self, *, claim: str = "", pod: str = "") -> dict[str, Any]:
        """About a claim or a pod, each NAMESPACE/NAME. NotFoundError where it is not there, UnavailableError where the
        explanation ended the process three times: a page asks again by itself, and in `dray up` everything would end with it."""
        if bool(claim) == bool(pod):
            raise InvalidError("give one of claim=NAMESPACE/NAME and pod=NAMESPACE/NAME", field="claim")
        namespace, _, name = (claim or pod).partition("/")
        if not namespace or not name or "/" in name:
            field = "claim" if claim else "pod"
            raise InvalidError(f"{field} must be NAMESPACE/NAME", field=field)
        word, doing = f"pod/{name}" if pod else name, f"explain {claim or pod}"
        key = object_key("pods" if pod else "resourceclaims", namespace, name, "")
        if why := self._quarantine.why(key):
            raise UnavailableError(f"cannot {doing}: {why}")
        with self._quarantine.handling(key):
            return await self._think(lambda known, check: _explained(known, check, namespace, word), doing)

    async def what_if(self, body: bytes) -> dict[str, Any]:
        """The answer to a `WhatIf`; InvalidError names what is wrong in it, with line and column."""
        asked = _question(body)
        return await self._think(
            lambda known, check: _simulated(known, check, asked), "answer what would fit"
        )

    def _known(self) -> _Known:
        fleet = self._fleet
        version = fleet.version
        server = (fleet.server, version.git_version)
        return _Known(fleet.cluster(), server, version.major, version.minor, fleet.notes, self._switches)

    async def _think(self, call: Callable[[_Known, Check], T], doing: str) -> T:
        if self._asking >= self._most:
            raise BusyError("others are asking already: ask again in a moment", retry_after=1.0)
        known, left = self._known(), threading.Event()

        def check() -> None:
            if left.is_set():
                raise LeftError("nobody waits for the answer any more")
            self._courtesy.go_on()

        def work() -> T:
            with self._courtesy:
                return call(known, check)

        self._asking += 1
        try:
            return await self._threads.run(work, doing=doing, seconds=self._seconds)
        except UnavailableError as error:
            raise UnavailableError(
                f"could not {doing} in {self._seconds:g} s; `dray explain` and `dray simulate` have no such limit"
            ) from error
        finally:
            self._asking -= 1
            left.set()


def _explained(known: _Known, check: Check, namespace: str, word: str) -> dict[str, Any]:
    situation, notes = known.situation(check)
    workload = find_workload(situation.cluster, word, namespace)
    nodes = situation.cluster.nodes
    other = situation.other(known.switches).checked(check)
    found = explain_pod(situation, workload, nodes, use_of(situation.cluster.pods), other)
    document = explanation_document(situation, [found], server=known.server, notes=notes)
    return {**document, "fits": bool(found.explanation.verdict.fits_on)}


def _question(body: bytes) -> WhatIf:
    try:
        asked = msgspec.json.decode(body, type=WhatIf)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at ")
        field = place.strip("`").removeprefix("$.") or "body"
        raise InvalidError(f"{field}: {text}", field=field) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidError(f"the body is no JSON: {error}", field="body") from None
    if not 1 <= asked.claims <= MOST_CLAIMS:
        raise InvalidError(f"claims must be from 1 to {MOST_CLAIMS}", field="claims")
    if not asked.manifests.strip():
        raise InvalidError("manifests: give a ResourceClaim, a ResourceClaimTemplate or a Pod", field=_SOURCE)
    return asked


def _simulated(known: _Known, check: Check, asked: WhatIf) -> dict[str, Any]:
    features = known.features()

    def faults(expression: str, path: Path, stored: bool) -> list[FieldError]:
        return check_selector(expression, path, stored, features)

    files = read_cluster(load_documents(asked.manifests, _SOURCE), faults, _NAMESPACE)
    situation, _ = known.situation(check, files)
    cluster = situation.cluster
    workload = to_copy(cluster, files)
    if not workload.pending:
        raise InvalidError(
            "no ResourceClaim without an allocation, no ResourceClaimTemplate and no Pod with claims in it",
            field=_SOURCE,
        )
    if not cluster.nodes:
        raise InvalidError("the cluster has no nodes: nothing fits anywhere", field=_SOURCE)
    try:
        found = simulate(situation, workload, cluster.nodes, asked.claims, asked.policy)
    except AllocationError as error:
        return failed_document(situation, workload, asked.policy, asked.claims, error)
    return simulation_document(found, situation, asked.policy)
