"""Which controllers run, and with whose mistakes: what the command line says about them, as values. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dray.controllers import node_taints, nodes, pod_gc
from dray.controllers.claims import controller as claims
from dray.controllers.claims.steps import ClaimPolicy
from dray.controllers.taints import controller as device_taints
from dray.controllers.taints.eviction import EvictionPolicy
from dray.errors import InvalidError
from dray.semantics.features import EnabledGates, Gate, enabled_gates

CLAIMS: Final = claims.NAME
DEVICE_TAINTS: Final = device_taints.NAME
POD_GC: Final = pod_gc.NAME
NODES: Final = nodes.NAME
NODE_TAINTS: Final = node_taints.NAME
ALL: Final = (CLAIMS, DEVICE_TAINTS, POD_GC, NODES, NODE_TAINTS)
NODE_LIFECYCLE: Final = (NODES, NODE_TAINTS)
"""Off unless asked for: a real cluster has them, and two judges of one node would not agree about its silence."""
QUIRKS: Final = ("Q7", "Q8", "Q13")
_SCHEDULERS: Final = ("Q16", "Q17")
_CORRECT: Final = "correct"
_DEFAULT_GATES: Final = enabled_gates()
_PROFILES: Final = {_CORRECT: (), "k8s-1.36": ("Q8", "Q13"), "k8s-1.37": ("Q8",)}


def chosen(
    text: str, gates: EnabledGates = _DEFAULT_GATES, *, node_lifecycle: bool = False
) -> tuple[str, ...]:
    """`--controllers` as in kube-controller-manager: `*` all that are on by default, `NAME` on, `-NAME` off.

    A name counts more than `*`, and a gate that is off more than a name. In the order in which they start.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word != "*" and word.removeprefix("-") not in ALL:
            raise InvalidError(
                f"--controllers: there is no controller {word.removeprefix('-')!r}: there are {', '.join(ALL)}",
                field="--controllers",
            )
    asked = {*words, *(NODE_LIFECYCLE if node_lifecycle else ())}
    barred = set() if Gate.DEVICE_TAINTS in gates else {DEVICE_TAINTS}
    return tuple(
        name for name in ALL if f"-{name}" not in words and name not in barred and _is_on(name, asked)
    )


def _is_on(name: str, asked: Iterable[str]) -> bool:
    return name in asked or ("*" in asked and name not in NODE_LIFECYCLE)


@dataclass(frozen=True, slots=True)
class Policies:
    """The switches of all controllers."""

    claims: ClaimPolicy
    eviction: EvictionPolicy


def policies(profile: str, quirks: str, gates: EnabledGates = _DEFAULT_GATES) -> Policies:
    """Those of a profile, with `--quirks` on top: `Q8` on, `-Q8` off; and what the gates that are on ask for."""
    if profile not in _PROFILES:
        raise InvalidError(
            f"--profile: no profile {profile!r}: there are {', '.join(_PROFILES)}", field="--profile"
        )
    words = [word.strip() for word in quirks.split(",") if word.strip()]
    _check(words)
    on = ({*_PROFILES[profile]} | {*words}) - {word.removeprefix("-") for word in words if word[0] == "-"}
    has_groups = Gate.WORKLOAD_RESOURCE_CLAIMS in gates
    return Policies(
        ClaimPolicy(
            new_statuses_only="Q13" in on,
            admin_access=Gate.ADMIN_ACCESS in gates,
            prioritized_list=Gate.PRIORITIZED_LIST in gates,
            free_unused=profile == _CORRECT,
            workload_claims=has_groups,
        ),
        EvictionPolicy(
            bare_rule_evicts_all="Q7" in on,
            bare_toleration_ignored="Q8" in on,
            taint_rules=Gate.DEVICE_TAINT_RULES in gates,
            workload_claims=has_groups,
        ),
    )


def _check(words: Sequence[str]) -> None:
    for word in words:
        name = word.removeprefix("-")
        if name in _SCHEDULERS:
            raise InvalidError(f"--quirks: {name} is the scheduler's, give it there", field="--quirks")
        if name not in QUIRKS:
            raise InvalidError(
                f"--quirks: no quirk {name!r}: there are {', '.join(QUIRKS)}", field="--quirks"
            )
