"""An author's driver as a kind of Dray's (`drivers/contract.py`), which the agent serves like its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from dray.agent.own_kinds import OwnKind
from dray.cdi.edits import ContainerEdits
from dray.drivers import contract
from dray.drivers.contract import Asked, Discovery, Prepared, Problem
from dray.errors import Error, InvalidError, NotFoundError
from dray.hardware.change import HostChange
from dray.hardware.host_root import HostRoot, Place
from dray.inventory.doors import Offered
from dray.runtime.threads import Threads
from dray.sdk.config import Config
from dray.sdk.driver import Driver, check_driver, overrides
from dray.sdk.foreign import Foreign
from dray.sdk.host import Host
from dray.sdk.translate import required, to_contract, to_device, to_edits
from dray.sdk.values import Device, Request

PRE_START_SECONDS: Final = 25.0
"""A kubelet waits for 30."""


class Adapter:
    """The kind is the driver's name, which has a dot in it: no kind of Dray's own is called so."""

    def __init__(self, driver: Driver) -> None:
        check_driver(driver)
        self.kind = driver.name
        self._driver = driver
        self._foreign = Foreign(driver.name)
        self._root = Path("/")
        self._prepares = overrides(driver, "prepare")
        self._releases = overrides(driver, "release")

    def discover(self, root: Place, known: Sequence[contract.Device] = ()) -> Discovery:
        """One bad device is left out and told; the others stay."""
        self._root = root.path
        host = Host(root)
        with self._foreign.calling("discover"):
            found = list(self._driver.discover(host))
        problems: list[Problem] = []
        devices: dict[str, contract.Device] = {}
        for one in found:
            try:
                with self._foreign.calling("a device"):
                    device = to_contract(one, self.kind, self._driver.resource)
                device = self._with_health(root, device, one)
            except Error as error:
                problems.append(Problem(self.kind, str(error)))
                continue
            if device.id in devices:
                problems.append(Problem(self.kind, f"{device.id} is left out: it is there twice"))
            devices.setdefault(device.id, device)
        return Discovery(
            tuple(devices[name] for name in sorted(devices)),
            tuple(problems),
            host.listed,
            host.listed,
            self._driver.poll,
        )

    def _with_health(self, root: Place, device: contract.Device, given: Device) -> contract.Device:
        reason = device.reason
        try:
            for path in device.watch:
                reason = reason or ("" if root.exists(path) else f"{path} does not exist")
            if not reason and overrides(self._driver, "health"):
                with self._foreign.calling(f"health of {device.id}"):
                    reason = str(self._driver.health(Host(root), given) or "")
        except Error as error:
            reason = str(error)
        if not reason:
            return device
        return replace(device, health=contract.Health.UNHEALTHY, reason=reason)

    def prepare(self, resource: str, devices: Sequence[contract.Device]) -> Prepared:
        """For a container of a device plugin."""
        return self.prepare_claim(Asked("", resource, tuple(devices)))

    def check_parameters(self, parameters: Mapping[str, Any]) -> None:
        """What `Config.read` takes. Nothing where the driver has no config."""
        self._config((parameters,))

    def prepare_claim(self, asked: Asked) -> Prepared:
        """The author's `prepare` comes last, in a thread: it may do what it likes."""
        if not asked.devices:
            text = f"none of the devices asked for as {asked.label} exists any more: ask again"
            raise NotFoundError(text, kind=self.kind, name=asked.label)
        paths = required(asked.devices)
        if not self._prepares:
            return Prepared(to_edits(self._request(asked).edits()), required=paths)
        return Prepared(ContainerEdits(), required=paths, finish=self._finish(asked))

    def _finish(self, asked: Asked) -> Callable[[HostRoot], ContainerEdits]:
        def finish(root: HostRoot) -> ContainerEdits:
            with self._foreign.calling("prepare"):
                return to_edits(self._driver.prepare(self._request(asked, root.path)))

        return finish

    def release(self, asked: Asked) -> None:
        """In a thread. Parameters that a newer version does not take any more are no obstacle."""
        if self._releases:
            with self._foreign.calling("release"):
                self._driver.release(self._request(asked, lenient=True))

    def release_claim(self, asked: Asked) -> tuple[HostChange, ...]:
        """Nothing: `release` did it."""
        return ()

    def _request(self, asked: Asked, root: Path | None = None, *, lenient: bool = False) -> Request[Any]:
        try:
            config = self._config(asked.parameters)
        except InvalidError:
            if not lenient:
                raise
            config = self._config(())
        return Request(
            devices=tuple(map(to_device, asked.devices)),
            config=config,
            label=asked.label,
            claim_uid=asked.claim_uid,
            admin_access=asked.admin_access,
            consumed=asked.consumed,
            host=Host(root or self._root),
        )

    def _config(self, given: Sequence[Mapping[str, Any]]) -> Config | None:
        kind = self._driver.config
        if kind is None:
            if given:
                raise InvalidError(f"devices of {self.kind} take no parameters", field="parameters")
            return None
        with self._foreign.calling("config"):
            return kind.read(*given, api_version=f"{self.kind}/v1")


class PreStartAdapter(Adapter):
    """For drivers with something to do right before a container starts."""

    async def pre_start(self, resource: str, devices: Sequence[contract.Device]) -> None:
        """In a thread of its own."""
        request = self._request(Asked("", resource, tuple(devices)))

        def call() -> None:
            with self._foreign.calling("pre_start"):
                self._driver.pre_start(request)

        await Threads().run(call, doing=f"pre_start of {self.kind}", seconds=PRE_START_SECONDS)


def adapt(driver: Driver) -> contract.Driver:
    """InvalidError, which names the attribute, where the driver cannot be served."""
    check_driver(driver)
    return PreStartAdapter(driver) if overrides(driver, "pre_start") else Adapter(driver)


def own_kind(driver: Driver, doors: Offered = Offered.BOTH) -> OwnKind:
    """For `run_agent`. A driver without a resource is offered through DRA alone."""
    adapted = adapt(driver)
    if not driver.resource:
        if doors is Offered.PLUGIN:
            raise InvalidError(f"{driver.name} has no resource to offer as a device plugin", field="resource")
        doors = Offered.DRA
    return OwnKind(adapted, driver.name, (driver.resource,) if driver.resource else (), doors)
