"""`dray bench kubelet`: how fast pods get their devices, and NUMA hints are merged, beside Kubernetes' own code in Go.

Both are given the same device plugin over a socket, admit the same pods one after another and write a checkpoint for each;
they take turns, each time in new processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dray.bench.agent import percentile
from dray.bench.kubelet_cases import Load, MergeCase, Sizes, loads, merges
from dray.bench.kubelet_peer import PEER, ask_merge, kubelet_peer
from dray.bench.kubelet_side import OURS, Admissions, admissions
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure, seconds_per_call
from dray.errors import InvariantError, NotFoundError
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import TopologyConfig
from dray.kubelet.topology.policies import BEST_EFFORT, policy_of
from dray.testing.install_steps import Say

LONG: Final = 25.0
"""Seconds. What took the peer longer, it is not asked again."""


def figures(
    *,
    sizes: Sizes | None = None,
    only: Sequence[Load] | None = None,
    build_peer: bool = True,
    say: Say = lambda _: None,
) -> Iterator[Figure | LeftOut]:
    """All figures, or those of `only` some loads; `say` hears of the progress. Without Go, Dray's alone."""
    wanted = sizes or Sizes()
    peer: Path | None = None
    missing: LeftOut | None = None
    try:
        say("building the Go kubelet's managers, if they are not there")
        peer = kubelet_peer(build=build_peer)
    except NotFoundError as error:
        missing = LeftOut(PEER, str(error))
    runs = []
    for load in only or tuple(loads(wanted)):
        runs.append(_take_turns(load, wanted.rounds, peer, say))
        yield from _speeds(load, *runs[-1])
    yield _memory(runs)
    for case in merges(wanted):
        yield _merge(case, peer if case.nodes <= wanted.peer_nodes else None, say)
    if missing is not None:
        yield missing
    elif wanted.peer_nodes < wanted.most_nodes:
        yield LeftOut(
            f"{PEER}: merges for more than {wanted.peer_nodes} NUMA nodes",
            "it tries all combinations of hints, more than 32 times as many with each node: minutes, then hours, then days",
        )


def _take_turns(
    load: Load, rounds: int, peer: Path | None, say: Say
) -> tuple[list[Admissions], list[Admissions]]:
    say(load.name)
    ours: list[Admissions] = []
    theirs: list[Admissions] = []
    for _ in range(rounds):
        ours.append(admissions(OURS, load))
        if peer is not None and not (theirs and sum(theirs[0].seconds) > LONG):
            theirs.append(admissions((str(peer), "load"), load.of_peer))
    return ours, theirs


def _speeds(load: Load, ours: Sequence[Admissions], theirs: Sequence[Admissions]) -> Iterator[Figure]:
    """The fastest round of each."""
    name = load.name if load.of_peer.pods == load.pods else f"{load.name} ({load.of_peer.pods} pods in Go)"
    best, best_of_peer = _best(ours), _best(theirs) if theirs else None
    yield _figure(
        name, "admissions/s", best.rate, best_of_peer.rate if best_of_peer else None, is_higher_better=True
    )
    for share in (0.5, 0.99):
        milliseconds = percentile(best.seconds, share) * 1e3
        of_peer = percentile(best_of_peer.seconds, share) * 1e3 if best_of_peer else None
        yield _figure(f"{name}, p{share * 100:g}", "ms", milliseconds, of_peer)


def _memory(runs: Sequence[tuple[Sequence[Admissions], Sequence[Admissions]]]) -> Figure:
    most, most_of_peer = (
        max((one.peak for sides in runs for one in sides[side]), default=None) for side in (0, 1)
    )
    return _figure("most memory in any of these (RSS)", "MiB", most or 0.0, most_of_peer)


def _best(runs: Sequence[Admissions]) -> Admissions:
    return max(runs, key=lambda one: one.rate)


def _merge(case: MergeCase, peer: Path | None, say: Say) -> Figure:
    say(case.name)
    policy = policy_of(TopologyConfig(BEST_EFFORT), NumaNodes(tuple(range(case.nodes))))
    hints = [case.hints()]
    milliseconds = seconds_per_call(lambda: policy.decide(hints)) * 1e3
    if peer is None:
        return _figure(case.name, "ms", milliseconds, None)
    answer = ask_merge(peer, case.document())
    merged = list(policy.decide(hints).hint)
    if merged != answer["merged"]:
        raise InvariantError(f"{case.name}: Dray says {merged} and Kubernetes {answer['merged']}")
    return _figure(case.name, "ms", milliseconds, answer["nanos"] / 1e6)


def _figure(
    name: str, unit: str, ours: float, theirs: float | None, *, is_higher_better: bool = False
) -> Figure:
    if theirs is None:
        return Figure(name, unit, ours, higher_is_better=is_higher_better)
    return Figure(name, unit, ours, PEER, theirs, higher_is_better=is_higher_better)
