"""Many requests to one server, and what must hold during and after them."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dray.allocation.selector import check_selector
from dray.api.codec import view
from dray.api.validation import validate
from dray.apiserver.served import standard
from tests.apiserver.bad_input.catalog import Catalog, read_catalog
from tests.apiserver.bad_input.mutations import dumped
from tests.apiserver.bad_input.program import Program, dump, settled
from tests.apiserver.bad_input.seeds import NAMES, SEEDS, body_of
from tests.apiserver.bad_input.wire import Answer, Connection, Request, connection

_MEANT: Final = (503, 504, 507)
_WRITES: Final = ("POST", "PUT", "PATCH", "DELETE")
_AS_UPSTREAM: Final = b"more than one PodDisruptionBudget"
"""A 500 that Kubernetes gives too: what is wrong is in the cluster, not in the request."""
_TRACEBACK: Final = re.compile(r'^.*(?:traceback="|Traceback \().*$', re.MULTILINE)
_MANY: Final = 20


@dataclass
class Tally:
    """What a batch came to."""

    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    refused: list[Request] = field(default_factory=list)
    """Writes that were not done: those refused, and dry runs."""

    @property
    def count(self) -> int:
        """All requests."""
        return self.codes.total()

    def note(self, request: Request, answer: Answer) -> None:
        """Judge an answer."""
        self.codes[request.method, answer.code] += 1
        if (fault := fault_of(request, answer)) and len(self.faults) < _MANY:
            shown = (
                f"{request.method} {request.path[:300]} {request.headers} {(request.body or b'')[:1500]!r}"
            )
            self.faults.append(f"{fault}: {shown} -> {answer.code} {answer.body[:500]!r}")
        if request.method in _WRITES and (answer.code >= 400 or "dryRun=All" in request.path):
            self.refused.append(request)


def fault_of(request: Request, answer: Answer) -> str:
    """What is wrong with an answer to a bad request; nothing where it is as it should be."""
    if answer.code == 0:
        return "no answer"
    if answer.code >= 500 and answer.code not in _MEANT and _AS_UPSTREAM not in answer.body:
        return "the server's fault"
    if answer.code >= 400 and request.method != "HEAD" and not answer.is_status:
        return "no Status"
    return ""


async def plant(asking: Connection, catalog: Catalog) -> None:
    """Make sure that there is something to change: every seed under every name."""
    for one in catalog.operations:
        if one.action != "post" or one.door or one.plural not in SEEDS:
            continue
        for name in NAMES:
            body = body_of(one.plural, "", one.api_version, one.kind, name)
            path = one.path.replace("{namespace}", "default")
            answer = await asking.ask(
                Request("POST", path, dumped(body), (("Content-Type", "application/json"),))
            )
            # A widget's schema may have been spoilt meanwhile, and a namespace or definition may be on its way out.
            assert answer.code in (201, 403, 405, 409) or one.plural == "widgets", (path, answer)


async def planted(program: Program) -> Catalog:
    """Everything planted, and the catalog with the custom kinds in it."""
    async with connection(program.target) as asking:
        await plant(asking, await read_catalog(asking))
        catalog = await read_catalog(asking)
        await plant(asking, catalog)
        return catalog


async def run(program: Program, requests: Iterable[Request], tally: Tally, workers: int = 8) -> None:
    """Send all, a few at a time. A request without an answer in time raises TimeoutError."""
    todo = iter(requests)
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(program, todo, tally))


async def _work(program: Program, todo: Iterator[Request], tally: Tally) -> None:
    async with connection(program.target) as asking:
        for request in todo:
            try:
                tally.note(request, await asking.ask(request))
            except TimeoutError:
                shown = f"{request.method} {request.path[:300]} {(request.body or b'')[:1500]!r}"
                tally.faults.append(f"no answer in time: {shown}")
                asking.drop()


async def changed_by_refusals(program: Program, refused: list[Request]) -> list[str]:
    """Send refused writes again until all of them are refused in one go; then nothing may be different after it.

    A write may be good the second time, since others came between; it is left out then.
    """
    async with connection(program.target) as asking:
        for _ in range(_MANY):
            revision, before, tally = await settled(asking), await dump(program.target), Tally()
            await run(program, refused, tally)
            if len(tally.refused) == len(refused):
                break
            refused = tally.refused
        else:
            return ["refused writes are never all refused"]
        after = await dump(program.target)
        changed = [
            path for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)
        ]
        return changed if await settled(asking) == revision else [*changed, "the revision"]


def wrongly_stored(found: dict[str, list[Any]]) -> list[str]:
    """Objects of typed kinds that their own rules would refuse."""
    faults = []
    for served in standard().all:
        if not served.typed:
            continue
        resource = served.resource
        for document in found.get(resource.path(), ()):
            errors = validate(resource, view(document, resource.type), check_selector=check_selector)
            faults += [
                f"{resource} {document['metadata']['name']}: {error}"
                for error in errors
                if error.field != "metadata.generateName"
            ]
    return faults


def tracebacks(log: str) -> list[str]:
    """All there are."""
    return [one[0] for one in _TRACEBACK.finditer(log)]
