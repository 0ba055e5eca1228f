"""Kubernetes' networks: `cidr("10.0.0.0/8").containsIP("10.1.2.3")`, …"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dray.cel import types as t
from dray.cel.costs.actual_cost import actual_size, string_cost
from dray.cel.costs.cost import ONE, STRING_FACTOR, CallEstimate, EstimateCall, Range, SizedNode, Sizes
from dray.cel.faults import EvaluationError
from dray.cel.functions import ActualCost, Library, Overload
from dray.cel.library.addresses import Address, is_mapped, parse_network
from dray.cel.library.costs import walk, walked
from dray.cel.library.ips import IP, IpValue, parse_ip, write_address
from dray.cel.quoting import quote_start
from dray.cel.types import Type
from dray.cel.values import Opaque, Value

CIDR = t.opaque("net.CIDR")
_BYTES = Range(4, 16)
"""Of an address."""
_FAILED = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True)
class CidrValue(Opaque):
    """A network; bits behind the prefix are kept. It is as large as the bytes of its prefix."""

    address: Address
    bits: int
    cel_type: ClassVar[Type] = CIDR

    def __len__(self) -> int:
        return (self.bits + 7) // 8

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"{write_address(self.address)}/{self.bits}"

    def prefix(self, bits: int) -> int:
        """The first bits of the address as a number."""
        return int(self.address) >> (self.address.max_prefixlen - bits)


def parse_cidr(text: str) -> CidrValue:
    """Not an IPv4 network in an IPv6 one; raises `EvaluationError`."""
    try:
        address, bits = parse_network(text)
    except EvaluationError as error:
        raise EvaluationError(f"{_FAILED}{_FAILED}{error}") from None
    if is_mapped(address):
        raise EvaluationError(f"{_FAILED}IPv4-mapped IPv6 address {quote_start(text)} is not allowed")
    return CidrValue(address, bits)


def _is_cidr(text: str) -> Value:
    try:
        parse_cidr(text)
    except EvaluationError:
        return False
    return True


def _contains(network: CidrValue, other: IpValue) -> Value:
    if network.address.version != other.address.version:
        return False
    return network.prefix(network.bits) == int(other.address) >> (other.address.max_prefixlen - network.bits)


def _contains_text(network: CidrValue, other: str) -> Value:
    """Kubernetes does not say here what is wrong with the address."""
    try:
        address = parse_ip(other)
    except EvaluationError:
        raise EvaluationError("no such overload") from None
    return _contains(network, address)


def _covers(network: CidrValue, other: CidrValue) -> Value:
    same_family = network.address.version == other.address.version
    return (
        same_family
        and network.bits <= other.bits
        and network.prefix(network.bits) == other.prefix(network.bits)
    )


def _covers_text(network: CidrValue, other: str) -> Value:
    return _covers(network, parse_cidr(other))


def _masked(network: CidrValue) -> Value:
    free = network.address.max_prefixlen - network.bits
    return CidrValue(network.address.__class__(int(network.address) >> free << free), network.bits)


def _ip(network: CidrValue) -> Value:
    return IpValue(network.address)


def _prefix_length(network: CidrValue) -> Value:
    return network.bits


def _estimate(*, is_text: bool, masks: bool) -> EstimateCall:
    """Two addresses are walked over; before that a text is read, and a network is masked."""

    def estimate(sizes: Sizes, _: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate | None:
        if not arguments:
            return None
        cost = _BYTES.plus(_BYTES).scaled(STRING_FACTOR)
        if masks:
            cost = cost.plus(_BYTES.scaled(STRING_FACTOR)).plus(ONE)
        if is_text:
            cost = cost.plus(sizes.size(arguments[0]).scaled(STRING_FACTOR))
        return CallEstimate(cost)

    return estimate


def _cost(*, is_text: bool, masks: bool) -> ActualCost:
    def cost(values: Sequence[Value], _: Value) -> int:
        size = actual_size(values[0])
        spent = string_cost(size + size)
        if masks:
            spent += string_cost(size) + 1
        return spent + (string_cost(actual_size(values[1])) if is_text else 0)

    return cost


_CALLS = (
    ("cidr_contains_ip_string", "containsIP", t.STRING, _contains_text),
    ("cidr_contains_ip_ip", "containsIP", IP, _contains),
    ("cidr_contains_cidr_string", "containsCIDR", t.STRING, _covers_text),
    ("cidr_contains_cidr", "containsCIDR", CIDR, _covers),
)

LIBRARY = Library(
    name="kubernetes.net.cidr",
    types=(CIDR,),
    overloads=(
        Overload("string_to_cidr", "cidr", (t.STRING,), CIDR, parse_cidr, estimate=walk(), cost=walked()),
        *(
            Overload(
                name,
                function,
                (CIDR, other),
                t.BOOL,
                call,
                is_member=True,
                estimate=_estimate(is_text=other == t.STRING, masks=function == "containsCIDR"),
                cost=_cost(is_text=other == t.STRING, masks=function == "containsCIDR"),
            )
            for name, function, other, call in _CALLS
        ),
        Overload("cidr_ip", "ip", (CIDR,), IP, _ip, is_member=True),
        Overload("cidr_prefix_length", "prefixLength", (CIDR,), t.INT, _prefix_length, is_member=True),
        Overload("cidr_masked", "masked", (CIDR,), CIDR, _masked, is_member=True),
        Overload("is_cidr", "isCIDR", (t.STRING,), t.BOOL, _is_cidr, estimate=walk(), cost=walked()),
        Overload("cidr_to_string", "string", (CIDR,), t.STRING, str),
    ),
)
