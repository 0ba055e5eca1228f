"""`dray bench allocation`: the allocator with its index beside Kubernetes' own, on the same clusters and pods.

Both place pods one after the other; an answer that is not the same ends the benchmark. Kubernetes makes an allocator for
every pod and evaluates selectors anew; the index lives on, so its first pods and its later ones are told apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from dray.bench.allocation_peer import PEER, allocator_peer, ask
from dray.bench.allocation_run import Run, ask_warm, differences, place, read, without_input
from dray.bench.allocation_update import update_seconds
from dray.bench.allocation_workloads import (
    TIER,
    Json,
    Sizes,
    impossible,
    mig,
    near_full,
    one_node_each,
    whole_gpus,
)
from dray.bench.left_out import LeftOut
from dray.bench.measure import Figure, output
from dray.errors import InvariantError, NotFoundError

Say = Callable[[str], None]
LONG_MICROS: Final = 25e6


def figures(
    *, sizes: Sizes | None = None, build_peer: bool = True, say: Say = lambda _: None
) -> Iterator[Figure | LeftOut]:
    """All figures; `say` hears of the progress. Without Go, Dray's alone."""
    wanted = sizes or Sizes()
    bench = _Bench(wanted, None, say)
    missing: LeftOut | None = None
    try:
        say("building the Go allocator, if it is not there")
        bench = _Bench(wanted, allocator_peer(build=build_peer), say)
    except NotFoundError as error:
        missing = LeftOut(PEER, str(error))
    yield from bench.clusters()
    yield from bench.partitions()
    yield from bench.single_nodes()
    yield from bench.index_alone()
    if missing is not None:
        yield missing


class _Bench:
    def __init__(self, sizes: Sizes, peer: Path | None, say: Say) -> None:
        self._sizes = sizes
        self._peer = peer
        self._say = say

    def clusters(self) -> Iterator[Figure]:
        """Whole GPUs, by pods a second."""
        sizes = self._sizes
        for nodes, tried, pods in (
            (sizes.large_nodes, sizes.large_tried, sizes.large_pods),
            (sizes.small_nodes, sizes.small_nodes, sizes.small_pods),
        ):
            name = f"{nodes} nodes x 8 GPUs, {tried} tried"
            runs, theirs = self._place(whole_gpus(name, nodes, pods, tried))
            yield from self._rates(name, runs, theirs, pods)

    def partitions(self) -> Iterator[Figure]:
        """MIG. Kubernetes gets few of the pods: one takes it many seconds."""
        sizes = self._sizes
        name = f"{sizes.mig_nodes} nodes x 8 GPUs as MIG, {sizes.mig_tried} tried"
        more = sizes.mig_pods + sizes.mig_more_pods
        document = mig(name, sizes.mig_nodes, more, sizes.mig_tried)
        runs, theirs = self._place(document, sizes.mig_pods)
        yield from self._rates(name, runs, theirs, sizes.mig_pods)

    def single_nodes(self) -> Iterator[Figure]:
        """One node at a time, the index warm."""
        sizes = self._sizes
        group, devices = sizes.group, sizes.impossible_devices
        for name, document in (
            ("one node, 8 devices, one claim", one_node_each("one", sizes.warm_nodes)),
            ("2 claims x 4 requests, constraints, near-full node", near_full("near", sizes.near_full_nodes)),
        ):
            ours, theirs = self._ask_warm(document)
            yield _figure(f"{name}, index warm", "µs", ours * 1e6, theirs)
        name = f"{devices} devices in groups of {group}, claim of {group + 1} with matchAttribute"
        runs, theirs_raw = self._place(impossible(name, devices, group))
        peer = theirs_raw["micros"] / 1e3 if theirs_raw else None
        yield _figure(f"{name} (impossible)", "ms", min(sum(run.seconds) for run in runs) * 1e3, peer)

    def index_alone(self) -> Iterator[Figure]:
        """What Kubernetes has no counterpart for."""
        sizes = self._sizes
        devices = 8 * sizes.indexed_nodes
        self._say(f"updates of an index of {devices} devices")
        event, question = update_seconds(sizes.indexed_nodes, sizes.update_devices)
        what = f"slice update of {sizes.update_devices} devices into an index of {devices}"
        yield Figure(what, "ms", event * 1e3)
        yield Figure(f"{what}, and the first question after it", "ms", (event + question) * 1e3)
        self._say(f"memory of an index of {devices} devices")
        slices, everything = map(
            float, output("-m", "dray.bench.allocation_memory", str(sizes.indexed_nodes)).split()
        )
        yield Figure(
            f"memory of an index of {devices} devices, without the slices", "MiB", everything - slices
        )
        yield Figure(f"memory of an index of {devices} devices and its slices", "MiB", everything)

    def _place(self, document: Json, shared_pods: int | None = None) -> tuple[list[Run], Json | None]:
        """In turns; Kubernetes gets the first `shared_pods`, and its fastest run counts."""
        load = read(document)
        shared = document | {"pods": document["pods"][:shared_pods]}
        runs, answers = self._in_turns(document["name"], lambda: place(load), shared)
        return runs, min(answers, key=lambda answer: float(answer["micros"]), default=None)

    def _ask_warm(self, document: Json) -> tuple[float, float | None]:
        """The fastest call of each: seconds of ours, µs of theirs, without the making of an allocator."""
        load = read(document)
        runs, answers = self._in_turns(document["name"], lambda: ask_warm(load), document)
        theirs = [pod["allocateMicros"][0] for answer in answers for pod in answer["pods"]]
        return min(min(run.seconds) for run in runs), min(theirs, default=None)

    def _in_turns(self, name: str, ours: Callable[[], Run], theirs: Json) -> tuple[list[Run], list[Json]]:
        """As many rounds of each; but Kubernetes is not asked again for what took it long."""
        self._say(name)
        without_input()
        runs: list[Run] = []
        answers: list[Json] = []
        for _ in range(self._sizes.rounds):
            runs.append(ours())
            if self._peer is None or (answers and answers[0]["micros"] > LONG_MICROS):
                continue
            answers.append(ask(self._peer, theirs, TIER, self._sizes.go_seconds))
            _check(name, runs[-1], answers[-1])
        return runs, answers

    def _rates(self, name: str, runs: Sequence[Run], theirs: Json | None, shared: int) -> Iterator[Figure]:
        """The pods that Kubernetes placed too, from a new index; and the later half of ours."""
        first = min(sum(run.seconds[:shared]) for run in runs) / shared
        later = min(statistics.fmean(run.seconds[len(run.seconds) // 2 :]) for run in runs)
        peer = None if theirs is None else len(theirs["pods"]) / (theirs["micros"] / 1e6)
        yield _figure(f"{name}: first {shared} pods, new index", "pods/s", 1 / first, peer, higher=True)
        yield _figure(f"{name}: later pods", "pods/s", 1 / later, peer, higher=True)
        yield Figure(f"{name}: making the index", "ms", min(run.loading for run in runs) * 1e3)


def _figure(name: str, unit: str, ours: float, theirs: float | None, *, higher: bool = False) -> Figure:
    if theirs is None:
        return Figure(name, unit, ours, higher_is_better=higher)
    return Figure(name, unit, ours, PEER, theirs, higher_is_better=higher)


def _check(name: str, ours: Run, theirs: dict[str, Any]) -> None:
    if found := differences(ours, theirs):
        raise InvariantError(f"workload {name}: Dray and Kubernetes do not agree: {found[0]}")
