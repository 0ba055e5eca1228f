from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from dray.api.resource import ResourceClaim
from dray.dra.metrics import DraMetrics, Method, NoMetrics
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.serve import MOST_CLAIMS, ClaimCalls, Retries, named
from dray.errors import ConflictError, Error, HardwareError, InvalidError, UnavailableError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import FakeClock, SystemClock, settle
from dray.runtime.metrics import Metrics
from dray.wire import dra
from dray.wire.connect import connect
from dray.wire.gen.dra_v1_pb2 import (
    Claim,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodeUnprepareResourcesRequest,
)
from dray.wire.serve import serve
from tests.dra.tiny import DRIVER, NODE, QUICK, Claims, Tape, asked, failing
from tests.waiting import PATIENCE, wait_until


class Caller:
    """A kubelet's side of the socket."""

    def __init__(self, client: dra.DraClient) -> None:
        self._client = client

    async def prepare(
        self, *claims: Claim, timeout: float = PATIENCE
    ) -> dict[str, NodePrepareResourceResponse]:
        request = NodePrepareResourcesRequest(claims=claims)
        return dict((await self._client.node_prepare_resources(request, timeout=timeout)).claims)

    async def unprepare(self, *claims: Claim) -> dict[str, str]:
        request = NodeUnprepareResourcesRequest(claims=claims)
        answer = await self._client.node_unprepare_resources(request, timeout=PATIENCE)
        return {uid: one.error for uid, one in answer.claims.items()}


@asynccontextmanager
async def serving(calls: ClaimCalls, tmp_path: Path, version: str = dra.V1) -> AsyncIterator[Caller]:
    path = tmp_path / "dra.sock"
    async with calls.hosting(), serve(path, [dra.DraService(calls)]), connect(path) as channel:
        yield Caller(dra.dra_client(channel, version))


def calls_of(tape: Tape, claims: Claims | None = None, retries: Retries = QUICK) -> ClaimCalls:
    return ClaimCalls(DRIVER, tape, claims or Claims(), SystemClock(), retries=retries)


@pytest.mark.parametrize("version", dra.VERSIONS)
async def test_claims_are_prepared_and_given_back(tmp_path: Path, version: str) -> None:
    tape = Tape()
    async with serving(calls_of(tape), tmp_path, version) as caller:
        answers = await caller.prepare(*asked("a", "b"))
        assert set(answers) == {"a-uid", "b-uid"}
        (device,) = answers["a-uid"].devices
        assert (device.pool_name, device.device_name) == (NODE, "a-main")
        assert (list(device.request_names), list(device.cdi_device_ids)) == (["main"], [f"{DRIVER}/dev=a"])
        assert not device.HasField("share_id")
        assert answers["a-uid"].error == ""
        assert await caller.unprepare(*asked("a", "never")) == {"a-uid": "", "never-uid": ""}
    assert tape.prepared == {"b-uid": "b"}


async def test_a_share_id_goes_through_v1_alone_and_requests_are_cut(tmp_path: Path) -> None:
    class Shared(Tape):
        async def prepare(self, claim: ResourceClaim) -> tuple[PreparedDevice, ...]:
            names = ("gpu/small", "gpu/large", "other")
            return (PreparedDevice(names, "pool", "dev", (), "0b7a5a29-6c8c-4d2c-bd7e-0a3a3f1f6a11"),)

    async with serving(calls_of(Shared()), tmp_path) as caller:
        (device,) = (await caller.prepare(*asked("a")))["a-uid"].devices
        assert list(device.request_names) == ["gpu", "other"]
        assert device.share_id == "0b7a5a29-6c8c-4d2c-bd7e-0a3a3f1f6a11"
    async with serving(calls_of(Shared()), tmp_path, dra.V1BETA1) as caller:
        (device,) = (await caller.prepare(*asked("a")))["a-uid"].devices
        assert not device.HasField("share_id")


async def test_one_bad_claim_fails_no_other(tmp_path: Path) -> None:
    def fails(name: str) -> None:
        if name == "hard":
            raise HardwareError("no\n  such   device")
        if name == "bug":
            raise KeyError("x")

    tape = Tape(fails=fails)
    async with serving(calls_of(tape, Claims(missing={"gone"})), tmp_path) as caller:
        answers = await caller.prepare(*asked("a", "hard", "gone", "bug", "b"))
        assert {uid: one.error for uid, one in answers.items()} == {
            "a-uid": "",
            "b-uid": "",
            "hard-uid": "no such device",
            "gone-uid": "claim ns/gone does not exist any more",
            "bug-uid": "claim ns/bug: prepare failed with KeyError; see the driver's log",
        }
        assert not answers["hard-uid"].devices
        assert set((await caller.unprepare(*asked("a", "hard"))).values()) == {"", "no such device"}
    # A fault that stays is not tried again.
    assert tape.calls.count(("prepare", "hard")) == 1


