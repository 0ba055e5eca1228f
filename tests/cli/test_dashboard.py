"""The flags of `dray dashboard`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli.dashboard import make_options
from dray.cli.main import make_parser
from dray.errors import InvalidError
from dray.processes.dashboard import DashboardAt, DashboardOptions

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def options(directory: Path, *flags: str) -> DashboardOptions:
    path = directory / "kubeconfig"
    path.write_text(KUBECONFIG)
    words = ["dashboard", f"--kubeconfig={path}", *flags]
    return make_options(make_parser(words).parse_args(words))


def test_defaults(tmp_path: Path) -> None:
    found = options(tmp_path)
    assert (found.address, found.token_file, found.allowed_hosts) == (("127.0.0.1", 9620), None, ())
    assert found.access.server == "http://127.0.0.1:1"


def test_flags(tmp_path: Path) -> None:
    found = options(
        tmp_path, "--listen=[::1]:0", "--token-file=/t", "--allow-host=a.example", "--allow-host=b:1"
    )
    assert (found.address, found.token_file) == (("::1", 0), Path("/t"))
    assert found.allowed_hosts == ("a.example", "b:1")


@pytest.mark.parametrize(
    ("flag", "field"),
    [("--listen=none", "--listen"), ("--listen=here", "--listen"), ("--allow-host=http://x", "--allow-host")],
)
def test_flags_that_are_wrong(tmp_path: Path, flag: str, field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        options(tmp_path, flag)
    assert caught.value.field == field
    assert field in str(caught.value)


def test_the_token_is_in_the_address_for_people_and_nowhere_else() -> None:
    at = DashboardAt("http://127.0.0.1:1", "secret-token")
    assert at.entrance == "http://127.0.0.1:1/#token=secret-token"
    assert "secret-token" not in repr(at)
