from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import to_raw, view
from dray.api.core import Pod
from dray.api.core.pod import PodResourceClaim
from dray.api.resource import ResourceClaim
from dray.api.scheduling import PodGroup, PodGroupResourceClaim
from dray.semantics.claims import (
    ClaimName,
    NoClaim,
    claim_for_entry,
    claim_names,
    consumer_for_entry,
    consumer_of,
    group_name,
    has_claims,
    is_for_group,
    is_for_pod,
    is_group_claim,
    is_group_consumer,
    is_pod_consumer,
    is_reserved_for_pod,
    owner_of,
    owning_group,
    owning_pod,
)

Json = dict[str, Any]
Made = dict[str, str | None]


def document(kind: str, made: Made, entries: list[Json], **spec: Any) -> Json:
    """`made` is what the status says of entries."""
    statuses = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
    return {
        "metadata": {"name": kind, "namespace": "ns", "uid": f"uid-{kind}"},
        "spec": {"resourceClaims": entries, **spec},
        "status": {"resourceClaimStatuses": statuses},
    }


def pod(*entries: Json, made: Made | None = None, group: Any = None, extended: str | None = None) -> Pod:
    raw = document("pod", made or {}, list(entries), schedulingGroup={"podGroupName": group})
    if extended is not None:
        raw["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": extended}
    return view(raw, Pod)


def group_of(*entries: Json, made: Made | None = None) -> PodGroup:
    return view(document("group", made or {}, list(entries)), PodGroup)


def named(name: str, claim: str) -> Json:
    return {"name": name, "resourceClaimName": claim}


def template(name: str) -> Json:
    return {"name": name, "resourceClaimTemplateName": "t"}


OTHERS: Made = {"nic": "pod-nic", "gpu2": None}


@pytest.mark.parametrize(
    ("entry", "made", "meant"),
    [
        pytest.param(named("gpu", "c"), {}, ClaimName("c"), id="by name"),
        pytest.param(named("gpu", "c"), {"gpu": "other"}, ClaimName("c"), id="by name, whatever the status says"),
        pytest.param(named("gpu", "c"), {"gpu": None}, ClaimName("c"), id="by name, never unneeded"),
        pytest.param(template("gpu"), {"gpu": "made"}, ClaimName("made", from_template=True), id="made"),
        pytest.param(
            template("gpu"), {**OTHERS, "gpu": "made"}, ClaimName("made", from_template=True), id="made last"
        ),
        pytest.param(template("gpu"), {"gpu": None}, NoClaim.NOT_NEEDED, id="not needed"),
        pytest.param(template("gpu"), {}, NoClaim.NOT_MADE, id="not made"),
        pytest.param(template("gpu"), OTHERS, NoClaim.NOT_MADE, id="others are made"),
        pytest.param({"name": "gpu"}, {"gpu": "made"}, NoClaim.NO_SOURCE, id="no source"),
    ],
)  # fmt: skip
def test_the_claim_that_an_entry_means(entry: Json, made: Made, meant: ClaimName | NoClaim) -> None:
    assert claim_for_entry(pod(entry, made=made), view(entry, PodResourceClaim)) == meant
    assert claim_for_entry(group_of(entry, made=made), view(entry, PodGroupResourceClaim)) == meant


@pytest.mark.parametrize(
    ("user", "names"),
    [
        (pod(), ()),
        (pod(named("b", "z"), template("a"), template("none"), made={"a": "y", "none": None}), ("z", "y")),
        (pod(named("a", "x"), named("b", "x"), {"name": "c"}, template("d")), ("x",)),
        (pod(named("a", "x"), made={"b": "of-no-entry"}, extended="w"), ("x", "w")),
        (pod(extended=""), ()),
        (group_of(named("b", "z"), template("a"), made={"a": "y", "c": "of-no-entry"}), ("z", "y")),
    ],
)
def test_all_claims_of_a_pod_or_group(user: Pod | PodGroup, names: tuple[str, ...]) -> None:
    assert claim_names(user) == names


def test_what_claims_have_to_do_with_a_pod() -> None:
    assert [has_claims(one) for one in (pod(), pod(template("a")), pod(extended="x"))] == [False, True, True]


def test_the_group_of_a_pod() -> None:
    assert group_name(pod(group="g")) == "g"
    assert group_name(pod()) is None
    assert group_name(Pod()) is None
    assert group_name(view({"spec": {"schedulingGroup": {}}}, Pod)) is None


SHARING = group_of(named("a", "shared"), template("b"))


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        (named("a", "shared"), True),
        (template("b"), True),
        (named("a", "other"), False),
        ({"name": "a", "resourceClaimTemplateName": "shared"}, False),
        (named("c", "shared"), False),
    ],
)
def test_an_entry_means_the_groups_claim_where_all_of_it_is_the_same(entry: Json, answer: bool) -> None:
    typed = view(entry, PodResourceClaim)
    assert is_group_claim(SHARING, typed) is answer
    assert consumer_for_entry(pod(), typed, SHARING) == consumer_of(SHARING if answer else pod())
    assert consumer_for_entry(pod(), typed, None) == consumer_of(pod())


