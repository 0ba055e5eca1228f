"""PodGroups, their pods and their claims as the tests of the claim controller need them."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.limits import POD_CLAIM_NAME_ANNOTATION
from dray.api.resource import ResourceClaim
from dray.api.scheduling import POD_GROUPS, PodGroup
from dray.controllers.claims.steps import ClaimPolicy
from tests.controllers.objects import DELETED_AT, NS, Json, claim, pod

GROUP_UID = "00000000-0000-4000-8000-0000000000f1"
ON, OFF = ClaimPolicy(workload_claims=True), ClaimPolicy()


def group_document(
    name: str = "g",
    uid: str = GROUP_UID,
    *,
    claims: dict[str, str] | None = None,
    static: dict[str, str] | None = None,
    recorded: dict[str, str | None] | None = None,
    deleted: bool = False,
) -> Json:
    """As `pod_document`."""
    entries = [{"name": key, "resourceClaimTemplateName": value} for key, value in (claims or {}).items()]
    entries += [{"name": key, "resourceClaimName": value} for key, value in (static or {}).items()]
    statuses = [
        {"name": key} | ({} if value is None else {"resourceClaimName": value})
        for key, value in (recorded or {}).items()
    ]
    metadata: Json = {"name": name, "namespace": NS, "uid": uid}
    if deleted:
        metadata["deletionTimestamp"] = DELETED_AT
    spec: Json = {"schedulingPolicy": {"basic": {}}, "resourceClaims": entries}
    return {"metadata": metadata, "spec": spec, "status": {"resourceClaimStatuses": statuses}}


def group(name: str = "g", uid: str = GROUP_UID, **kwargs: Any) -> PodGroup:
    return view(group_document(name, uid, **kwargs), PodGroup)


def member(group: str = "g", **kwargs: Any) -> Pod:
    one = pod(**kwargs)
    return msgspec.structs.replace(
        one, spec=msgspec.structs.replace(one.spec, scheduling_group={"podGroupName": group})
    )


def user(name: str = "g", uid: str = GROUP_UID) -> Json:
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": uid}


def group_claim(
    name: str = "mine",
    *,
    entry: str = "a",
    owner: str = "g",
    owner_uid: str = GROUP_UID,
    more_owners: int = 0,
    **kwargs: Any,
) -> ResourceClaim:
    """One that was made for the group."""
    reference = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "name": owner,
        "uid": owner_uid,
        "controller": True,
    }
    more = [{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": str(one)} for one in range(more_owners)]
    made = claim(name, **kwargs)
    meta = view(
        {"ownerReferences": [reference, *more], "annotations": {POD_CLAIM_NAME_ANNOTATION: entry}},
        type(made.metadata),
    )
    return msgspec.structs.replace(
        made,
        metadata=msgspec.structs.replace(
            made.metadata, owner_references=meta.owner_references, annotations=meta.annotations
        ),
    )
