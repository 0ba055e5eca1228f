from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import msgspec
import pytest

from dray.dra.parcels import ClaimDoor, ClaimRef
from dray.errors import ConflictError, Error, HardwareError, UnavailableError
from dray.inventory.doors import Offered, offers, ways
from dray.inventory.holds import Holds
from dray.inventory.inventory import Inventory
from dray.inventory.ledger import Door, Hold, KubeletLook
from dray.runtime.clock import FakeClock, SystemClock, settle
from dray.runtime.tasks import running
from tests.inventory.conftest import claim, gpu
from tests.waiting import until, wait_until

RESOURCE = "example.com/gpu"
A, B = ClaimRef("default", "a", "uid-a"), ClaimRef("default", "b", "uid-b")
NOBODY = KubeletLook(100.0)


def who(holds: Holds) -> list[tuple[str, str]]:
    return [(hold.device, hold.holder) for hold in holds.current.holds]


def on_disk(path: Path) -> list[tuple[str, str]]:
    with Holds(path, FakeClock()) as holds:
        return who(holds)


def taking_nothing(holds: Holds) -> None:
    holds.looked(KubeletLook(time.monotonic()), [])


async def test_what_is_given_is_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        await holds.take_plugin(RESOURCE, [gpu(1)])
        await holds.claim_door("gpu").take(A, [gpu(2)])
        content = (tmp_path / "holds").read_bytes()
    (tmp_path / "copy").write_bytes(content)
    assert on_disk(tmp_path / "copy") == [
        ("gpu-2", "claim default/a"),
        ("gpu-1", "a new pod"),
    ]


async def test_the_first_has_it_and_the_second_is_told_who(tmp_path: Path) -> None:
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        results = await asyncio.gather(
            holds.take_plugin(RESOURCE, [gpu(1)]),
            holds.claim_door("gpu").take(A, [gpu(1)]),
            holds.claim_door("gpu").take(B, [gpu(2)]),
            holds.take_plugin(RESOURCE, [gpu(2)]),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [type(None), ConflictError, type(None), ConflictError]
        assert str(results[3]).startswith("device gpu-2 of example.com/gpu is in use: claim default/b has it")


async def test_the_next_pod_with_a_device_is_on_disk_as_well(tmp_path: Path) -> None:
    """A plain init container is never listed: what was known of the pod before it says nothing about it."""
    path, clock = tmp_path / "holds", FakeClock()
    with Holds(path, clock) as holds:
        holds.looked(KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("default/one",)}), [gpu(1)])
        await holds.take_plugin(RESOURCE, [gpu(2)])
        await holds.take_plugin(RESOURCE, [gpu(1)])
    with Holds(path, clock) as holds:
        assert who(holds) == [("gpu-1", "a new pod"), ("gpu-2", "a new pod")]


async def test_what_the_host_refuses_is_held_by_nobody(tmp_path: Path) -> None:
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        await holds.take_plugin(RESOURCE, [gpu(2)])
        with pytest.raises(HardwareError):
            async with holds.giving(RESOURCE, [gpu(1), gpu(2)]):
                assert len(who(holds)) == 2
                raise HardwareError("the bus is stuck")
        assert who(holds) == [("gpu-2", "a new pod")]
        await holds.claim_door("gpu").take(A, [gpu(1)])


async def test_it_is_the_door_that_drivers_expect(tmp_path: Path) -> None:
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        holds.allocated([])
        door: ClaimDoor = holds.claim_door("gpu")
        await door.take(A, [gpu(1)])
        await door.take(A, [gpu(1)])
        await door.give_back(A)
        await door.give_back(A)
        assert who(holds) == []


async def test_those_who_show_devices_are_told(tmp_path: Path) -> None:
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        before = holds.current
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(holds.wait_newer(before.generation))
            await holds.take_plugin(RESOURCE, [gpu(1)])
        held = waiting.result()
        assert held.has(gpu(1, "vfio"))
        assert held.has(gpu(1), Door.PLUGIN)
        assert not held.has(gpu(1), Door.DRA)
        assert not held.has(gpu(2))
        assert held.kinds(Door.PLUGIN) == {"gpu"}
        assert held.kinds(Door.DRA) == frozenset()
        holds.looked(NOBODY, [gpu(1)])
        assert holds.current is held  # nothing is different yet


