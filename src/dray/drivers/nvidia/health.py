"""What errors of a card mean for its devices, and when it is well again.

NVIDIA's own software calls a device ill until it is restarted. Here a device is well again when the card was reset or came
back, or when the driver says for a while that nothing needs to be done about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dray.api.taints import DeviceTaint, Effect
from dray.drivers.nvidia.config import NvidiaHealth
from dray.drivers.nvidia.names import DRIVER
from dray.hardware.nvml.facts import WHOLE, Gpu, MigDevice, XidEvent

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""A program did wrong and was ended; the card goes on."""
XID: Final = f"{DRIVER}/xid"
LOST: Final = f"{DRIVER}/gpu-lost"
RECOVERY: Final = f"{DRIVER}/recovery"
UNMONITORED: Final = f"{DRIVER}/unmonitored"
LOST_REASON: Final = "the GPU does not answer any more: reset it or restart the machine"
_ACTIONS: Final = {
    1: ("reset", "reset the GPU (nvidia-smi --gpu-reset)"),
    2: ("reboot", "restart the machine"),
    3: ("drain-p2p", "stop all programs on the GPUs that are linked to it"),
    4: ("drain-and-reset", "stop all programs on it and reset it (nvidia-smi --gpu-reset)"),
    5: ("recover-imex-domain", "recover the IMEX domain"),
    6: ("bus-reset", "reset its bus"),
    7: ("reboot", "restart the machine"),
}


@dataclass(frozen=True, slots=True)
class Illness:
    """An error that a card reported, of all of it or of an instance.

    `since` is on the clock's `monotonic`. `was_tended`: since then the card was away, or the driver wanted something done.
    """

    event: XidEvent
    since: float
    is_serious: bool
    was_tended: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """How a device is: a reason makes it unhealthy, taints tell DRA."""

    reason: str = ""
    taints: tuple[DeviceTaint, ...] = ()


@dataclass(frozen=True, slots=True)
class Health:
    """All that is known at one moment. `actions` are what the driver wants done, by UUID; `unmonitored` are UUIDs."""

    illnesses: tuple[Illness, ...] = ()
    actions: Mapping[str, int | None] = field(default_factory=dict)
    unmonitored: frozenset[str] = frozenset()


def is_serious(xid: int, config: NvidiaHealth) -> bool:
    """Whether nobody should get the device now."""
    return xid not in APPLICATION_XIDS and xid not in config.ignored_xids


def with_event(
    illnesses: Iterable[Illness], event: XidEvent, now: float, config: NvidiaHealth
) -> tuple[Illness, ...]:
    """The illnesses with one more. Of one place the newest serious and the newest other count."""
    new = Illness(event, now, is_serious(event.xid, config))
    kept = [one for one in illnesses if _place(one) != _place(new)]
    return (*kept, new)


def still_ill(
    illnesses: Iterable[Illness],
    gpus: Mapping[str, Gpu],
    actions: Mapping[str, int | None],
    now: float,
    config: NvidiaHealth,
) -> tuple[Illness, ...]:
    """Those that go on. `gpus` are the cards that answer, by UUID."""
    found = []
    for illness in illnesses:
        gpu, action = gpus.get(illness.event.uuid), actions.get(illness.event.uuid)
        if gpu is None or action:
            found.append(replace(illness, was_tended=True))
        elif not _is_over(illness, gpu, action, now, config):
            found.append(illness)
    return tuple(found)


def _is_over(illness: Illness, gpu: Gpu, action: int | None, now: float, config: NvidiaHealth) -> bool:
    """A driver that tells of no action leaves only a reset to go by."""
    if illness.was_tended or _is_gone(illness.event, gpu):
        return True
    is_calm = now - illness.since >= config.recovery_seconds
    return is_calm and (action == 0 or not illness.is_serious)


def _is_gone(event: XidEvent, gpu: Gpu) -> bool:
    """Whether the instance it was about does not exist any more."""
    return event.gpu_instance != WHOLE and all(
        mig.gpu_instance != event.gpu_instance for mig in gpu.mig_devices
    )


def condition_of(gpu: Gpu, health: Health, mig: MigDevice | None = None) -> Condition:
    """How a card is, or a MIG device of it: what is wrong with the whole is wrong with each part, not the other way."""
    illnesses = [one for one in health.illnesses if _is_about(one.event, gpu, mig)]
    serious = [one for one in illnesses if one.is_serious]
    newest = max(serious or illnesses, key=lambda one: one.since, default=None)
    taints: list[DeviceTaint] = []
    reasons: list[str] = []
    if newest is not None:
        effect = Effect.NO_SCHEDULE if newest.is_serious else Effect.NONE
        taints.append(DeviceTaint(key=XID, value=str(newest.event.xid), effect=effect))
    if serious and newest is not None:
        reasons.append(f"XID {newest.event.xid} (see NVIDIA's list of XIDs and the kernel's log)")
    if action := health.actions.get(gpu.uuid):
        value, text = _ACTIONS.get(action, (str(action), f"recover the GPU (action {action})"))
        taints.append(DeviceTaint(key=RECOVERY, value=value, effect=Effect.NO_SCHEDULE))
        reasons.append(f"the driver asks to {text}")
    if gpu.uuid in health.unmonitored:
        taints.append(DeviceTaint(key=UNMONITORED, effect=Effect.NONE))
    return Condition("; ".join(reasons), tuple(taints))


def lost() -> Condition:
    """A card that is on the bus and does not answer."""
    return Condition(LOST_REASON, (DeviceTaint(key=LOST, effect=Effect.NO_SCHEDULE),))


def _is_about(event: XidEvent, gpu: Gpu, mig: MigDevice | None) -> bool:
    if event.uuid != gpu.uuid:
        return False
    if event.gpu_instance == WHOLE:
        return True
    return (
        mig is not None
        and mig.gpu_instance == event.gpu_instance
        and event.compute_instance in (WHOLE, mig.compute_instance)
    )


def _place(illness: Illness) -> tuple[str, int, int, bool]:
    event = illness.event
    return (event.uuid, event.gpu_instance, event.compute_instance, illness.is_serious)
