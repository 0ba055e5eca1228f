from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.client.leader import LeaderConfig
from dray.controllers.guard.parameters import Parameters
from dray.drivers.sim.parameters import SimParameters, check_parameters, joined, read_parameters
from dray.errors import InvalidError
from dray.processes.controllers import GuardOptions, certificate, webhook
from dray.runtime.clock import SystemClock

HEAD = {"apiVersion": "sim.dray.internal/v1", "kind": "SimConfig"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"env": {"A": "1", "_b2": ""}},
        {"mode": "Exclusive"},
        {"mode": "TimeSlicing", "interval": "Short"},
        {"failPrepare": "no luck", "prepareSeconds": 2},
        {"prepareSeconds": 0.5, "env": None},
        {"env": {f"A{number}": "x" * 300 for number in range(32)}},
    ],
    ids=str,
)
def test_good(fields: dict[str, Any]) -> None:
    check_parameters({**HEAD, **fields})


DEEP: Any = "x"
for _ in range(5_000):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"apiVersion": "v1"}, "apiVersion", "sim.dray.internal/v1"),
        ({"apiVersion": ""}, "apiVersion", "Required value"),
        ({"kind": "GpuConfig"}, "kind", "SimConfig"),
        ({"kind": 5}, "kind", "expected"),
        ({"mod": "Exclusive"}, "mod", 'did you mean "mode"?'),
        ({"zebra": DEEP}, "zebra", "known are apiVersion, env, failPrepare"),
        ({"z" * 1_000_000: 1}, "zzz", "unknown field"),
        ({"env": ["A"]}, "env", "expected"),
        ({"env": {"A": 1}}, "env[A]", "expected"),
        ({"env": {"A": DEEP}}, "env[A]", "expected"),
        ({"env": {"1A": "x"}}, "env[1A]", "must be a name"),
        ({"env": {"A=B": "x"}}, "env[A=B]", "must be a name"),
        ({"env": {"": "x"}}, "env[]", "must be a name"),
        ({"env": {"A" * 65: "x"}}, "env[AAA", "Too long"),
        ({"env": {"A": "x\ny"}}, "env[A]", "printable"),
        ({"env": {"A": "x\0y"}}, "env[A]", "printable"),
        ({"env": {"A": "x" * 1025}}, "env[A]", "Too long"),
        ({"env": {"SIM_RESOURCE_A": "x"}}, "env[SIM_RESOURCE_A]", "are the driver's"),
        ({"env": {"DRA_ADMIN_ACCESS": "x"}}, "env[DRA_ADMIN_ACCESS]", "are the driver's"),
        ({"env": {f"A{number}": "" for number in range(33)}}, "env", "at most 32"),
        ({"env": {f"A{number}": "x" * 1000 for number in range(20)}}, "env", "Too long"),
        ({"mode": "Shared"}, "mode", '"Exclusive", "TimeSlicing"'),
        ({"mode": "x" * 1_000_000}, "mode", "Unsupported"),
        ({"mode": "TimeSlicing", "interval": "Tiny"}, "interval", '"Default", "Short"'),
        ({"mode": "Exclusive", "interval": "Short"}, "interval", "mode TimeSlicing alone"),
        ({"interval": "Short"}, "interval", "mode TimeSlicing alone"),
        ({"failPrepare": "x" * 201}, "failPrepare", "Too long"),
        ({"failPrepare": "a\nb"}, "failPrepare", "printable"),
        ({"prepareSeconds": -1}, "prepareSeconds", "between 0 and 120"),
        ({"prepareSeconds": float("nan")}, "prepareSeconds", "between 0 and 120"),
        ({"prepareSeconds": 121}, "prepareSeconds", "between 0 and 120"),
        ({"prepareSeconds": "long"}, "prepareSeconds", "expected"),
    ],
    ids=lambda value: str(value)[:60] if not isinstance(value, dict) else ",".join(map(str, value))[:30],
)
def test_bad(fields: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_parameters({**HEAD, **fields})
    text = str(caught.value)
    assert caught.value.field.startswith(field)
    assert text.startswith(caught.value.field)
    assert says in text
    assert len(text) < 600


def test_all_faults_at_once() -> None:
    with pytest.raises(InvalidError) as caught:
        read_parameters({"mode": "x", "prepareSeconds": 500})
    assert [one.field for one in caught.value.causes] == ["apiVersion", "kind", "mode", "prepareSeconds"]


def test_the_last_counts_most() -> None:
    common = {
        **HEAD,
        "env": {"A": "1", "B": "1"},
        "mode": "TimeSlicing",
        "interval": "Long",
        "failPrepare": "no",
    }
    own = {**HEAD, "env": {"B": "2"}, "mode": "Exclusive", "prepareSeconds": 1}
    assert joined([common, own]) == SimParameters(
        api_version=HEAD["apiVersion"],
        kind=HEAD["kind"],
        env={"A": "1", "B": "2"},
        mode="Exclusive",
        fail_prepare="no",
        prepare_seconds=1,
    )
    assert joined([own, {**HEAD, "prepareSeconds": 0}]).prepare_seconds == 0
    assert joined([common, HEAD]).interval == "Long"
    assert joined([]).mode == ""


def test_the_guard_refuses_them_when_a_claim_is_written() -> None:
    config = {
        "requests": ["gpu"],
        "opaque": {"driver": "sim.dray.internal", "parameters": {**HEAD, "mod": "x"}},
    }
    with pytest.raises(InvalidError) as caught:
        Parameters({"sim.dray.internal": check_parameters}).check(
            "resourceclaims", {"spec": {"devices": {"config": [config]}}}
        )
    assert str(caught.value) == (
        'spec.devices.config[0].opaque.parameters.mod: unknown field: did you mean "mode"? '
        "(driver sim.dray.internal, requests: gpu)"
    )


def test_a_guard_that_is_given_the_check_asks_for_our_claims(tmp_path: Path) -> None:
    options = GuardOptions(
        ("127.0.0.1", 9617),
        tmp_path,
        LeaderConfig("kube-system", "guard"),
        validators={"sim.dray.internal": check_parameters},
    )
    hooks = webhook(options, certificate(options, SystemClock()), 9617, "secret")["webhooks"][1:]
    assert len(hooks) == 3
    assert all("sim.dray.internal" in hook["matchConditions"][0]["expression"] for hook in hooks)
