from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.errors import Error, InvalidError, NotFoundError
from dray.kubelet.pods.environment import environment, expand, expand_all


class Objects:
    """What a cluster has."""

    def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        return {"k": "v", "l": "w"} if (namespace, name) == ("ns", "cm") else None

    def secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        return {"pass": "word"} if (namespace, name) == ("ns", "s") else None


def env(*variables: dict[str, Any], before: tuple[tuple[str, str], ...] = (), **more: Any) -> dict[str, str]:
    container = {
        "name": "c",
        "env": list(variables),
        "resources": {"limits": {"cpu": "1500m", "memory": "1Ki"}},
    }
    document = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"app": "x", "b": "y"}},
        "spec": {"nodeName": "n", "containers": [container | more]},
    }
    wanted = view(document, Pod)
    return dict(environment(wanted, wanted.spec.containers[0], Objects(), before))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(NOPE)", "$(NOPE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("end$", "end$"),
        ("$()", "$()"),
        ("$$", "$"),
        ("$(A)$", "1$"),
    ],
)
def test_references_are_put_in(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


def test_a_variable_may_use_those_before_it_and_those_of_devices() -> None:
    found = env(
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)$(C)$(DEVICE)"},
        {"name": "C", "value": "c"},
        before=(("DEVICE", "d0"),),
    )
    assert found == {"DEVICE": "d0", "A": "a", "B": "a$(C)d0", "C": "c"}


def test_the_pods_own_value_wins_over_a_devices() -> None:
    assert env({"name": "X", "value": "pod"}, before=(("X", "device"),)) == {"X": "pod"}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "n"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "x"),
        ({"fieldRef": {"fieldPath": "metadata.labels"}}, 'app="x"\nb="y"'),
        ({"configMapKeyRef": {"name": "cm", "key": "k"}}, "v"),
        ({"secretKeyRef": {"name": "s", "key": "pass"}}, "word"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.memory", "containerName": "c"}}, "1024"),
    ],
)
def test_values_from_elsewhere(source: dict[str, Any], expected: str) -> None:
    assert env({"name": "X", "valueFrom": source}) == {"X": expected}


def test_optional_ones_may_be_missing() -> None:
    source = {"configMapKeyRef": {"name": "nope", "key": "k", "optional": True}}
    assert env({"name": "X", "valueFrom": source}) == {}


@pytest.mark.parametrize(
    ("source", "kind", "text"),
    [
        ({"configMapKeyRef": {"name": "nope", "key": "k"}}, NotFoundError, 'configmap "nope" not found'),
        ({"secretKeyRef": {"name": "s", "key": "z"}}, InvalidError, "couldn't find key z in secret ns/s"),
        ({"fieldRef": {"fieldPath": "spec.x"}}, InvalidError, "'spec.x' of the pod is not offered"),
        ({"resourceFieldRef": {"resource": "limits.gpu"}}, InvalidError, "has no limits for gpu"),
        ({"fileKeyRef": {}}, InvalidError, "valueFrom.fileKeyRef is not supported here"),
    ],
)
def test_what_cannot_be_had_is_named(source: dict[str, Any], kind: type[Error], text: str) -> None:
    with pytest.raises(kind, match=text):
        env({"name": "X", "valueFrom": source})


def test_whole_objects() -> None:
    given = [
        {"configMapRef": {"name": "cm"}, "prefix": "P_"},
        {"secretRef": {"name": "no", "optional": True}},
    ]
    assert env({"name": "P_k", "value": "own"}, envFrom=given) == {"P_k": "own", "P_l": "w"}
    with pytest.raises(NotFoundError, match='secret "no" not found'):
        env(envFrom=[{"secretRef": {"name": "no"}}])


def test_commands_use_the_whole_environment() -> None:
    assert expand_all(("echo", "$(A) $(B)"), (("A", "1"),)) == ("echo", "1 $(B)")


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": "s"}}]}, r"env\[A\]\.valueFrom\.secretKeyRef"),
        ({"env": [{"name": "A", "valueFrom": {"fieldRef": [1]}}]}, r"env\[A\]\.valueFrom\.fieldRef"),
        ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": 1}}}]}, r"configMapKeyRef: .*name"),
        ({"envFrom": [{"secretRef": "s"}]}, r"envFrom\[0\]: .*secretRef"),
        ({"envFrom": [{}, {"configMapRef": {"name": "cm", "optional": "x"}}]}, r"envFrom\[1\]: .*optional"),
    ],
)
def test_a_reference_of_another_form_is_refused_with_its_field(container: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError, match=field):
        document = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", **container}]}}
        wanted = view(document, Pod)
        environment(wanted, wanted.spec.containers[0], Objects())


def test_null_in_a_reference_is_absent() -> None:
    found = env({"name": "A", "valueFrom": {"fieldRef": None, "configMapKeyRef": {"name": "cm", "key": "k"}}})
    assert found == {"A": "v"}
    assert env(envFrom=[{"prefix": None, "secretRef": {"name": "s"}, "configMapRef": None}]) == {
        "pass": "word"
    }
