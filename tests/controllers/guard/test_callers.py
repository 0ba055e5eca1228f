from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from dray.api.names import dns_subdomain
from dray.controllers.guard.callers import (
    CLAIMS_PATH,
    PARAMETERS_PATH,
    Callers,
    kept_secret,
    new_secret,
    secret_at,
)
from dray.controllers.guard.endpoints import endpoint_slice
from dray.controllers.guard.webhook import Service
from dray.errors import InvalidError


def certificate(common: str = "", *names: str) -> dict[str, Any]:
    subject = ((("commonName", common),),) if common else ()
    return {"subject": subject, "subjectAltName": tuple(("DNS", one) for one in names)}


def test_secrets_are_long_and_never_the_same() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100 and min(len(one) for one in made) >= 40


def test_the_newest_secret_and_the_one_before_are_known() -> None:
    callers = Callers("first")
    assert (
        callers.know("first", CLAIMS_PATH)
        and not callers.know("", CLAIMS_PATH)
        and not callers.know("firs\udcff", CLAIMS_PATH)
    )
    callers.renew()
    second = callers.secret
    assert second != "first" and callers.know("first", CLAIMS_PATH) and callers.know(second, CLAIMS_PATH)
    callers.renew()
    assert callers.know(second, CLAIMS_PATH) and not callers.know("first", CLAIMS_PATH)


def test_each_path_has_a_secret_of_its_own() -> None:
    callers = Callers("first")
    of_parameters = secret_at(PARAMETERS_PATH, "first")
    assert callers.know("first", CLAIMS_PATH) and not callers.know("first", PARAMETERS_PATH)
    assert callers.know(of_parameters, PARAMETERS_PATH) and not callers.know(of_parameters, CLAIMS_PATH)
    callers.renew()
    assert callers.know(of_parameters, PARAMETERS_PATH)
    callers.renew()
    assert not callers.know(of_parameters, PARAMETERS_PATH)
    assert dns_subdomain(of_parameters) == []


@pytest.mark.parametrize(
    ("shown", "names", "expected"),
    [
        (None, (), False),
        ({}, (), False),
        (certificate("anybody"), (), False),
        (certificate("anybody"), ("kube-apiserver",), False),
        (certificate("kube-apiserver"), ("other", "kube-apiserver"), True),
        (certificate("x", "kube-apiserver"), ("kube-apiserver",), True),
    ],
)
def test_a_certificate_where_one_is_needed(shown: Any, names: tuple[str, ...], expected: bool) -> None:
    assert Callers("s", needs_certificate=True, names=names).are_certified(shown) is expected
    assert Callers("s").are_certified(shown)


def test_a_kept_secret_stays_and_is_its_owners_alone(tmp_path: Path) -> None:
    directory = tmp_path / "guard"
    made = kept_secret(directory)
    assert kept_secret(directory) == made
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(InvalidError, match="keep the webhook's path in"):
        kept_secret(file / "below")


def test_the_endpoint_of_the_guard_that_leads() -> None:
    found = endpoint_slice(Service("dray", "dray-guard-webhook"), "10.0.0.5", 9617)
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "dray-guard-webhook"
    assert (found["addressType"], found["endpoints"][0]["addresses"]) == ("IPv4", ["10.0.0.5"])
    assert found["ports"] == [{"name": "webhook", "port": 9617, "protocol": "TCP"}]
    assert endpoint_slice(Service("dray", "g"), "fd00::1", 1)["addressType"] == "IPv6"


def test_an_api_server_takes_the_path() -> None:
    """The parts of a webhook's path must be names of the DNS."""
    assert [dns_subdomain(new_secret()) for _ in range(20)] == [[]] * 20
