"""The claim controller's writes. Each names the very object and version it was decided for; ConflictError: decide again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from dray.api.codec import to_raw
from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference
from dray.api.scheduling import POD_GROUPS, PodGroup
from dray.client.client import Client
from dray.client.requests import DeleteOptions, PatchType, WriteOptions
from dray.controllers.claims.known import Known
from dray.controllers.claims.making import Owner
from dray.controllers.claims.steps import (
    AddReservation,
    ClaimStep,
    CreateClaim,
    RecordClaims,
    RemoveFinalizer,
    SetReservations,
)
from dray.errors import ConflictError, NotFoundError
from dray.runtime.traces import span

MANAGER: Final = "ResourceClaimController"
"""Kubernetes' own name for it, so that either controller goes on with what the other recorded."""
_SPECS: Final = 1000


class Writer:
    """Carries out steps. Template specs are immutable, so each is read once, raw, and remembered."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._specs: OrderedDict[str, Any] = OrderedDict()

    async def create(self, step: CreateClaim, owner: Owner, known: Known) -> ResourceClaim:
        """The claim, made now or found made by somebody with the same plan.

        ConflictError: a stranger's claim has the name, or the cache only lagged. NotFoundError: the template is gone.
        """
        if step.instead_of:
            await self._require_gone(step.instead_of, owner)
        spec = await self._spec(owner.namespace, step.template, known)
        try:
            return await self._client.create(RESOURCE_CLAIMS, {**step.document, "spec": spec})
        except ConflictError as taken:
            return await self._adopt(step, owner, taken)

    async def _require_gone(self, name: str, owner: Owner) -> None:
        try:
            found = await self._client.get(RESOURCE_CLAIMS, name, namespace=owner.namespace)
        except NotFoundError:
            return
        if owner.owns(found):
            raise ConflictError(f"claim {owner.namespace}/{name} is there: read again")

    async def _adopt(self, step: CreateClaim, owner: Owner, taken: ConflictError) -> ResourceClaim:
        try:
            found = await self._client.get(RESOURCE_CLAIMS, step.name, namespace=owner.namespace)
        except NotFoundError:
            raise taken from None
        if not owner.has_for(found, step.pod_claim):
            raise taken
        return found

    async def _spec(self, namespace: str, name: str, known: Known) -> Any:
        template = known.template(namespace, name)
        uid = "" if template is None else template.metadata.uid
        if uid in self._specs:
            return self._specs[uid]
        raw = await self._client.get_raw(RESOURCE_CLAIM_TEMPLATES, name, namespace=namespace)
        spec = raw.get("spec", {}).get("spec", {})
        self._specs[raw["metadata"]["uid"]] = spec
        if len(self._specs) > _SPECS:
            self._specs.popitem(last=False)
        return spec

    async def record(self, step: RecordClaims, owner: Owner) -> None:
        """Server-side apply, so that what others write into the status is not touched."""
        change = {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "metadata": {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid},
            "status": {"resourceClaimStatuses": [to_raw(one) for one in step.statuses]},
        }
        resource: Resource[Any] = PODS if owner.kind == PODS.kind else POD_GROUPS
        await self._client.patch(
            resource,
            owner.name,
            change,
            PatchType.APPLY,
            namespace=owner.namespace,
            subresource="status",
            options=WriteOptions(field_manager=MANAGER, force=True),
        )

    async def reserve(self, step: AddReservation) -> ResourceClaim:
        """The claim as it is then."""
        users = (*step.claim.status.reserved_for, step.consumer)
        return await self._patch_status(step.claim, {"reservedFor": _users(users)})

    async def carry_out(self, step: ClaimStep, claim: ResourceClaim) -> ResourceClaim:
        """One step on this version of the claim; the claim as it is then. NotFoundError: it is gone."""
        if isinstance(step, SetReservations):
            status: dict[str, Any] = {"reservedFor": _users(step.reserved_for)}
            if not step.deallocate:
                return await self._patch_status(claim, status)
            with span("controllers", "release", claim.metadata.uid):
                return await self._patch_status(claim, {**status, "allocation": None})
        if isinstance(step, RemoveFinalizer):
            rest = [one for one in claim.metadata.finalizers if one != CLAIM_FINALIZER]
            metadata = {**_version(claim), "finalizers": rest or None}
            return await self._patch(claim, {"metadata": metadata})
        await self._client.delete(
            RESOURCE_CLAIMS,
            claim.metadata.name,
            namespace=claim.metadata.namespace,
            options=DeleteOptions(uid=claim.metadata.uid),
        )
        return claim

    async def _patch_status(self, claim: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
        return await self._patch(claim, {"metadata": _version(claim), "status": status}, "status")

    async def _patch(
        self, claim: ResourceClaim, change: dict[str, Any], subresource: str | None = None
    ) -> ResourceClaim:
        return await self._client.patch(
            RESOURCE_CLAIMS,
            claim.metadata.name,
            change,
            namespace=claim.metadata.namespace,
            subresource=subresource,
            options=WriteOptions(field_manager=MANAGER),
        )

    async def look_up(self, namespace: str, name: str) -> Pod | None:
        """The pod as the API server has it now."""
        try:
            return await self._client.get(PODS, name, namespace=namespace)
        except NotFoundError:
            return None

    async def look_up_group(self, namespace: str, name: str) -> PodGroup | None:
        """The PodGroup as the API server has it now."""
        try:
            return await self._client.get(POD_GROUPS, name, namespace=namespace)
        except NotFoundError:
            return None


def _version(claim: ResourceClaim) -> dict[str, str]:
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}


def _users(users: tuple[ResourceClaimConsumerReference, ...]) -> list[Any] | None:
    """None removes the field, as an empty list would be stored by some servers."""
    return [to_raw(one) for one in users] or None
