"""Rules about how a plugin comes to its kubelet."""

from __future__ import annotations

from dray.api.names import extended_resource_name
from dray.errors import Error
from dray.testing.check.plugin.played_kubelet import Served
from dray.testing.check.plugin.subject import PluginSubject, each
from dray.testing.check.rules import Outcome, Rule, passed, skipped
from dray.testing.check.subject import registers
from dray.wire.deviceplugin import VERSION
from dray.wire.gen.deviceplugin_v1beta1_pb2 import PreferredAllocationRequest, PreStartContainerRequest
from dray.wire.status import Code, status_of


async def version(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """As the kubelet compares it."""
    asked = served.request.version if served.request else ""
    if asked != VERSION:
        return [f'asked for API version "{asked}"; a kubelet takes "{VERSION}" alone']
    return passed(asked)


async def resource_name(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """As the kubelet checks it."""
    faults = extended_resource_name(served.resource)
    return [f'"{served.resource}": {fault}' for fault in faults] or passed(served.resource)


async def endpoint(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """The kubelet joins it to its own directory; what its watcher found names a whole path, or is served there."""
    text = served.request.endpoint if served.request else ""
    if served.registration is not None:
        fault = f'"{text}" is not a whole path' if text and not text.startswith("/") else ""
        return [fault] if fault else passed(text or served.registration.name)
    if text.startswith("/") or not text:
        return [f'"{text}" is not a name below the device plugin directory']
    return passed(text)


async def serves_first(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """What happened inside Register."""
    return [served.callback_fault] if served.callback_fault else passed()


async def notified(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """Only where it came through the watcher."""
    if served.registration is None:
        return skipped("it registers at kubelet.sock")
    return [served.notify_fault] if served.notify_fault else passed()


async def options_agree(subject: PluginSubject, served: Served) -> list[str] | Outcome:
    """What is promised is there, and both places that promise say the same."""
    options = await subject.options(served)
    faults = []
    request = served.request
    if request is not None and request.HasField("options") and request.options != options:
        faults.append("Register and GetDevicePluginOptions tell different options")
    if options.get_preferred_allocation_available and not await _has_preferred(subject, served):
        faults.append(
            "get_preferred_allocation_available is set, and GetPreferredAllocation is not implemented"
        )
    if options.pre_start_required and not subject.is_live and not await _has_pre_start(subject, served):
        faults.append("pre_start_required is set, and PreStartContainer is not implemented")
    told = f"pre-start {options.pre_start_required}, preferred {options.get_preferred_allocation_available}"
    return faults or passed(told)


async def _has_preferred(subject: PluginSubject, served: Served) -> bool:
    try:
        async with subject.client(served) as client:
            await client.get_preferred_allocation(PreferredAllocationRequest())
    except Error as error:
        return not _is_unimplemented(error)
    return True


async def _has_pre_start(subject: PluginSubject, served: Served) -> bool:
    ids = (await subject.healthy_ids(served))[:1]
    if not ids:
        return True
    try:
        await subject.allocate(served, ids)
        async with subject.client(served, timeout=30.0) as client:
            await client.pre_start_container(PreStartContainerRequest(devices_ids=ids))
    except Error as error:
        return not _is_unimplemented(error)
    return True


def _is_unimplemented(error: Exception) -> bool:
    status = status_of(error)
    return status is not None and status.code is Code.UNIMPLEMENTED


RULES: tuple[Rule[PluginSubject], ...] = (
    Rule(
        id="registers",
        title="Registers in time",
        kubelet="serves kubelet.sock in its device plugin directory, and watches plugins_registry",
        why="Until it registers, the node has none of its devices.",
        check=registers,
        bare=True,
    ),
    Rule(
        id="version",
        title="Registers with API version v1beta1",
        kubelet="refuses every other version",
        why="The kubelet refuses the registration.",
        check=each(version),
    ),
    Rule(
        id="resource-name",
        title="The resource name is an extended resource's",
        kubelet="refuses names without a domain, below kubernetes.io, or that are no qualified name",
        why="The kubelet refuses the registration.",
        check=each(resource_name),
    ),
    Rule(
        id="endpoint",
        title="The endpoint is a name below the device plugin directory",
        kubelet="joins it to its directory and connects there; in plugins_registry it takes whole paths",
        why="The kubelet connects to a path that does not exist.",
        check=each(endpoint),
    ),
    Rule(
        id="serves-first",
        title="Serves before it registers",
        kubelet="connects and calls GetDevicePluginOptions while Register is still open",
        why="The registration fails, and a plugin that waits for it first deadlocks.",
        check=each(serves_first),
    ),
    Rule(
        id="notify",
        title="NotifyRegistrationStatus is answered",
        kubelet="tells a plugin in plugins_registry the outcome, with 5 s to answer; a failure undoes the registration",
        why="The kubelet registers and drops it in a loop.",
        check=each(notified),
    ),
    Rule(
        id="options",
        title="What the options promise is implemented",
        kubelet="calls PreStartContainer and GetPreferredAllocation where the options say so",
        why="Every pod with such a device fails.",
        check=each(options_agree),
        live=True,
    ),
)