async def test_a_claim_twice_in_a_call_is_worked_on_once(tmp_path: Path) -> None:
    tape = Tape()
    async with serving(calls_of(tape), tmp_path) as caller:
        other = Claim(namespace="ns", name="other", uid="b-uid")
        answers = await caller.prepare(*asked("a", "a", "b"), other)
    assert (set(answers), tape.calls) == ({"a-uid", "b-uid"}, [("prepare", "a")])
    assert answers["b-uid"].error == "the UID b-uid stands for two claims in one call, ns/b and ns/other"


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (("ns", "a", ""), "the UID '' of a claim"),
        (("ns", "a", "../../etc"), "the UID '../../etc' of a claim is not one"),
        (("ns", "a", "u" * 200), "of a claim is not one"),
        (("ns", "../a", "u"), "the name '../a' of claim u is invalid"),
        (("", "a", "u"), "the namespace '' of claim u is invalid"),
        (("a/b", "a", "u"), "the namespace 'a/b' of claim u is invalid"),
        (("ns", "a\n", "u"), "of claim u is invalid"),
    ],
)
def test_names_that_are_none(claim: tuple[str, str, str], text: str) -> None:
    namespace, name, uid = claim
    refs, refused = named([Claim(namespace=namespace, name=name, uid=uid), *asked("good")])
    assert refs == [ClaimRef("ns", "good", "good-uid")]
    assert isinstance(refused[uid], InvalidError)
    assert text in str(refused[uid])


async def test_an_empty_call_and_one_with_too_many(tmp_path: Path) -> None:
    tape = Tape()
    async with serving(calls_of(tape), tmp_path) as caller:
        assert await caller.prepare() == {}
        many = [Claim(namespace="ns", name="a", uid=f"u{number}") for number in range(MOST_CLAIMS + 1)]
        with pytest.raises(InvalidError, match="at most 10000 are taken"):
            await caller.prepare(*many)
    assert tape.calls == []


async def test_thousands_of_claims_go_a_few_at_once(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(2000)]
    bad = names[::2]
    long = "because " * 1000
    tape = Tape(fails=failing(bad, lambda: HardwareError(long)))
    patient = Retries(limit=PATIENCE, backoff=QUICK.backoff)
    async with serving(calls_of(tape, retries=patient), tmp_path) as caller:
        answers = await caller.prepare(*asked(*names), timeout=PATIENCE)
    assert set(answers) == {f"{name}-uid" for name in names}
    assert len(tape.prepared) == 1000
    assert tape.most_at_once <= 32
    errors = {answers[f"{name}-uid"].error for name in bad}
    assert len(errors) == 1
    assert len(errors.pop()) < 1100


async def test_what_passes_is_tried_again_in_the_same_call(tmp_path: Path) -> None:
    failures: list[Exception] = [UnavailableError("away") for _ in range(3)]
    tape, claims = Tape(), Claims(failures=failures)
    async with serving(calls_of(tape, claims), tmp_path) as caller:
        answers = await caller.prepare(*asked("a"))
        assert answers["a-uid"].error == ""
        tape.fails = lambda name: (
            (_ for _ in ()).throw(ConflictError("locked")) if len(tape.calls) < 4 else None
        )
        assert await caller.unprepare(*asked("a")) == {"a-uid": ""}
    assert claims.asked == 4


async def test_a_claim_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    """More that fail than are worked on at once: the good one behind them is worked on in the first round."""
    stuck = [f"s{number}" for number in range(40)]
    tape, clock = Tape(fails=failing(stuck, lambda: UnavailableError("away"))), FakeClock()
    retries = Retries(limit=60.0, backoff=BackoffPolicy(first=40.0, jitter=0.0))
    calls = ClaimCalls(DRIVER, tape, Claims(), clock, retries=retries)
    async with serving(calls, tmp_path) as caller, asyncio.TaskGroup() as group:
        call = group.create_task(caller.prepare(*asked(*stuck, "good"), timeout=60))
        await wait_until(lambda: clock.sleepers == 1)
        assert sorted(tape.calls) == sorted(("prepare", name) for name in (*stuck, "good"))
        assert tape.prepared == {"good-uid": "good"}
        await clock.advance(40.0)
    answers = call.result()
    assert answers["good-uid"].error == ""
    assert {answers[f"{name}-uid"].error for name in stuck} == {"away"}
    assert tape.calls.count(("prepare", "good")) == 1
    assert tape.calls.count(("prepare", "s7")) == 2


async def test_a_conflict_that_stays_is_told_sooner(tmp_path: Path) -> None:
    """What is away is tried for an hour here, so an answer at all comes from the limit for conflicts."""
    tape = Tape(fails=failing(["a"], lambda: ConflictError("claim ns/x has device a")))
    retries = Retries(limit=3600.0, conflicts=0.2, backoff=QUICK.backoff)
    async with serving(calls_of(tape, retries=retries), tmp_path) as caller:
        answers = await caller.prepare(*asked("a"))
    assert answers["a-uid"].error == "claim ns/x has device a"
    assert len(tape.calls) > 2


