"""Sends writes to the API server, again where that is safe and may help."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.meta import Model
from dray.api.resource.claim import ResourceClaim
from dray.client import requests
from dray.client.client import Client
from dray.client.http import Request
from dray.client.requests import DeleteOptions
from dray.errors import (
    ConflictError,
    Error,
    InvariantError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.scheduler.claims.writes import Verb, Write

_log = get_log("scheduler.writing")

POLICY: Final = BackoffPolicy(first=0.1, limit=2.0, jitter=0.5)
ATTEMPTS: Final = 8
"""With the pauses in between, some seconds: a server that restarts is back by then."""


class Patience:
    """The pauses of one piece of work; over when `wait` raises the error it is given."""

    def __init__(self, clock: Clock, attempts: int = ATTEMPTS) -> None:
        self.has_lost = False
        """Whether a write that gives devices away had no answer, so that it may still be stored."""
        self._clock = clock
        self._left = attempts - 1
        self._backoff = Backoff(POLICY, random.Random())  # noqa: S311  spreads load, guards nothing

    async def wait(self, error: Error) -> None:
        """After an error that may pass."""
        if self._left <= 0:
            raise error
        self._left -= 1
        asked = error.retry_after if isinstance(error, UnavailableError) else None
        await self._clock.sleep(max(self._backoff.next(), asked or 0.0))


class Writer:
    """One for all parts of a scheduler."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.client = client
        self.clock = clock

    async def send(self, write: Write) -> Model | None:
        """Once. The object as the server has it now, or None after a deletion."""
        place: dict[str, Any] = {"namespace": write.namespace}
        if write.verb is Verb.CREATE:
            made: Model = await self.client.create(write.resource, write.body, **place)
            return made
        if write.verb is Verb.DELETE:
            options = DeleteOptions(write.uid or None, write.version or None)
            await self.client.delete(write.resource, write.name, options=options, **place)
            return None
        if write.has_whole_status:
            stored: Model = await self.client.update(write.resource, _replacing(write), subresource="status")
            return stored
        changed: Model = await self.client.patch(
            write.resource, write.name, write.body, write.patch_type, subresource=write.subresource, **place
        )
        return changed

    async def send_claim(self, write: Write) -> ResourceClaim:
        """Once; for writes of claims other than deletions."""
        found = await self.send(write)
        if not isinstance(found, ResourceClaim):
            raise InvariantError(f"{write.purpose}: the answer is no claim")
        return found

    async def read_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """As it is now; NotFoundError where it is gone."""
        meta = claim.metadata
        return await self.client.get(RESOURCE_CLAIMS, meta.name, namespace=meta.namespace)

    async def settle(
        self, writes: tuple[Write, ...], seen: Callable[[Model | None], None] = lambda answer: None
    ) -> str:
        """Writes that undo something, in order, again while the server is away. The first that is refused ends it; why.

        `seen` is called with each answer. A deletion is meant for the claim as the write before it left it.
        """
        version: dict[str, str] = {}
        for write in writes:
            if write.resource is RESOURCE_CLAIMS and write.verb is Verb.DELETE and write.name in version:
                write = replace(write, version=version[write.name])
            try:
                answer = await self.insist(write)
            except Error as error:
                return self.refused(write, error)
            if isinstance(answer, ResourceClaim):
                version[write.name] = answer.metadata.resource_version
            seen(answer)
        return ""

    async def insist(self, write: Write) -> Model | None:
        """Send a write that undoes something, again while the server is away. What is gone need not be undone: None."""
        patience = Patience(self.clock)
        while True:
            try:
                return await self.send(write)
            except NotFoundError:
                return None
            except UnavailableError as error:
                await patience.wait(error)

    async def tell(self, write: Write, pod: Pod, claim: ResourceClaim) -> tuple[Pod | None, str]:
        """Have the pod's status name its special claim; why not, "" where it does. With it the pod after that, where nobody
        else has changed the one that is given.

        Where it names another one that is there, another scheduler is at work on the pod and may bind it at any moment:
        the claim that was named first stays. Hence the version: both may believe to be the first.
        """
        patience, failure = Patience(self.clock), ""
        while True:
            try:
                pod = await self.read_pod(pod) if failure else pod
                told = pod.status.extended_resource_claim_status
                name = told.resource_claim_name if told is not None else ""
                if name == claim.metadata.name:
                    return None if failure else pod, ""
                if name and await self._has_claim(pod.metadata.namespace, name):
                    return None, f"{write.purpose}: claim {name} serves the pod already"
                version = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
                answer = await self.send(replace(write, body={**write.body, "metadata": version}))
                return answer if isinstance(answer, Pod) and not failure else None, ""
            except (ConflictError, UnavailableError) as error:
                failure = f"{write.purpose}: {error}"
                try:
                    await patience.wait(error)
                except Error:
                    return None, failure
            except Error as error:
                return None, f"{write.purpose}: {error}"

    async def read_pod(self, pod: Pod) -> Pod:
        """As it is now; NotFoundError where it is gone, or another one has its name."""
        meta = pod.metadata
        found = await self.client.get(PODS, meta.name, namespace=meta.namespace)
        if found.metadata.uid != meta.uid:
            raise NotFoundError("the pod got deleted in the meantime", kind="pod")
        return found

    async def _has_claim(self, namespace: str, name: str) -> bool:
        try:
            found = await self.client.get(RESOURCE_CLAIMS, name, namespace=namespace)
        except NotFoundError:
            return False
        return found.metadata.deletion_timestamp is None

    def refused(self, write: Write, error: Error) -> str:
        """Log it; the reason to tell."""
        _log.warning("not written", what=write.purpose, error=str(error))
        return f"{write.purpose}: {error}"

    async def bind(self, pod: Pod, node: str, *, is_exact: bool = False) -> None:
        """Put the pod on the node. A binding whose answer was lost is found again. ConflictError: it is elsewhere or going,
        or, with `is_exact`, it is not as it is given.

        UnavailableError: nobody knows whether it was bound. After any other error it was not.
        """
        patience, is_lost = Patience(self.clock), False
        while True:
            try:
                await self.client.raw(_binding(pod, node, is_exact=is_exact))
            except UnavailableError as error:
                is_lost = True
                await patience.wait(error)
                continue
            except Error as error:
                may_be_bound = is_lost or isinstance(error, ConflictError | ProtocolError)
                if may_be_bound and await self._is_on(pod, node, patience):
                    return
                raise
            return

    async def _is_on(self, pod: Pod, node: str, patience: Patience) -> bool:
        meta = pod.metadata
        while True:
            try:
                found = await self.client.get(PODS, meta.name, namespace=meta.namespace)
            except NotFoundError:
                return False
            except UnavailableError as error:
                await patience.wait(error)
                continue
            except Error as error:
                raise UnavailableError(f"whether the pod was bound cannot be read: {error}") from error
            return found.metadata.uid == meta.uid and found.spec.node_name == node


def _binding(pod: Pod, node: str, *, is_exact: bool) -> Request:
    meta = pod.metadata
    version = {"resourceVersion": meta.resource_version} if is_exact else {}
    document = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, **version},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return requests.create_sub(PODS, meta.name, "binding", document, namespace=meta.namespace)


def _replacing(write: Write) -> dict[str, Any]:
    """The document of an update of the status: a server takes that from it, checks uid and version, and keeps the rest."""
    resource = write.resource
    meta = {**write.body["metadata"], "name": write.name, "namespace": write.namespace}
    return {**write.body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
