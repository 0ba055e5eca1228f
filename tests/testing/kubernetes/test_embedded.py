from __future__ import annotations

from pathlib import Path

import pytest

from dray.apiserver.access.identity import ADMINS, Identity, admin, node
from dray.apiserver.access.tokens import Tokens
from dray.client.kubeconfig import find_access
from dray.errors import InvalidError
from dray.testing.kubernetes.embedded import SCHEDULER, EmbeddedIdentities


def test_everybody_has_a_token_that_the_server_will_know(tmp_path: Path) -> None:
    scheduler = Identity(SCHEDULER, (ADMINS,))
    found = EmbeddedIdentities(tmp_path, "https://127.0.0.1:1", tmp_path / "data", (node("n1"), scheduler))
    tokens = Tokens(tmp_path / "data" / "tokens.json")
    for config, who in (
        (found.admin(), admin()),
        (found.driver(), Identity("dray-driver")),
        (found.by_certificate("system:node:n1", ()), node("n1")),
        (found.by_certificate(SCHEDULER, ()), scheduler),
    ):
        access = find_access(config)
        assert tokens.identity(f"Bearer {access.user.token}") == who
        assert access.server == "https://127.0.0.1:1"
        assert found.server_authority.read_text() in (tmp_path / "data" / "pki" / "ca.crt").read_text()


def test_who_was_not_named_at_the_start_has_none(tmp_path: Path) -> None:
    found = EmbeddedIdentities(tmp_path, "https://127.0.0.1:1", tmp_path / "data", ())
    with pytest.raises(InvalidError, match="'somebody' has no token"):
        found.by_certificate("somebody", ())
