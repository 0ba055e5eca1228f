from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dray.apiserver.access.identity import ANONYMOUS, Identity
from dray.apiserver.access.roles import check_path
from dray.apiserver.access.service_accounts import ISSUER, Grant, Reference, ServiceAccountTokens
from dray.apiserver.access.signing import Signer
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.store.contract import Key, Stored
from dray.errors import DeniedError
from dray.runtime.clock import FakeClock

ACCOUNT = Key("serviceaccounts", "ns", "robot")
POD = Key("pods", "ns", "web")
NODE = Key("nodes", "", "n1")
ROBOT = Identity("system:serviceaccount:ns:robot", ("system:serviceaccounts", "system:serviceaccounts:ns"))


class Objects:
    def __init__(self) -> None:
        self.uids = {ACCOUNT: "a1", POD: "p1", NODE: "n1"}

    def get(self, key: Key) -> Stored | None:
        uid = self.uids.get(key)
        return None if uid is None else Stored(key, uid, 1, b"{}")

    def indexed(self, name: str, value: str) -> tuple[Stored, ...]:
        return ()


class Known:
    def __init__(self, path: Path) -> None:
        self.objects, self.clock = Objects(), FakeClock()
        self.accounts = ServiceAccountTokens(Signer(path / "k.key"), self.clock, self.objects)
        self.tokens = Tokens(path / "tokens.json", self.accounts)

    def why_not(self, token: str) -> str:
        with pytest.raises(DeniedError) as caught:
            self.tokens.identity(f"Bearer {token}")
        assert not caught.value.authenticated
        return str(caught.value)


@pytest.fixture
def known(tmp_path: Path) -> Known:
    return Known(tmp_path)


def grant(bound: str = "", holder: Reference | None = None, *audiences: str) -> Grant:
    return Grant("ns", Reference("robot", "a1"), bound, holder, audiences or (ISSUER,))


async def test_a_token_is_its_accounts_until_it_ends(known: Known) -> None:
    token, end = known.accounts.issue(grant(), 600)
    assert (end - known.clock.now()).total_seconds() == 600
    assert known.tokens.identity(f"Bearer {token}") == ROBOT
    await known.clock.advance(599)
    assert known.tokens.identity(f"Bearer {token}") == ROBOT
    await known.clock.advance(1)
    assert "has expired" in known.why_not(token)


def test_no_two_tokens_are_the_same(known: Known) -> None:
    assert known.accounts.issue(grant(), 600) != known.accounts.issue(grant(), 600)


@pytest.mark.parametrize(
    ("bound", "holder", "end", "why"),
    [
        ("", None, lambda one: one.pop(ACCOUNT), "a service account that is gone"),
        ("", None, lambda one: one.update({ACCOUNT: "a2"}), "a service account that is gone"),
        ("pod", Reference("web", "p1"), lambda one: one.pop(POD), "a pod that is gone"),
        ("pod", Reference("web", "p1"), lambda one: one.update({POD: "p2"}), "a pod that is gone"),
        ("node", Reference("n1", "n1"), lambda one: one.pop(NODE), "a node that is gone"),
    ],
)
def test_it_ends_with_its_account_and_with_what_it_is_bound_to(
    known: Known, bound: str, holder: Reference | None, end: Callable[[dict[Key, str]], None], why: str
) -> None:
    token, _ = known.accounts.issue(grant(bound, holder), 600)
    assert known.tokens.identity(f"Bearer {token}") == ROBOT
    end(known.objects.uids)
    assert why in known.why_not(token)


def test_audiences(known: Known) -> None:
    vault, _ = known.accounts.issue(grant("", None, "vault", "other"), 600)
    assert "another audience" in known.why_not(vault)
    assert known.tokens.known(vault, ("vault", ISSUER)) == (ROBOT, ("vault",))
    own = known.tokens.issue(ROBOT)
    assert known.tokens.known(own) == (ROBOT, (ISSUER,))
    with pytest.raises(DeniedError, match="another audience"):
        known.tokens.known(own, ("vault",))


def test_what_is_not_signed_here_is_unknown(known: Known, tmp_path: Path) -> None:
    foreign = ServiceAccountTokens(Signer(tmp_path / "other.key"), known.clock, known.objects)
    assert "not known" in known.why_not(foreign.issue(grant(), 600)[0])
    assert "not known" in known.why_not("a.b.c")


def test_an_account_sees_what_is_served_and_nothing_more() -> None:
    check_path(ROBOT, "/apis/resource.k8s.io/v1")
    with pytest.raises(DeniedError):
        check_path(ROBOT, "/metrics")
    assert not (ROBOT.is_admin or ROBOT.is_reader or ROBOT.node) and ROBOT != ANONYMOUS