async def hurried(clock: FakeClock, call: Coroutine[None, None, None], limit: float) -> None:
    """A call that may wait; time passes for it, at most `limit` seconds."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(call)
        for _ in range(int(limit)):
            await asyncio.wait({task}, timeout=0.005)
            if task.done():
                break
            await clock.advance(1.0)


async def test_without_a_file_claims_wait_for_the_kubelet(tmp_path: Path) -> None:
    """Pods may have devices from a time that nobody remembers."""
    clock = FakeClock()
    with Holds(tmp_path / "holds", clock) as holds:
        with pytest.raises(ExceptionGroup) as caught:
            await hurried(clock, holds.claim_door("gpu").take(A, [gpu(1)]), 31)
        assert "the kubelet has not told yet" in str(caught.value.exceptions[0])
        await holds.take_plugin(RESOURCE, [gpu(3)])  # the kubelet knows what it does
        async with asyncio.TaskGroup() as group:
            taking = group.create_task(holds.claim_door("gpu").take(A, [gpu(2)]))
            await settle()
            assert not taking.done()
            old = KubeletLook(clock.monotonic(), {(RESOURCE, "gpu-1"): ("default/old",)})
            holds.looked(old, [gpu(1), gpu(2)])
        with pytest.raises(ConflictError, match="pod default/old"):
            await holds.claim_door("gpu").take(A, [gpu(1)])
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        await holds.claim_door("gpu").take(B, [gpu(4)])


@pytest.mark.parametrize("content", [b"", b"garbage", b"half"])
async def test_a_file_that_cannot_be_used_is_set_aside(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "holds", FakeClock()
    with Holds(path, clock) as holds:
        await holds.take_plugin(RESOURCE, [gpu(1)])
    path.write_bytes(path.read_bytes()[:-5] if content == b"half" else content)
    with Holds(path, clock) as holds:
        assert who(holds) == []
    assert "who holds what is lost, asking the kubelet" in caplog.text
    assert len(list(tmp_path.glob("holds.corrupt-*"))) == 1


async def test_after_lost_state_both_doors_wait_until_all_containers_are_told(tmp_path: Path) -> None:
    path, clock = tmp_path / "holds", FakeClock()
    path.write_bytes(b"lost")
    notes = frozenset({(RESOURCE, "gpu-1")})
    with Holds(path, clock) as holds:
        holds.contest({part: frozenset({(Door.DRA, "gpu")}) for part in (*gpu(1).parts, *gpu(2).parts)})
        assert holds.needs_notes
        async with asyncio.TaskGroup() as group:
            pod = group.create_task(holds.take_plugin(RESOURCE, [gpu(2)]))
            await holds.take_plugin(RESOURCE, [gpu(3)])  # nobody else offers it
            await settle()
            holds.looked(KubeletLook(5.0, lingering=notes), [gpu(1), gpu(2)])
            await settle()
            assert not pod.done()  # a container of a moment ago may not be listed yet
            holds.looked(KubeletLook(10.0, lingering=notes), [gpu(1), gpu(2)])
        with pytest.raises(ConflictError, match="gpu-1"):
            await holds.claim_door("gpu").take(A, [gpu(1)])
        for at in (30.0, 31.0):
            holds.looked(KubeletLook(at, lingering=notes), [gpu(1)])
        assert holds.current.has(gpu(1))  # an init container
        assert not holds.current.has(gpu(2))


async def test_what_was_written_before_all_was_told_is_no_better_than_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "holds", FakeClock()
    path.write_bytes(b"lost")
    for _ in range(2):
        with Holds(path, clock) as holds:
            holds.restore_claim(claim("a", gpu(1)))
            async with running(holds.run(), name="writer"):
                await clock.advance(1.0)
                await wait_until(lambda: b"uid-a" in path.read_bytes() if path.exists() else False)
            assert holds.needs_notes
    with Holds(path, clock) as holds:
        holds.looked(KubeletLook(clock.monotonic()), [])
        assert holds.needs_notes


async def refused(call: Coroutine[None, None, None]) -> str:
    with pytest.raises(ConflictError) as caught:
        await call
    return str(caught.value)


async def test_the_next_process_waits_for_the_one_before_where_two_doors_offer(tmp_path: Path) -> None:
    """A rolling update: the new one is ready, and then the old one ends."""
    path, clock = tmp_path / "holds", FakeClock()
    both = {gpu(1).parts[0]: frozenset({(Door.DRA, "gpu"), (Door.PLUGIN, "gpu")})}
    devices = [gpu(number) for number in range(5)]
    with Holds(path, clock) as old:
        old.looked(KubeletLook(0.0), devices)
        old.restore_claim(claim("b", gpu(4)))
        await old.take_plugin(RESOURCE, [gpu(3)])
        with Holds(path, clock, takes_over=True) as new:
            new.contest(both)
            new.restore_claim(claim("b", gpu(4)))
            new.looked(KubeletLook(0.0), devices)
            async with running(new.run(), name="writer"), asyncio.TaskGroup() as group:
                await new.claim_door("gpu").take(A, [gpu(2)])  # no pod can get it
                contested = group.create_task(refused(new.claim_door("gpu").take(A, [gpu(1)])))
                await clock.advance(5.0)
                await old.take_plugin(RESOURCE, [gpu(1)])
                assert not contested.done()
                old.__exit__()
                await clock.advance(1.0)
                await new.wait_ours()
                assert "a new pod has it" in await contested
                new.give_back_claim("gpu", ClaimRef("default", "b", "uid-b"))  # the old one has unprepared it
                new.allocated([])
                assert sorted(who(new)) == [
                    ("gpu-1", "a new pod"),
                    ("gpu-2", "claim default/a"),
                    ("gpu-3", "a new pod"),
                ]


async def test_a_predecessor_that_does_not_end_is_told(tmp_path: Path) -> None:
    path, clock = tmp_path / "holds", FakeClock()
    with Holds(path, clock), Holds(path, clock, takes_over=True) as new:
        new.looked(KubeletLook(0.0), [])
        async with running(new.run(), name="writer"):
            with pytest.raises(ExceptionGroup) as caught:
                await hurried(clock, new.take_plugin(RESOURCE, [gpu(1)]), 31)
        assert "another process of the agent still gives devices away" in str(caught.value.exceptions[0])
        assert who(new) == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with Holds(tmp_path / "holds", FakeClock()), pytest.raises(ConflictError):
        Holds(tmp_path / "holds", FakeClock()).__enter__()


async def test_a_full_disk_gives_nothing_away(tmp_path: Path) -> None:
    path = tmp_path / "state" / "holds"
    with Holds(path, FakeClock()) as holds:
        taking_nothing(holds)
        holds.allocated([claim("a", gpu(2))])
        (tmp_path / "state" / ".holds.tmp").mkdir()  # what is written first cannot be written
        for attempt in (
            holds.take_plugin(RESOURCE, [gpu(1)]),
            holds.claim_door("gpu").take(A, [gpu(2)]),
        ):
            with pytest.raises(Error):
                await attempt
        assert [(hold.device, hold.confirmed) for hold in holds.current.holds] == [("gpu-2", False)]
        (tmp_path / "state" / ".holds.tmp").rmdir()
        await holds.take_plugin(RESOURCE, [gpu(1)])
    assert len(on_disk(path)) == 2


async def test_what_one_door_alone_can_give_needs_no_disk(tmp_path: Path) -> None:
    inventory = Inventory(devices=(gpu(1), gpu(2), gpu(3)))
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        holds.contest(ways(offers(inventory, lambda kind, resource: Offered.PLUGIN)))
        await holds.take_plugin(RESOURCE, [gpu(1)])
        assert not (tmp_path / "holds").exists()  # nobody waited for it
        assert not (holds.is_waiting or holds.is_lent)
        assert holds.needs_notes
        async with running(holds.run(), name="writer"):
            generation = holds.current.generation
            holds.contest(ways(offers(inventory, lambda kind, resource: Offered.DRA)))  # it moves
            assert holds.current.generation > generation
            assert holds.is_waiting
            assert holds.is_lent
            holds.looked(KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("default/one",)}), inventory.devices)
            with pytest.raises(ConflictError, match="pod default/one"):
                await holds.claim_door("gpu").take(A, [gpu(1)])


async def test_what_nobody_waits_for_is_written_soon(tmp_path: Path) -> None:
    path = tmp_path / "holds"
    with Holds(path, SystemClock()) as holds:
        holds.looked(KubeletLook(time.monotonic()), [])
        async with running(holds.run(), name="writer"):
            holds.allocated([claim("a", gpu(1))])
            await wait_until(lambda: path.exists() and b"uid-a" in path.read_bytes())
            written = path.stat().st_mtime_ns
            await holds.claim_door("gpu").take(A, [gpu(1)])
            assert path.stat().st_mtime_ns == written  # it was there as allocated: nobody waits for the disk
            await wait_until(lambda: path.stat().st_mtime_ns != written)
    with Holds(path, FakeClock()) as holds:
        assert [hold.confirmed for hold in holds.current.holds] == [True]


async def test_many_at_once_share_their_writes(tmp_path: Path) -> None:
    path = tmp_path / "holds"
    seen: set[tuple[int, int]] = set()

    async def watch() -> None:
        while True:
            if path.exists():
                seen.add((path.stat().st_ino, path.stat().st_mtime_ns))
            await asyncio.sleep(0)

    with Holds(path, SystemClock()) as holds:
        taking_nothing(holds)
        async with running(watch(), name="watch"):
            await asyncio.gather(*(holds.take_plugin(RESOURCE, [gpu(number)]) for number in range(50)))
    assert len(on_disk(path)) == 50
    assert len(seen) <= 3


async def test_a_caller_that_gives_up_leaves_the_hold_for_the_looks(tmp_path: Path) -> None:
    clock = FakeClock()
    with Holds(tmp_path / "holds", clock) as holds:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(holds.take_plugin(RESOURCE, [gpu(1)]))
            await asyncio.sleep(0)
            call.cancel()
        assert len(who(holds)) == 1
        await holds.take_plugin(RESOURCE, [gpu(2)])
        await clock.advance(60)
        for _ in range(2):
            holds.looked(NOBODY, [gpu(1), gpu(2)])
        assert who(holds) == []


async def test_two_holders_after_lost_state_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dray.inventory")
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        holds.restore_claim(claim("a", gpu(1)))
        holds.looked(KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("default/one",)}), [gpu(1)])
        assert "device has two holders" in caplog.text
        with pytest.raises(ConflictError):
            await holds.take_plugin(RESOURCE, [gpu(1)])


def lines(caplog: pytest.LogCaptureFixture, text: str) -> list[int]:
    """The levels of the lines that say this."""
    return [one.levelno for one in caplog.records if text in one.getMessage()]


def test_what_the_kubelet_lists_and_nobody_noted_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dray.inventory")
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        for _ in range(2):
            holds.looked(KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("default/one",)}), [gpu(1)])
    assert lines(caplog, "device is held") == [logging.INFO]
    assert lines(caplog, "device has two holders") == []


@pytest.mark.parametrize("has_plugins", [False, True])
def test_a_missing_socket_is_told_once_and_loudly_only_where_pods_get_devices(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_plugins: bool
) -> None:
    caplog.set_level(logging.INFO, "dray.inventory")
    door = Door.PLUGIN if has_plugins else Door.DRA
    text = "the kubelet has no pod-resources socket here"
    level = logging.WARNING if has_plugins else logging.INFO
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        holds.contest({gpu(1).parts[0]: frozenset({(door, "gpu")})})
        before = holds.current.generation
        holds.lacks_socket(None)
        assert holds.current.generation == before and lines(caplog, text) == []
        for _ in range(2):
            holds.lacks_socket(tmp_path / "kubelet.sock")
        assert holds.current.generation == before + 1 and lines(caplog, text) == [level]
        holds.lacks_socket(None)
        assert holds.current.generation == before + 2 and lines(caplog, text) == [level]
        holds.lacks_socket(tmp_path / "kubelet.sock")
        assert lines(caplog, text) == [level, level]


async def test_who_waits_for_a_missing_socket_is_sent_away_soon_and_may_come_again_in_a_second(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    with Holds(tmp_path / "holds", clock) as holds:
        holds.lacks_socket(tmp_path / "kubelet.sock")
        with pytest.raises(ExceptionGroup) as caught:
            await hurried(clock, holds.claim_door("gpu").take(A, [gpu(1)]), 3)
        error = caught.value.exceptions[0]
        assert isinstance(error, UnavailableError) and error.retry_after == 1.0
        assert "mount its directory into the agent" in str(error)
        holds.contest({gpu(1).parts[0]: frozenset({(Door.DRA, "gpu")})})
        await holds.claim_door("gpu").take(A, [gpu(1)])  # no plugin gives anything: nobody need be asked


async def test_a_full_disk_is_told_once_until_it_was_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock, blocked = tmp_path / "state" / "holds", FakeClock(), tmp_path / "state" / ".holds.tmp"
    text = "who holds what is not on disk"

    async def pass_time(condition: Callable[[], bool]) -> None:
        async def look() -> bool:
            await clock.advance(1.0)
            return condition()

        await until(look)

    with Holds(path, clock) as holds:
        blocked.mkdir()
        async with running(holds.run(), name="writer"):
            for number, told in ((1, 1), (2, 2)):
                holds.allocated([claim("a", gpu(number))])
                await pass_time(lambda told=told: len(lines(caplog, text)) == told)  # type: ignore[misc]
                for _ in range(25):
                    await clock.advance(1.0)
                    await asyncio.sleep(0.002)
                assert len(lines(caplog, text)) == told, "however often it fails"
                blocked.rmdir()
                await pass_time(path.exists)
                await pass_time(lambda number=number: f"gpu-{number}" in path.read_text())  # type: ignore[misc]
                blocked.mkdir()


@pytest.mark.parametrize("is_claim_first", [False, True])
def test_two_holders_are_told_whichever_is_noted_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_claim_first: bool
) -> None:
    look = KubeletLook(1.0, {(RESOURCE, "gpu-1"): ("default/one",)})
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        for is_claim in (is_claim_first, not is_claim_first):
            assert lines(caplog, "device has two holders") == []
            if is_claim:
                holds.restore_claim(claim("a", gpu(1)))
            else:
                holds.looked(look, [gpu(1)])
    assert lines(caplog, "device has two holders") == [logging.ERROR]


async def test_no_two_holders_are_told_where_one_is_not_sure_or_has_another_device(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        await holds.take_plugin(RESOURCE, [gpu(1)])  # given, and not listed yet
        holds.restore_claim(claim("a", gpu(1)))
        holds.restore_claim(claim("b", gpu(1)))  # the same door: the scheduler knows
        holds.restore_claim(claim("c", gpu(2)))
        holds.allocated([claim("d", gpu(3))])
        holds.looked(KubeletLook(2.0, {(RESOURCE, "gpu-3"): ("default/one",)}), [gpu(1), gpu(2), gpu(3)])
    assert lines(caplog, "device has two holders") == []


async def test_what_is_given_back_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dray.inventory")
    with Holds(tmp_path / "holds", FakeClock()) as holds:
        taking_nothing(holds)
        holds.allocated([])
        for number, name in ((1, A), (2, B)):
            await holds.claim_door("gpu").take(name, [gpu(number)])
        assert lines(caplog, "device is given back") == []
        await holds.claim_door("gpu").give_back(A)
        assert lines(caplog, "device is given back") == [logging.INFO]


@pytest.mark.parametrize(
    ("is_held", "offered", "waits"),
    [(False, Door.DRA, False), (True, Door.DRA, True), (False, Door.PLUGIN, True)],
)
async def test_without_a_kubelet_claims_get_devices_where_no_pod_has_or_gets_any(
    tmp_path: Path, is_held: bool, offered: Door, waits: bool
) -> None:
    clock = FakeClock()
    with Holds(tmp_path / "holds", clock) as holds:
        if is_held:
            await holds.take_plugin(RESOURCE, [gpu(1)])
        holds.restore_claim(claim("b", gpu(3)))
        holds.contest({gpu(2).parts[0]: frozenset({(offered, "gpu")})})
        holds.lacks_socket(tmp_path / "kubelet.sock")
        if not waits:
            await holds.claim_door("gpu").take(A, [gpu(2)])
            return
        with pytest.raises(ExceptionGroup, match="unhandled"):
            await hurried(clock, holds.claim_door("gpu").take(A, [gpu(2)]), 3)


def test_only_a_process_that_has_the_ledger_calls_it_its_own(tmp_path: Path) -> None:
    with (
        Holds(tmp_path / "holds", FakeClock()) as old,
        Holds(tmp_path / "holds", FakeClock(), takes_over=True) as new,
    ):
        assert (old.is_ours, new.is_ours) == (True, False)


def test_the_file_of_today_is_read_tomorrow(tmp_path: Path) -> None:
    """What is written is part of the contract with the next version."""
    hold = Hold(Door.DRA, "pci", "5", ("pci:0000:05:00.0",), "a.com/x", "ns/c", "u", 1.5, confirmed=True)
    assert msgspec.json.encode(hold) == (
        b'{"door":"dra","kind":"pci","device":"5","parts":["pci:0000:05:00.0"],"resource":"a.com/x",'
        b'"owner":"ns/c","uid":"u","since":1.5,"confirmed":true}'
    )


async def test_a_claim_that_is_given_back_while_it_is_noted_does_not_get_its_devices(tmp_path: Path) -> None:
    path = tmp_path / "holds"
    with Holds(path, FakeClock()) as holds:
        taking_nothing(holds)
        holds.allocated([])
        door = holds.claim_door("gpu")
        taking = asyncio.ensure_future(door.take(A, [gpu(1)]))
        await asyncio.sleep(0)
        assert who(holds) == [("gpu-1", "claim default/a")] and not taking.done()
        await door.give_back(A)
        with pytest.raises(UnavailableError, match="it took so long to note the holder that it is gone"):
            await taking
        assert who(holds) == []
        await holds.claim_door("gpu").take(B, [gpu(1)])
    assert on_disk(path) == [("gpu-1", "claim default/b")]
