from __future__ import annotations

import base64

from dray.controllers.guard.callers import PARAMETERS_PATH, secret_at
from dray.controllers.guard.webhook import Service, Target, configuration


def test_the_guard_alone_where_no_driver_is_checked() -> None:
    (hook,) = configuration(Target("https://10.0.0.5:9617/", b"CA", "hush"), ())["webhooks"]
    assert hook["clientConfig"] == {
        "url": "https://10.0.0.5:9617/claims/hush",
        "caBundle": base64.b64encode(b"CA").decode(),
    }
    assert (hook["failurePolicy"], hook["sideEffects"], hook["matchPolicy"]) == (
        "Fail",
        "NoneOnDryRun",
        "Equivalent",
    )
    (rule,) = hook["rules"]
    assert rule["resources"] == ["resourceclaims/status"]
    assert rule["apiVersions"] == ["v1", "v1beta1", "v1beta2"]


def test_parameters_are_asked_about_for_our_drivers_only() -> None:
    target = Target(Service("kube-system", "guard", 8443), b"CA", "hush")
    found = {one["name"]: one for one in configuration(target, ("b.example", "a.example"))["webhooks"][1:]}
    assert sorted(found) == [
        "deviceclasses.parameters.guard.dray.internal",
        "resourceclaims.parameters.guard.dray.internal",
        "resourceclaimtemplates.parameters.guard.dray.internal",
    ]
    hook = found["resourceclaimtemplates.parameters.guard.dray.internal"]
    assert hook["clientConfig"]["service"] == {
        "namespace": "kube-system",
        "name": "guard",
        "port": 8443,
        "path": f"/parameters/{secret_at(PARAMETERS_PATH, 'hush')}",
    }
    operations = {name.partition(".")[0]: one["rules"][0]["operations"] for name, one in found.items()}
    assert operations == {
        "deviceclasses": ["CREATE", "UPDATE"],
        "resourceclaims": ["CREATE"],
        "resourceclaimtemplates": ["CREATE"],
    }
    (condition,) = hook["matchConditions"]
    assert condition["expression"] == (
        "has(object.spec.spec) && has(object.spec.spec.devices) && has(object.spec.spec.devices.config) && "
        'object.spec.spec.devices.config.exists(c, has(c.opaque) && c.opaque.driver in ["a.example", "b.example"])'
    )
