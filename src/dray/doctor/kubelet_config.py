"""The kubelet's own configuration: the feature gates that devices depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from dray.api.codec import load_documents
from dray.doctor.finding import Finding, cannot_look, fault, note, ok, warning
from dray.doctor.places import Places, State, read_text
from dray.errors import InvalidError

GATES: Final = ("DevicePluginCDIDevices", "DynamicResourceAllocation", "ResourceHealthStatus")
_WHY: Final = {
    "DynamicResourceAllocation": "the kubelet prepares no claims: pods with claims do not start",
    "DevicePluginCDIDevices": "device plugins that answer with CDI names give containers nothing",
    "ResourceHealthStatus": "pods' statuses do not tell whether their devices work",
}


class KubeletConfig(msgspec.Struct, frozen=True):
    """`gates` are those that matter and that the file names."""

    path: str
    state: State = State.MISSING
    error: str = ""
    gates: dict[str, bool] = {}
    topology_policy: str = ""


def look_at_kubelet_config(places: Places) -> KubeletConfig:
    """Where kubeadm and most others put it; a kubelet may be started with another one, or with flags."""
    read = read_text(places.kubelet_dir / "config.yaml")
    if read.state is not State.THERE:
        return KubeletConfig(read.path, read.state, read.error)
    try:
        document = load_documents(read.text, read.path)[0].raw
    except (InvalidError, IndexError) as error:
        return KubeletConfig(read.path, State.BROKEN, str(error))
    gates = document.get("featureGates")
    known = gates if isinstance(gates, dict) else {}
    return KubeletConfig(
        read.path,
        State.THERE,
        "",
        {name: known[name] for name in GATES if isinstance(known.get(name), bool)},
        str(document.get("topologyManagerPolicy") or ""),
    )


def check_kubelet_config(facts: KubeletConfig) -> Iterator[Finding]:
    """Nothing to say where there is no such file."""
    if facts.state is State.DENIED:
        yield cannot_look("kubelet-config", facts.path)
    elif facts.state is State.BROKEN:
        why = "a kubelet does not start with it"
        yield warning("kubelet-config", f"{facts.path}: {facts.error}", why, "correct the file")
    elif facts.state is State.THERE:
        policy = facts.topology_policy or "none"
        yield ok("kubelet-config", f"{facts.path} can be read; its topology manager policy is {policy}")
    yield from check_gates(facts.gates, facts.path)


def check_gates(gates: Mapping[str, bool], source: str) -> Iterator[Finding]:
    """What those that are off take away."""
    for name, is_on in sorted(gates.items()):
        what = f"{name} is {'on' if is_on else 'off'} in the kubelet, says {source}"
        fix = f"remove {name}=false from the kubelet's featureGates and restart it"
        if is_on:
            yield ok("feature-gates", what)
        elif name == "ResourceHealthStatus":
            yield note("feature-gates", what, _WHY[name], fix)
        else:
            yield fault("feature-gates", what, _WHY[name], fix)
