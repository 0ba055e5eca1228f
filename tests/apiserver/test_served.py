from __future__ import annotations

from importlib import resources

import pytest

from dray.api.kinds import ALL_RESOURCES
from dray.api.selectors import parse_field_selector
from dray.apiserver.served import GenericObject, standard
from dray.apiserver.store.contract import Key
from dray.errors import InvalidError, NotFoundError


def test_every_kind_with_a_type_is_served_as_such() -> None:
    typed = [one.resource for one in standard().all if one.typed]
    assert typed == list(ALL_RESOURCES)
    assert all(one.versions[0] == one.resource.version for one in standard().all)


def test_nothing_is_served_twice() -> None:
    everything = standard().all
    assert len({str(one.resource) for one in everything}) == len(everything)
    assert len({(one.resource.api_version, one.resource.kind) for one in everything}) == len(everything)


def test_the_status_door_is_listed_where_there_is_one() -> None:
    assert all(("status" in one.subresources) is one.resource.has_status for one in standard().all)


@pytest.mark.parametrize(
    ("group", "version", "plurals"),
    [
        ("", "v1", "services endpoints secrets serviceaccounts persistentvolumes persistentvolumeclaims"),
        ("", "v1", "replicationcontrollers resourcequotas limitranges podtemplates pods nodes namespaces"),
        ("apps", "v1", "deployments replicasets statefulsets daemonsets controllerrevisions"),
        ("batch", "v1", "jobs cronjobs"),
        ("storage.k8s.io", "v1", "csinodes csidrivers csistoragecapacities storageclasses volumeattachments"),
        ("policy", "v1", "poddisruptionbudgets"),
        ("node.k8s.io", "v1", "runtimeclasses"),
        ("scheduling.k8s.io", "v1", "priorityclasses"),
        ("rbac.authorization.k8s.io", "v1", "roles rolebindings clusterroles clusterrolebindings"),
        ("discovery.k8s.io", "v1", "endpointslices"),
        ("events.k8s.io", "v1", "events"),
        ("kubevirt.io", "v1", "kubevirts"),
        ("resource.k8s.io", "v1beta2", "devicetaintrules"),
    ],
)
def test_what_the_programs_of_a_cluster_list_is_there(group: str, version: str, plurals: str) -> None:
    for plural in plurals.split():
        found = standard().at(group, version, plural)
        assert found.resource.plural == plural
        assert standard().of_kind(found.resource.api_version, found.resource.kind) is found
        assert standard().of_key(found.key("default", "x")) is standard().kept(found)


def test_a_place_that_nobody_serves() -> None:
    with pytest.raises(NotFoundError, match="the server could not find the requested resource"):
        standard().at("", "v1", "gadgets")
    assert standard().of_kind("v1", "Gadget") is None


@pytest.mark.parametrize(
    ("plural", "short", "singular", "namespaced"),
    [
        ("deployments", "deploy", "deployment", True),
        ("persistentvolumes", "pv", "persistentvolume", False),
        ("services", "svc", "service", True),
    ],
)
def test_other_names(plural: str, short: str, singular: str, namespaced: bool) -> None:
    found = next(one for one in standard().all if one.resource.plural == plural)
    assert (found.short_names, found.singular) == ((short,), singular)
    assert found.resource.namespaced is namespaced
    assert found.resource.type is GenericObject


def test_keys_say_the_group_and_know_what_has_no_namespace() -> None:
    assert standard().at("", "v1", "nodes").key("default", "a") == Key("nodes", "", "a")
    claims = standard().at("resource.k8s.io", "v1", "resourceclaims")
    assert claims.key("default", "a") == Key("resourceclaims.resource.k8s.io", "default", "a")
    assert claims.group_kind == "ResourceClaim.resource.k8s.io"


@pytest.mark.parametrize(
    ("group", "plural", "document", "field", "value"),
    [
        ("", "pods", {"spec": {"nodeName": "n"}}, "spec.nodeName", "n"),
        ("", "pods", {}, "spec.hostNetwork", "false"),
        ("", "pods", {"spec": {"hostNetwork": True}}, "spec.hostNetwork", "true"),
        ("", "nodes", {}, "spec.unschedulable", "false"),
        ("", "events", {"source": {"component": "kubelet"}}, "source", "kubelet"),
        ("", "events", {"reportingComponent": "scheduler"}, "source", "scheduler"),
        ("", "secrets", {"type": "Opaque"}, "type", "Opaque"),
        ("apps", "replicasets", {"status": {"replicas": 3}}, "status.replicas", "3"),
        ("apps", "replicasets", {"status": "wrong"}, "status.replicas", "0"),
        ("batch", "jobs", {"status": {"succeeded": 2}}, "status.successful", "2"),
        ("resource.k8s.io", "resourceslices", {"spec": {"driver": "d"}}, "spec.driver", "d"),
    ],
)
def test_fields_a_list_is_narrowed_by(
    group: str, plural: str, document: dict[str, object], field: str, value: str
) -> None:
    served = standard().at(group, "v1", plural)
    assert served.selectable(document)[field] == value
    served.check_fields(parse_field_selector(f"{field}={value},metadata.name=x"))


def test_a_field_that_is_not_offered() -> None:
    with pytest.raises(InvalidError, match=r"field label not supported: spec\.image"):
        standard().at("", "v1", "pods").check_fields(parse_field_selector("spec.image=x"))
    with pytest.raises(InvalidError, match=r"metadata\.namespace"):
        standard().at("", "v1", "nodes").check_fields(parse_field_selector("metadata.namespace=x"))


def test_the_data_file_comes_with_the_package() -> None:
    assert resources.files("dray.apiserver").joinpath("served.json").is_file()
