from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from dray.apiserver.writing.kinds.defaulting import fill
from tests.apiserver.writing.small_store import SmallStore

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "1"}}}]},
}


def filled(plural: str, **fields: Any) -> dict[str, Any]:
    document = {"metadata": {"name": "one"}, **copy.deepcopy(fields)}
    write = SmallStore().write(plural)
    fill(write, document)
    again = copy.deepcopy(document)
    fill(write, again)
    assert again == document, "doing it again changes nothing"
    return document


@pytest.mark.parametrize(
    ("plural", "expected"),
    [
        (
            "deployments",
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "progressDeadlineSeconds": 600,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
                },
            },
        ),
        ("replicasets", {"replicas": 1}),
        (
            "daemonsets",
            {
                "revisionHistoryLimit": 10,
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0},
                },
            },
        ),
        (
            "statefulsets",
            {
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "podManagementPolicy": "OrderedReady",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            },
        ),
        (
            "jobs",
            {
                "parallelism": 1,
                "completions": 1,
                "backoffLimit": 6,
                "completionMode": "NonIndexed",
                "suspend": False,
                "podReplacementPolicy": "TerminatingOrFailed",
                "manualSelector": False,
            },
        ),
    ],
)
def test_a_workload_and_its_template(plural: str, expected: dict[str, Any]) -> None:
    found = filled(plural, spec={"template": TEMPLATE})["spec"]
    template = found.pop("template")
    assert found == expected
    assert template["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in template["spec"], "a pod gets it, a template does not"
    container = template["spec"]["containers"][0]
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == {"limits": {"cpu": "1"}}, "a template's requests are not filled in"


def test_what_is_said_stays() -> None:
    found = filled("deployments", spec={"replicas": 0, "strategy": {"type": "Recreate"}})["spec"]
    assert found["replicas"] == 0 and found["strategy"] == {"type": "Recreate"}
    assert filled("jobs", spec={"parallelism": 3})["spec"].get("completions") is None
    assert filled("jobs", spec={"backoffLimitPerIndex": 1})["spec"]["backoffLimit"] == 2**31 - 1


def test_a_job_takes_the_labels_of_its_pods() -> None:
    assert filled("jobs", spec={"template": TEMPLATE})["metadata"]["labels"] == {"a": "b"}
    named = {"name": "one", "labels": {"c": "d"}}
    assert filled("jobs", metadata=named, spec={"template": TEMPLATE})["metadata"]["labels"] == {"c": "d"}


def test_a_definition() -> None:
    found = filled("customresourcedefinitions", spec={"names": {"kind": "Widget", "plural": "widgets"}})[
        "spec"
    ]
    assert (found["names"]["singular"], found["names"]["listKind"]) == ("widget", "WidgetList")
    assert found["conversion"] == {"strategy": "None"}


def test_a_service() -> None:
    found = filled("services", spec={"ports": [{"port": 80}], "type": "LoadBalancer"})["spec"]
    assert found["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (found["internalTrafficPolicy"], found["externalTrafficPolicy"]) == ("Cluster", "Cluster")
    assert filled("services")["spec"]["type"] == "ClusterIP"


def test_a_secret_written_as_text() -> None:
    found = filled("secrets", stringData={"a": "b"}, data={"a": "eA==", "c": "eA=="})
    assert found["type"] == "Opaque" and "stringData" not in found
    assert found["data"] == {"a": base64.b64encode(b"b").decode(), "c": "eA=="}


@pytest.mark.parametrize("wrong", [7, [], "x", {"template": 7}, {"template": {"spec": {"containers": [7]}}}])
@pytest.mark.parametrize(
    "plural", ["deployments", "daemonsets", "statefulsets", "jobs", "cronjobs", "services"]
)
def test_what_has_another_form_is_left_alone(plural: str, wrong: Any) -> None:
    write, document = SmallStore().write(plural), {"metadata": {"name": "x"}, "spec": copy.deepcopy(wrong)}
    fill(write, document)
    assert isinstance(wrong, dict) or document["spec"] == wrong
