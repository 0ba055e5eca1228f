"""Our words about a pod and kube-scheduler's, held against each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.oracle_scheduler.ours import FITS, PodVerdicts, Verdict

Json = dict[str, Any]


def told(raw: Json | None) -> Verdict | None:
    """The oracle's verdict, without the frame that the scheduler puts around a plugin's error."""
    if raw is None or raw["code"] == "Success":
        return None if raw is None else FITS
    frames = [f'running "{raw["plugin"]}" filter plugin: ', f'running PreFilter plugin "{raw["plugin"]}": ']
    reasons = []
    for reason in raw["reasons"] or ():
        for frame in frames:
            reason = reason.removeprefix(frame)
        reasons.append(reason)
    return raw["plugin"], raw["code"], tuple(sorted(reasons))


def feasible(answer: Json) -> list[str]:
    """The nodes that kube-scheduler would choose from: none where one of them made the try fail."""
    found = answer["nodes"] or {}
    if any(one["code"] == "Error" for one in found.values()):
        return []
    return sorted(name for name, one in found.items() if one["code"] == "Success")


def differences(answer: Json, ours: PodVerdicts) -> list[str]:
    """Where both differ: in the step, the plugin, the code or the reasons. Errors have texts of their own.

    A node that the pod rules out by name is not even asked there, so any refusal will do.
    """
    pairs: list[tuple[str, Verdict | None, Verdict | None]] = [
        ("PreEnqueue", told(answer["preEnqueue"]), ours.enqueue),
        ("PreFilter", told(answer["preFilter"]), ours.filtered),
        *_on_nodes(answer["nodes"], ours.nodes),
    ]
    found = [f"{where}: {theirs} / {mine}" for where, theirs, mine in pairs if not _is_same(theirs, mine)]
    if feasible(answer) != ours.feasible:
        found.append(f"feasible: {feasible(answer)} / {ours.feasible}")
    return found


def _on_nodes(
    answer: Json | None, ours: dict[str, Verdict] | None
) -> Iterator[tuple[str, Verdict | None, Verdict | None]]:
    for name in sorted({*(answer or {}), *(ours or {})}):
        mine = (ours or {}).get(name)
        if answer is None or name in answer or mine == FITS:
            yield name, told((answer or {}).get(name)), mine


def _is_same(theirs: Verdict | None, mine: Verdict | None) -> bool:
    if theirs is not None and mine is not None and theirs[1] == mine[1] == "Error":
        return theirs[0] == mine[0]
    return theirs == mine
