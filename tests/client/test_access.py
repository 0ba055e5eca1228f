from __future__ import annotations

from pathlib import Path

import pytest

from dray.client.access import in_cluster, is_in_cluster
from dray.errors import InvalidError

ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("tok\n")
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "namespace").write_text("kube-system\n")
    return tmp_path


def test_in_cluster(pod: Path) -> None:
    assert is_in_cluster(pod, ENVIRON)
    access = in_cluster(pod, ENVIRON)
    assert (access.server, access.namespace) == ("https://10.96.0.1:443", "kube-system")
    assert access.ca is not None
    assert access.ca.read() == b"CA"
    assert access.user.token_file is not None
    assert access.user.token_file.path == pod / "token"


def test_ipv6_service_address(pod: Path) -> None:
    environ = {**ENVIRON, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert in_cluster(pod, environ).server == "https://[fd00::1]:443"


def test_namespace_file_may_be_missing(pod: Path) -> None:
    (pod / "namespace").unlink()
    assert in_cluster(pod, ENVIRON).namespace == "default"


@pytest.mark.parametrize("missing", sorted(ENVIRON))
def test_outside_a_pod(pod: Path, missing: str) -> None:
    environ = {key: value for key, value in ENVIRON.items() if key != missing}
    assert not is_in_cluster(pod, environ)
    with pytest.raises(InvalidError, match="not in a pod"):
        in_cluster(pod, environ)


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_incomplete_service_account(pod: Path, name: str) -> None:
    (pod / name).write_text("")
    with pytest.raises(InvalidError, match=f"{name}.* is empty"):
        in_cluster(pod, ENVIRON)
    (pod / name).unlink()
    with pytest.raises(InvalidError, match=f"{name}: cannot read"):
        in_cluster(pod, ENVIRON)
