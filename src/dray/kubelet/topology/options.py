"""The kubelet's settings of the topology manager, and what it says about wrong ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from dray.api.quoting import quote
from dray.errors import InvalidError

PREFER_CLOSEST = "prefer-closest-numa-nodes"
MAX_NODES = "max-allowable-numa-nodes"
FEWEST_MAX_NODES = 8
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class TopologyConfig:
    """As in the kubelet's configuration: `topologyManagerPolicy`, `…Scope`, `…PolicyOptions`."""

    policy: str = "none"
    scope: str = "container"
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """`max_nodes`: on a machine with more NUMA nodes no policy but none starts."""

    prefer_closest: bool = False
    max_nodes: int = FEWEST_MAX_NODES


def parse_options(texts: Mapping[str, str]) -> PolicyOptions:
    """InvalidError, in the kubelet's words, for an option that there is not or a value that it cannot have."""
    options = PolicyOptions()
    for name in sorted(texts):
        parse = _PARSERS.get(name)
        if parse is None:
            raise InvalidError(
                f"unknown Topology Manager Policy option: {quote(name)}",
                field=f"topologyManagerPolicyOptions.{name}",
            )
        options = parse(options, texts[name])
    return options


def _with_closest(options: PolicyOptions, text: str) -> PolicyOptions:
    if text not in _TRUE | _FALSE:
        raise _wrong(
            PREFER_CLOSEST, f'bad value for option "{PREFER_CLOSEST}": {_go_error("ParseBool", text)}'
        )
    return replace(options, prefer_closest=text in _TRUE)


def _with_max_nodes(options: PolicyOptions, text: str) -> PolicyOptions:
    before = f'unable to convert policy option to integer "{MAX_NODES}": '
    if _INTEGER.fullmatch(text) is None:
        raise _wrong(MAX_NODES, before + _go_error("Atoi", text))
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 19 or not -(2**63) <= int(text) < 2**63:
        raise _wrong(MAX_NODES, before + _go_error("Atoi", text, "value out of range"))
    if int(text) < FEWEST_MAX_NODES:
        raise _wrong(
            MAX_NODES, f'the minimum value of "{MAX_NODES}" should not be less than {FEWEST_MAX_NODES}'
        )
    return replace(options, max_nodes=int(text))


_PARSERS: Mapping[str, Callable[[PolicyOptions, str], PolicyOptions]] = MappingProxyType(
    {PREFER_CLOSEST: _with_closest, MAX_NODES: _with_max_nodes}
)


def _go_error(function: str, text: str, what: str = "invalid syntax") -> str:
    return f"strconv.{function}: parsing {quote(text)}: {what}"


def _wrong(name: str, message: str) -> InvalidError:
    return InvalidError(message, field=f"topologyManagerPolicyOptions.{name}")