def claim(owner: Json | None = None, *users: Json, namespace: str = "ns") -> ResourceClaim:
    meta = {"name": "c", "namespace": namespace, "ownerReferences": [owner] if owner else []}
    return view({"metadata": meta, "status": {"reservedFor": list(users)}}, ResourceClaim)


OWN = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "uid-pod", "controller": True}
GROUPS = {
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "kind": "PodGroup",
    "name": "group",
    "uid": "uid-group",
    "controller": True,
}


@pytest.mark.parametrize(
    ("owner", "pods", "groups"),
    [
        (None, False, False),
        (OWN, True, False),
        ({**OWN, "controller": False}, False, False),
        ({**OWN, "apiVersion": "x/v1"}, False, False),
        ({**OWN, "kind": "Job"}, False, False),
        (GROUPS, False, True),
        ({**GROUPS, "apiVersion": "scheduling.k8s.io/v1"}, False, True),
        ({**GROUPS, "apiVersion": "scheduling.k8s.iox/v1"}, False, False),
        ({**GROUPS, "apiVersion": "other.k8s.io/v1"}, False, False),
        ({**GROUPS, "kind": "Workload"}, False, False),
        ({**GROUPS, "controller": False}, False, False),
    ],
)
def test_who_controls_a_claim(owner: Json | None, pods: bool, groups: bool) -> None:
    one = claim(owner)
    assert (owning_pod(one) is not None, owning_group(one) is not None) == (pods, groups)
    found = owner_of(one)
    assert (found.uid if found is not None else None) == (
        owner["uid"] if owner and (pods or groups) else None
    )


@pytest.mark.parametrize(
    ("owner", "member_of", "alone", "with_groups"),
    [
        pytest.param(OWN, None, True, True, id="own"),
        pytest.param(None, None, False, False, id="nobody's"),
        pytest.param({**OWN, "uid": "before"}, None, False, False, id="of an earlier pod of the name"),
        pytest.param({**OWN, "controller": False}, None, False, False, id="owner, not controller"),
        pytest.param(GROUPS, "group", False, True, id="the group's"),
        pytest.param(
            {**GROUPS, "uid": "any"}, "group", False, True, id="a pod does not know the group's uid"
        ),
        pytest.param({**GROUPS, "kind": "Job"}, "group", False, False, id="a Job of the group's name"),
        pytest.param(GROUPS, "other", False, False, id="another group's"),
        pytest.param(GROUPS, None, False, False, id="a group's, the pod in none"),
        pytest.param(None, "group", False, False, id="nobody's, the pod in a group"),
    ],
)
def test_whether_a_claim_was_made_for_a_pod(
    owner: Json | None, member_of: str | None, alone: bool, with_groups: bool
) -> None:
    user = pod(group=member_of)
    assert is_for_pod(claim(owner), user) is alone
    assert is_for_pod(claim(owner), user, pod_groups=True) is with_groups
    for namespace in ("a", "z"):
        assert not is_for_pod(claim(owner, namespace=namespace), user, pod_groups=True)


def test_whether_a_claim_was_made_for_a_group() -> None:
    assert is_for_group(claim(GROUPS), SHARING)
    assert not is_for_group(claim({**GROUPS, "uid": "before"}), SHARING)
    assert not is_for_group(claim(OWN), SHARING)
    assert not is_for_group(claim(), SHARING)
    assert not is_for_group(claim(GROUPS, namespace="other"), SHARING)


def test_consumers_are_told_apart() -> None:
    pods, groups = consumer_of(pod()), consumer_of(SHARING)
    assert to_raw(pods) == {"resource": "pods", "name": "pod", "uid": "uid-pod"}
    assert to_raw(groups) == {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": "group",
        "uid": "uid-group",
    }
    assert (is_pod_consumer(pods), is_group_consumer(pods)) == (True, False)
    assert (is_pod_consumer(groups), is_group_consumer(groups)) == (False, True)


USES: Json = to_raw(consumer_of(pod()))
GROUP_USES: Json = to_raw(consumer_of(SHARING))


@pytest.mark.parametrize(
    ("users", "member_of", "alone", "with_groups"),
    [
        pytest.param([], "group", False, False, id="nobody"),
        pytest.param([USES], None, True, True, id="the pod"),
        pytest.param([{**USES, "uid": "other"}], None, False, False, id="another pod of the name"),
        pytest.param([{**USES, "uid": "other"}, USES], None, True, True, id="among others"),
        pytest.param([GROUP_USES], "group", False, True, id="its group"),
        pytest.param([GROUP_USES], "other", False, False, id="another group"),
        pytest.param([GROUP_USES], None, False, False, id="a group, the pod in none"),
        pytest.param([{**GROUP_USES, "apiGroup": "x"}], "group", False, False, id="another kind of group"),
        pytest.param(
            [{**GROUP_USES, "resource": "pods"}], "group", False, False, id="a pod of the group's name"
        ),
    ],
)
def test_whether_a_claim_is_reserved_for_a_pod(
    users: list[Json], member_of: str | None, alone: bool, with_groups: bool
) -> None:
    user = pod(group=member_of)
    assert is_reserved_for_pod(claim(None, *users), user) is alone
    assert is_reserved_for_pod(claim(None, *users), user, pod_groups=True) is with_groups
