from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.errors import Error, InvalidError, NotFoundError
from dray.kubelet.pods.environment import environment, expand, expand_all, expand_known


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


def test_references_that_are_not_closed_are_followed_once() -> None:
    """Without a limit of time: from each of them to the end it would take hours. The text is a tenant's."""
    opened = "$(" * 500_000
    assert expand_known(f"a/$(A)/{opened}", {"A": "1"}) == f"a/1/{opened}"
    with pytest.raises(InvalidError, match="missing value for 'B'"):
        expand_known(f"$(A)$(B){opened}", {"A": "1"})
    with pytest.raises(InvalidError, match="missing value for"):
        expand_known(f"{opened})", {"A": "1"})


def test_variables_that_double_each_other_are_refused() -> None:
    doubled = [{"name": "A0", "value": "x" * 1000}]
    doubled += [{"name": f"A{at}", "value": f"$(A{at - 1})$(A{at - 1})"} for at in range(1, 41)]
    with pytest.raises(InvalidError, match="more than 131072 bytes"):
        env(*doubled)
    assert len(env(*doubled[:8])["A7"]) == 128_000
    long = "x" * 200_000
    assert expand(f"$(A){long}", {"A": "1"}) == f"1{long}"


def test_all_variables_and_all_arguments_together_are_limited() -> None:
    large = {"name": "A", "value": "x" * 100_000}
    copies = [{"name": f"B{at}", "value": "$(A)"} for at in range(100)]
    with pytest.raises(InvalidError, match="more than 8388608 bytes together"):
        env(large, *copies)
    with pytest.raises(InvalidError, match="more than 8388608 bytes together"):
        expand_all(("$(A)",) * 100, (("A", "x" * 100_000),))
