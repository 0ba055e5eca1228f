"""What the facts of a cluster mean for a node, or for a laptop."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dray.doctor.cluster import RIGHTS, Cluster
from dray.doctor.finding import Finding, fault, note, ok, warning
from dray.doctor.kubelet_config import check_gates

OLDEST: Final = (1, 34)
NEWEST: Final = (1, 37)
"""What was tried; newer ones should do."""
SKEW: Final = 3
"""How many minors a kubelet may be behind its API server."""


def check_cluster(facts: Cluster, *, is_laptop: bool = False) -> Iterator[Finding]:
    """A node without a cluster is only half of one; a laptop needs none."""
    if not facts.server:
        text = facts.error or "no API server is named"
        fix = "start `dray up`, or give --kubeconfig K" if is_laptop else "give --kubeconfig K"
        yield note("api-server", f"not asked: {text.partition(';')[0]}", fix=fix)
        return
    if facts.error:
        why = "without it there is no DRA, and pods do not come"
        fix = (
            "give a kubeconfig with valid credentials"
            if facts.is_denied
            else "start it, or correct --kubeconfig"
        )
        yield fault("api-server", f"{facts.server} does not answer: {facts.error}", why, fix)
        yield from _check_clock(facts)
        return
    yield from _check_version(facts)
    yield _check_dra(facts)
    yield from _check_clock(facts)
    if not is_laptop:
        yield from _check_node(facts)
        yield from check_gates(facts.gates, "its metrics")
    yield from _check_rights(facts)


def minor(version: str) -> tuple[int, int] | None:
    """`v1.36.2+k3s1` → (1, 36)."""
    match = re.match(r"v?([0-9]{1,3})\.([0-9]{1,3})", version)
    return (int(match[1]), int(match[2])) if match else None


def _check_version(facts: Cluster) -> Iterator[Finding]:
    server = minor(facts.version)
    if server is not None and server < OLDEST:
        why = "DRA v1 and what Dray needs of it came with 1.34"
        yield fault("api-version", f"the API server is {facts.version}", why, "upgrade the cluster")
    elif server is not None and server > NEWEST:
        yield note(
            "api-version", f"the API server is {facts.version}: newer than the newest that was tried, 1.37"
        )
    else:
        yield ok(
            "api-version", f"the API server at {facts.server} is {facts.version or 'of an unknown version'}"
        )


def _check_dra(facts: Cluster) -> Finding:
    if facts.dra_versions is None:
        return note("dra-served", "may not ask for resource.k8s.io")
    if "v1" in facts.dra_versions:
        return ok("dra-served", f"DRA is on: resource.k8s.io/{', '.join(facts.dra_versions)}")
    why = "without it there are no claims; device plugins work all the same"
    fix = "upgrade to 1.34, or start the API server with --runtime-config=resource.k8s.io/v1=true"
    served = ", ".join(facts.dra_versions) or "nothing"
    return fault("dra-served", f"resource.k8s.io/v1 is not served, but {served}", why, fix)


def _check_clock(facts: Cluster) -> Iterator[Finding]:
    if facts.skew is None:
        return
    seconds = abs(facts.skew)
    side = "before" if facts.skew > 0 else "behind"
    what = f"the API server's clock is {seconds:.0f} s {side} this machine's"
    why, fix = (
        "tokens, certificates and leases are judged by the clock",
        "set both with NTP (chrony, timesyncd)",
    )
    if seconds > 60:
        yield fault("clock", what, why, fix)
    elif seconds > 5:
        yield warning("clock", what, why, fix)
    else:
        yield ok("clock", "the API server's clock and this machine's agree")


def _check_node(facts: Cluster) -> Iterator[Finding]:
    if facts.has_node is False:
        why = "ResourceSlices belong to the Node; without one none are published"
        fix = "give --node-name as the kubelet has it"
        yield fault("node", f"there is no Node {facts.node}", why, fix)
    kubelet, server = minor(facts.kubelet_version), minor(facts.version)
    if kubelet is None or server is None:
        return
    text = f"the kubelet is {facts.kubelet_version}, the API server {facts.version}"
    why = f"a kubelet may be up to {SKEW} minor versions older, and never newer"
    if kubelet > server or kubelet[1] < server[1] - SKEW:
        yield fault("version-skew", text, why, "upgrade the older one")
    elif kubelet < OLDEST:
        yield fault("version-skew", text, "Dray needs a kubelet of 1.34 or newer", "upgrade the kubelet")
    else:
        yield ok("version-skew", text)


def _check_rights(facts: Cluster) -> Iterator[Finding]:
    if facts.missing is None:
        yield note("rights", "may not ask what this identity may do")
    elif facts.missing:
        why = "the agent needs them, where it runs with this kubeconfig"
        fix = "apply the role in docs/reference/agent.md"
        yield warning("rights", f"this identity may not {', '.join(facts.missing)}", why, fix)
    else:
        yield ok("rights", f"this identity has all {len(RIGHTS)} rights an agent needs")
