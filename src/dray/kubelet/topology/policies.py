"""What a policy makes of the hints, and whether it takes the pod."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dray.errors import InvalidError
from dray.kubelet.topology.hints import Hint, ResourceHints
from dray.kubelet.topology.merge import Choices, choices_of, merge
from dray.kubelet.topology.nodes import NumaNodes
from dray.kubelet.topology.options import PolicyOptions, TopologyConfig, parse_options

NONE = "none"
BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"
CONTAINER_SCOPE = "container"
POD_SCOPE = "pod"
NO_HINT = Hint(None, False)


class Decision(NamedTuple):
    """`hint` is where the resources go; with `is_admitted` False the pod is rejected."""

    hint: Hint
    is_admitted: bool


@dataclass(frozen=True, slots=True)
class Policy:
    """Made by `policy_of`, once; the same hints give the same decision."""

    name: str
    nodes: NumaNodes
    options: PolicyOptions

    @property
    def is_alignment_guaranteed(self) -> bool:
        """Whether what it admits sits on one node."""
        return self.name == SINGLE_NUMA_NODE

    def decide(self, providers: Sequence[ResourceHints]) -> Decision:
        """One mapping a provider, in any order."""
        if self.name == NONE:
            return Decision(NO_HINT, True)
        choices = choices_of(providers)
        if self.name == SINGLE_NUMA_NODE:
            hint = self._on_one_node(choices)
        else:
            hint = merge(self.nodes, choices, prefer_closest=self.options.prefer_closest)
        return Decision(hint, hint.preferred or self.name == BEST_EFFORT)

    def _on_one_node(self, choices: Choices) -> Hint:
        hint = merge(self.nodes, [_of_one_node(hints) for hints in choices])
        return Hint(None, hint.preferred) if hint.nodes == self.nodes.mask else hint


def policy_of(config: TopologyConfig, nodes: NumaNodes) -> Policy:
    """InvalidError, in the kubelet's words and order, for what it does not start with; policy none looks at nothing else."""
    if config.policy == NONE:
        return Policy(NONE, nodes, PolicyOptions())
    options = parse_options(config.options)
    if options.prefer_closest and not nodes.has_distances:
        raise InvalidError("cannot discover NUMA topology: error getting NUMA distances from cadvisor")
    if len(nodes.ids) > options.max_nodes:
        raise InvalidError(f"unsupported on machines with more than {options.max_nodes} NUMA Nodes")
    if config.policy not in (BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE):
        raise InvalidError(f'unknown policy: "{config.policy}"', field="topologyManagerPolicy")
    if config.scope not in (CONTAINER_SCOPE, POD_SCOPE):
        raise InvalidError(f'unknown scope: "{config.scope}"', field="topologyManagerScope")
    return Policy(config.policy, nodes, options)


def _of_one_node(hints: Sequence[Hint]) -> list[Hint]:
    return [hint for hint in hints if hint.preferred and (hint.nodes is None or hint.nodes.bit_count() == 1)]