async def test_a_server_that_asks_for_a_pause_gets_it(tmp_path: Path) -> None:
    tape, claims, clock = Tape(), Claims(failures=[UnavailableError("busy", retry_after=4.0)]), FakeClock()
    calls = ClaimCalls(DRIVER, tape, claims, clock, retries=QUICK)
    async with serving(calls, tmp_path) as caller, asyncio.TaskGroup() as group:
        call = group.create_task(caller.prepare(*asked("a")))
        await wait_until(lambda: clock.sleepers == 1)
        await clock.advance(3.9)
        assert not tape.calls
        await clock.advance(0.2)
    assert call.result()["a-uid"].error == ""


async def test_work_that_takes_longer_than_a_call_is_found_by_the_next(tmp_path: Path) -> None:
    tape = Tape(gate=asyncio.Event())
    assert tape.gate is not None
    calls = calls_of(tape, retries=Retries(limit=0.05, backoff=QUICK.backoff))
    async with serving(calls, tmp_path) as caller:
        answers = await caller.prepare(*asked("a"))
        assert "claim ns/a: prepare is not done after 0.05 s" in answers["a-uid"].error
        assert not await calls.wait_idle(0.01)
        tape.gate.set()
        assert (await caller.prepare(*asked("a")))["a-uid"].error == ""
        assert await calls.wait_idle(PATIENCE)
    assert tape.cancelled == 0


async def test_a_kubelet_that_gives_up_cuts_nothing_off(tmp_path: Path) -> None:
    class Begun(NoMetrics):
        methods: ClassVar[list[Method]] = []

        def calling(self, method: Method) -> AbstractContextManager[None]:
            self.methods.append(method)
            return super().calling(method)

    tape = Tape(gate=asyncio.Event())
    assert tape.gate is not None
    calls = ClaimCalls(DRIVER, tape, Claims(), SystemClock(), retries=QUICK, metrics=Begun())
    async with serving(calls, tmp_path) as caller:
        for timeout in (0.05, 0.5, 4.0):
            with pytest.raises(UnavailableError):
                await caller.prepare(*asked("a", "b"), timeout=timeout)
            if tape.at_once == 2:
                break  # on a busy machine the first calls may end before they have begun
        assert tape.at_once == 2
        async with asyncio.TaskGroup() as group:
            # As the kubelet does when the pod is gone by then: it comes after what runs.
            begun = len(Begun.methods)
            undo = group.create_task(caller.unprepare(*asked("a")))
            again = group.create_task(caller.prepare(*asked("b")))
            await wait_until(lambda: len(Begun.methods) == begun + 2)
            await settle()
            assert not undo.done() and not again.done()
            tape.gate.set()
        assert undo.result() == {"a-uid": ""}
        assert again.result()["b-uid"].error == ""
        assert await calls.wait_idle(PATIENCE)
    assert tape.cancelled == 0
    assert sorted(tape.calls) == [("prepare", "a"), ("prepare", "b"), ("unprepare", "a")]
    assert tape.prepared == {"b-uid": "b"}


async def test_calls_at_once_are_independent(tmp_path: Path) -> None:
    tape = Tape(gate=asyncio.Event())
    assert tape.gate is not None
    async with serving(calls_of(tape), tmp_path) as caller, asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(caller.prepare(*asked(f"c{number}")))
        await wait_until(lambda: tape.at_once == 8)
        tape.gate.set()
    assert len(tape.prepared) == 8


async def test_reports_are_told(tmp_path: Path) -> None:
    class Reports:
        def __init__(self) -> None:
            self.told: list[str] = []

        def prepared(self, claim: ResourceClaim, devices: tuple[PreparedDevice, ...]) -> None:
            self.told.append(f"prepared {claim.metadata.name} {devices[0].device}")

        def unprepared(self, ref: ClaimRef) -> None:
            self.told.append(f"unprepared {ref}")

        def failed(self, method: Method, ref: ClaimRef, error: Error) -> None:
            self.told.append(f"cannot {method} {ref.name}: {error}")

    reports, tape = Reports(), Tape(fails=failing(["bad"], lambda: HardwareError("no")))
    calls = ClaimCalls(DRIVER, tape, Claims(), SystemClock(), retries=QUICK, reports=reports)
    async with serving(calls, tmp_path) as caller:
        await caller.prepare(*asked("a", "bad"))
        await caller.unprepare(*asked("a", "bad"))
    assert reports.told == [
        "prepared a a-main",
        "cannot prepare bad: no",
        "unprepared ns/a",
        "cannot unprepare bad: no",
    ]


async def test_calls_are_counted(tmp_path: Path) -> None:
    metrics = Metrics()
    tape = Tape(fails=failing(["bad"], lambda: HardwareError("no")))
    measured = DraMetrics(metrics).of(DRIVER)
    calls = ClaimCalls(DRIVER, tape, Claims(), SystemClock(), retries=QUICK, metrics=measured)
    async with serving(calls, tmp_path) as caller:
        await caller.prepare(*asked("a", "bad"))
    text = metrics.render().decode()
    labels = f'driver="{DRIVER}",method="prepare"'
    assert f'dray_dra_requests_total{{{labels},result="success"}} 1.0' in text
    assert f'dray_dra_claims_total{{{labels},result="error"}} 1.0' in text
    assert f'dray_dra_errors_total{{driver="{DRIVER}",error="hardware",method="prepare"}} 1.0' in text
