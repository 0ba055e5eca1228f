from __future__ import annotations

import pytest

from dray.apiserver.access.identity import ADMINS, ANONYMOUS, Identity, admin, node, reader
from dray.apiserver.access.impersonation import acting
from dray.errors import DeniedError, InvalidError


def test_without_the_header_everybody_is_who_they_are() -> None:
    for identity in (admin(), reader(), node("n"), ANONYMOUS):
        assert acting(identity, (), ()) is identity


def test_an_administrator_acts_as_another_with_that_ones_rights_only() -> None:
    found = acting(admin(), ("somebody",), ("teams", "teams"))
    assert found == Identity("somebody", ("teams", "system:authenticated"))
    assert not found.is_admin
    assert acting(admin(), ("somebody",), (ADMINS,)).is_admin
    assert acting(admin(), ("system:node:n",), ("system:nodes",)).node == "n"
    assert acting(admin(), ("system:anonymous",), (ADMINS,)) == ANONYMOUS


@pytest.mark.parametrize("identity", [reader(), node("n"), ANONYMOUS, Identity("x", ("teams",))])
def test_nobody_else_may(identity: Identity) -> None:
    with pytest.raises(
        DeniedError, match=r'users "admin" is forbidden: User .* cannot impersonate resource "users"'
    ):
        acting(identity, ("admin",), (ADMINS,))


def test_groups_without_a_user_are_refused() -> None:
    with pytest.raises(InvalidError, match="without impersonating a user"):
        acting(admin(), (), ("teams",))
