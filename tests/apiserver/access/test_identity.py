from __future__ import annotations

import pytest

from dray.apiserver.access.authorize import check_token, is_checked_by_change
from dray.apiserver.access.identity import ADMINS, NODES, Identity, admin, node, reader
from dray.apiserver.access.roles import Asked
from dray.errors import DeniedError

BOTH = Identity("system:node:n1", (NODES, ADMINS))


def test_a_node_has_both_the_group_and_the_name_of_one() -> None:
    assert node("n1").node == "n1" and BOTH.node == "n1"
    for one in (
        Identity("system:node:n1"),
        Identity("eve", (NODES,)),
        Identity("system:node:n1", ("dray:readers",)),
    ):
        assert one.node == ""


def test_only_a_node_that_is_no_admin_is_judged_by_objects() -> None:
    assert is_checked_by_change(node("n1"))
    for one in (admin(), reader(), BOTH, Identity("eve")):
        assert not is_checked_by_change(one)


def test_only_a_node_that_is_no_admin_needs_a_pod_for_a_token() -> None:
    asked = Asked("create", "serviceaccounts", "ns", "account", "token")
    with pytest.raises(DeniedError):
        check_token(node("n1"), asked, None)
    for one in (admin(), reader(), BOTH, Identity("eve")):
        check_token(one, asked, None)
