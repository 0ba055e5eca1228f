"""`Driver`: what an author writes. Its name, how to find its devices, and, where the usual is not enough, the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dray.api import names
from dray.errors import InvalidError
from dray.sdk.config import IDENTITY, Config
from dray.sdk.host import Host
from dray.sdk.values import Device, Edits, Request

CONTRACT: Final = 1
"""The newest contract between drivers and Dray that is known here. `docs/reference/sdk.md` says what it promises."""


class Driver(ABC):
    """One kind of device. Serving, registering, restarts, claims, health streams and metrics are done for it.

    Dray keeps one instance for the life of the process. `discover` and `health` are called by one thread; the other
    methods may be called by several at once, and while `discover` runs. An error of `dray.errors`, or any other, fails
    the call that it belongs to and nothing else.
    """

    name: str = ""
    """The DRA driver, in a domain of your own: `lamp.example.com`."""
    resource: str = ""
    """What pods ask a device plugin for: `example.com/lamp`. Empty: DRA only."""
    config: type[Config] | None = None
    """What claims may say. None: nothing."""
    poll: float = 10.0
    """Seconds after which to look again though nothing was noticed."""
    contract: int = 1
    """The contract this driver was written for."""

    @abstractmethod
    def discover(self, host: Host) -> Iterable[Device]:
        """All devices of the machine now. Called at start, when something changed and every `poll` seconds; changes nothing.

        An error says that nothing is known: devices stay as they were, and it is called again.
        """

    def health(self, host: Host, device: Device) -> str:
        """Why a device must not be handed out now; empty where it is well. Called for each after `discover`."""
        return ""

    def prepare(self, request: Request[Any]) -> Edits:
        """What a container gets. It may touch the device, for 45 seconds at most; an error keeps the pod from starting.

        Called again with an equal request after a restart, and where the pod is tried again.
        """
        return request.edits()

    def release(self, request: Request[Any]) -> None:  # noqa: B027  (most drivers have nothing to undo)
        """Undo `prepare` when a claim is given back: also one that failed or never ended, also twice, also for devices
        that are gone. A device plugin is never told, so it is not called there.
        """

    def pre_start(self, request: Request[Any]) -> None:  # noqa: B027  (nor to do then)
        """Right before each start of a container of a device plugin, as for a reset. An error keeps it from starting."""


def overrides(driver: Driver, method: str) -> bool:
    """Whether the author wrote this one."""
    return getattr(type(driver), method) is not getattr(Driver, method)


def check_driver(driver: Driver) -> None:
    """InvalidError, which names the attribute, where a driver cannot be served."""
    if not isinstance(driver, Driver):
        what = getattr(driver, "__name__", type(driver).__name__)
        raise InvalidError(f"{what} is not an instance of dray.sdk.Driver", field="driver")
    name = type(driver).__name__
    if (fault := _fault(driver)) is not None:
        field, text = fault
        raise InvalidError(f"{name}.{field}: {text}", field=field)


def _fault(driver: Driver) -> tuple[str, str] | None:
    """The first one: an attribute and what is wrong with it."""
    contract: Any = driver.contract
    if not isinstance(contract, int) or contract < 1:
        return "contract", f"{contract!r} must be a number from 1 to {CONTRACT}"
    if contract > CONTRACT:
        return "contract", f"the driver needs contract {contract}, this Dray has {CONTRACT}: update dray"
    if text := _name_fault(driver.name):
        return "name", text
    resource: Any = driver.resource
    if resource and (faults := names.extended_resource_name(str(resource))):
        return "resource", f"{resource!r}: {faults[0]}"
    poll: Any = driver.poll
    if not isinstance(poll, int | float) or not poll > 0:
        return "poll", f"{poll!r} must be more than 0 seconds"
    text = "" if driver.config is None else _config_fault(driver.config)
    return ("config", text) if text else None


def _name_fault(name: str) -> str:
    if faults := names.driver_name(str(name)):
        return f"{name!r}: {faults[0]}"
    if name != name.lower() or "." not in name:
        return f"{name!r} must be in lower case and in a domain of yours, like lamp.example.com"
    return ""


def _config_fault(config: type[Config]) -> str:
    given: Any = config
    if not (isinstance(given, type) and issubclass(given, Config)):
        return f"{config!r} must be a subclass of dray.sdk.Config"
    fields = msgspec.structs.fields(config)
    if taken := [field.name for field in fields if field.encode_name in IDENTITY]:
        return f"{config.__name__}.{taken[0]}: the name is Kubernetes' own"
    if needed := [field.name for field in fields if field.required]:
        return f"{config.__name__}.{needed[0]} needs a default: device plugins and most claims say nothing"
    return ""
