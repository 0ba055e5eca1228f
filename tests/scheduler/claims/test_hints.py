from __future__ import annotations

import msgspec
import pytest

from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.errors import InvalidError
from dray.scheduler.claims.hints import Hint, after_claim_change, after_group_change, after_pod_change
from dray.scheduler.claims.resolve import Lookup
from tests.scheduler.claims.objects import (
    allocated,
    claim,
    group,
    owned_by,
    owned_by_group,
    pod,
    template_entry,
)

NAMED, WAITING = pod("my-claim"), pod(template_entry())
MADE = pod(template_entry(), made={"entry-0": "my-claim"})
GONE = claim(name="other", uid="uid-other")


def knowing(*claims: ResourceClaim) -> Lookup:
    known = {(one.metadata.namespace, one.metadata.name): one for one in claims}
    return lambda namespace, name: known.get((namespace, name))


@pytest.mark.parametrize(
    ("user", "known", "old", "new", "hint"),
    [
        pytest.param(WAITING, [], allocated(), None, Hint.SKIP, id="skip-deletes"),
        pytest.param(MADE, [], None, claim(**owned_by(MADE, uid="x")), Hint.SKIP, id="skip-wrong-claim"),
        pytest.param(NAMED, [allocated()], None, GONE, Hint.SKIP, id="skip-unrelated-claim"),
        pytest.param(NAMED, [], None, claim(), Hint.QUEUE, id="queue-on-add"),
        pytest.param(
            NAMED, [claim()], claim(), claim(finalizers=["foo"]), Hint.SKIP, id="skip-adding-finalizer"
        ),
        pytest.param(NAMED, [claim()], claim(), allocated(), Hint.QUEUE, id="queue-on-status-change"),
        pytest.param(NAMED, [claim()], allocated(name="other"), GONE, Hint.QUEUE, id="claim-deallocate"),
        pytest.param(
            NAMED, [claim()], allocated(name="other"), None, Hint.QUEUE, id="allocated-claim-deleted"
        ),
        pytest.param(NAMED, [claim()], GONE, None, Hint.SKIP, id="other-claim-deleted"),
    ],
)
def test_after_claim_change(
    user: Pod, known: list[ResourceClaim], old: ResourceClaim, new: ResourceClaim | None, hint: Hint
) -> None:
    now = [one for one in known if new is None or one.metadata.name != new.metadata.name]
    lookup = knowing(*now, *([new] if new is not None else ()))
    assert after_claim_change(user, old, new, lookup) is hint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(None, "not-a-claim", id="backoff-wrong-new-object"),
        pytest.param("not-a-claim", claim(), id="backoff-wrong-old-object"),
    ],
)
def test_objects_that_are_no_claims(old: object, new: object) -> None:
    """The queue takes the error for a yes."""
    with pytest.raises(InvalidError):
        after_claim_change(NAMED, old, new, knowing(claim()))


def renamed(one: Pod) -> Pod:
    return msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, uid="another"))


@pytest.mark.parametrize(
    ("known", "new", "hint"),
    [
        pytest.param([claim(**owned_by(MADE))], MADE, Hint.QUEUE, id="complete"),
        pytest.param([claim(**owned_by(MADE))], renamed(MADE), Hint.SKIP, id="wrong-pod"),
        pytest.param([], MADE, Hint.SKIP, id="missing-claim"),
        pytest.param([claim(**owned_by(MADE))], WAITING, Hint.SKIP, id="incomplete"),
    ],
)
def test_after_pod_change(known: list[ResourceClaim], new: Pod, hint: Hint) -> None:
    assert after_pod_change(WAITING, new, knowing(*known)) is hint


def test_a_claim_of_the_pods_group_counts_where_the_gate_is_on() -> None:
    mine = group(template_entry())
    member = pod(template_entry(), made={"entry-0": "my-claim"}, schedulingGroup={"podGroupName": "my-group"})
    one = claim(**owned_by_group(mine))
    known = knowing(one)
    assert after_claim_change(member, None, one, known, pod_groups=True) is Hint.QUEUE
    assert after_claim_change(member, None, one, known) is Hint.SKIP
    assert after_pod_change(member, member, known, pod_groups=True) is Hint.QUEUE
    assert after_pod_change(member, member, known) is Hint.SKIP


def test_a_group_helps_its_own_pods() -> None:
    member = pod(schedulingGroup={"podGroupName": "my-group"})
    assert after_group_change(member, group()) is Hint.QUEUE
    assert after_group_change(member, group(name="other")) is Hint.SKIP
    assert after_group_change(NAMED, group()) is Hint.SKIP
    with pytest.raises(InvalidError):
        after_group_change(member, claim())


def test_backoff_wrong_new_object() -> None:
    with pytest.raises(InvalidError):
        after_pod_change(WAITING, "not-a-pod", knowing())
