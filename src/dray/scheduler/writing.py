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
            options = DeleteOptions(uid=write.uid or None)
            await self.client.delete(write.resource, write.name, options=options, **place)
            return None
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

        `seen` is called with each answer.
        """
        for write in writes:
            patience = Patience(self.clock)
            while True:
                try:
                    seen(await self.send(write))
                except NotFoundError:
                    break
                except UnavailableError as error:
                    try:
                        await patience.wait(error)
                    except UnavailableError:
                        return self._refused(write, error)
                    continue
                except InvariantError:
                    raise
                except Error as error:
                    return self._refused(write, error)
                break
        return ""

    async def tell(self, write: Write, pod: Pod, claim: ResourceClaim) -> str:
        """Have the pod's status name its special claim; why not, "" where it does.

        Where it names another one that is there, another scheduler is at work on the pod and may bind it at any moment:
        the claim that was named first stays. Hence the version: both may believe to be the first.
        """
        patience, failure = Patience(self.clock), ""
        while True:
            try:
                pod = await self._same_pod(pod) if failure else pod
                told = pod.status.extended_resource_claim_status
                name = told.resource_claim_name if told is not None else ""
                if name == claim.metadata.name:
                    return ""
                if name and await self._has_claim(pod.metadata.namespace, name):
                    return f"{write.purpose}: claim {name} serves the pod already"
                version = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
                await self.send(replace(write, body={**write.body, "metadata": version}))
                return ""
            except (ConflictError, UnavailableError) as error:
                failure = f"{write.purpose}: {error}"
                try:
                    await patience.wait(error)
                except Error:
                    return failure
            except InvariantError:
                raise
            except Error as error:
                return f"{write.purpose}: {error}"

    async def _same_pod(self, pod: Pod) -> Pod:
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

    def _refused(self, write: Write, error: Error) -> str:
        _log.warning("not written", what=write.purpose, error=str(error))
        return f"{write.purpose}: {error}"

    async def bind(self, pod: Pod, node: str) -> None:
        """Put the pod on the node. A binding whose answer was lost is found again. ConflictError: it is elsewhere or going.

        UnavailableError: nobody knows whether it was bound. After any other error it was not.
        """
        patience, is_lost = Patience(self.clock), False
        while True:
            try:
                await self.client.raw(_binding(pod, node))
            except UnavailableError as error:
                is_lost = True
                await patience.wait(error)
                continue
            except InvariantError:
                raise
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
            except InvariantError:
                raise
            except Error as error:
                raise UnavailableError(f"whether the pod was bound cannot be read: {error}") from error
            return found.metadata.uid == meta.uid and found.spec.node_name == node


def _binding(pod: Pod, node: str) -> Request:
    meta = pod.metadata
    document = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return requests.create_sub(PODS, meta.name, "binding", document, namespace=meta.namespace)
