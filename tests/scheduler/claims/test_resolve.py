from __future__ import annotations

import pytest

from dray.api.core import Pod
from dray.scheduler.claims.outcome import SUCCESS, unschedulable
from dray.scheduler.claims.pre_enqueue import sign
from dray.scheduler.claims.resolve import not_owner, resolve
from tests.scheduler.claims.objects import claim, owned_by, pod, template_entry

MADE = pod(template_entry(), made={"entry-0": "made"})


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        pytest.param(pod(), [], id="none"),
        pytest.param(pod("b", "a"), ["b", "a"], id="in-the-pods-order"),
        pytest.param(MADE, ["made"], id="from-a-template"),
        pytest.param(pod("a", template_entry("x"), made={"x": None}), ["a"], id="none-needed"),
        pytest.param(
            pod({"name": "x"}),
            'pod "default/my-pod", spec.resourceClaim "x": none of the supported fields are set',
            id="neither",
        ),
        pytest.param(pod("missing"), 'could not find ResourceClaim "default/missing"', id="missing"),
        pytest.param(
            pod(template_entry("x"), made={"x": "a"}),
            "ResourceClaim default/a was not created for Pod default/my-pod (Pod is not owner)",
            id="of-nobody",
        ),
    ],
)
def test_resolve(user: Pod, wanted: list[str] | str) -> None:
    known = {
        one.metadata.name: one
        for one in (claim(name="a"), claim(name="b"), claim(name="made", **owned_by(MADE)))
    }
    found = resolve(user, lambda namespace, name: known.get(name))
    assert (found.problem or [one.metadata.name for one in found.claims]) == wanted


def test_pods_with_claims_are_not_signable() -> None:
    assert sign(pod()) == SUCCESS
    assert sign(pod("a")) == unschedulable("pods with dra resource claims are not signable")


@pytest.mark.parametrize("namespace", ["a", "z"])
def test_a_claim_of_another_namespace_is_not_the_pods(namespace: str) -> None:
    one, user = claim(namespace=namespace), pod()
    text = f"ResourceClaim {namespace}/my-claim is not in the same namespace as Pod default/my-pod"
    assert not_owner(user, one) == text
