from __future__ import annotations

import pytest

from dray.errors import InvalidError
from dray.kubelet.runtimes.capabilities import ALL_CAPABILITIES, DEFAULT_CAPABILITIES, choose
from dray.kubelet.runtimes.contract import Security


@pytest.mark.parametrize(
    ("add", "drop", "expected"),
    [
        ((), (), set(DEFAULT_CAPABILITIES)),
        (("NET_ADMIN",), (), {*DEFAULT_CAPABILITIES, "CAP_NET_ADMIN"}),
        (("cap_net_admin",), ("KILL",), {*DEFAULT_CAPABILITIES, "CAP_NET_ADMIN"} - {"CAP_KILL"}),
        ((), ("ALL",), set()),
        (("NET_ADMIN",), ("ALL",), {"CAP_NET_ADMIN"}),
        (("ALL",), ("SYS_ADMIN",), set(ALL_CAPABILITIES) - {"CAP_SYS_ADMIN"}),
    ],
)
def test_choose(add: tuple[str, ...], drop: tuple[str, ...], expected: set[str]) -> None:
    assert choose(Security(add_capabilities=add, drop_capabilities=drop)) == sorted(expected)


def test_only_what_can_be_given() -> None:
    known = ("CAP_CHOWN", "CAP_BPF")
    assert choose(Security(), known) == ["CAP_CHOWN"]
    assert choose(Security(privileged=True), known) == ["CAP_BPF", "CAP_CHOWN"]


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(InvalidError, match="'FLY'"):
        choose(Security(add_capabilities=("FLY",)))
