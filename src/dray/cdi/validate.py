"""What is wrong with a CDI spec: every fault at once. A spec with a fault is refused as a whole, here and by runtimes.

Advice is what the specification asks for and runtimes do not enforce: such a spec is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.api import names as api_names
from dray.api.field_errors import FieldError, Path, Reason
from dray.cdi.names import device_faults, kind_faults, split_kind
from dray.cdi.spec import Edits, Fault, HookEdit, NetDeviceEdit, NodeEdit, RdtEdit, Spec, SpecFile, read_spec
from dray.cdi.versions import version_advice, version_faults
from dray.errors import InvalidError

HOOKS: Final = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
NODE_TYPES: Final = ("b", "c", "u", "p")
NO_PERMISSIONS: Final = "none"
_LONGEST_CLOS: Final = 4095
_LONGEST_CLASS: Final = 63
_LONGEST_INTERFACE: Final = 15
_MODE_BITS: Final = 0o7777


def load_spec(data: str | bytes, source: str) -> SpecFile:
    """The spec of a file without faults. InvalidError names all there are, in `causes` as `Fault`."""
    read = read_spec(data, source)
    check_file(read)
    return read


def check_file(read: SpecFile) -> None:
    """InvalidError where the file has faults."""
    if causes := file_faults(read):
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        raise InvalidError(f"{causes[0]}{more}", field=causes[0].field, causes=causes)


def check_spec(spec: Spec) -> None:
    """InvalidError where a spec that comes from no file has faults; who writes one calls this first."""
    if causes := tuple(faults(spec)):
        texts = "; ".join(map(str, causes))
        raise InvalidError(f"CDI spec of {spec.kind!r}: {texts}", field=causes[0].field, causes=causes)


def file_faults(read: SpecFile) -> tuple[Fault, ...]:
    """All faults of a file. Where a field has the wrong form, what follows from that is not told again."""
    wrong = [fault.field for fault in read.faults]
    others = [
        error
        for error in faults(read.spec)
        if not any(_is_within(error.field, field) or _is_within(field, error.field) for field in wrong)
    ]
    return tuple(sorted((*read.faults, *read.place(others)), key=lambda fault: fault.line))


def file_advice(read: SpecFile) -> tuple[Fault, ...]:
    """What could be better in a file that has no faults."""
    notes = read.place(advice(read.spec))
    if read.more_at:
        text = "another document starts here: runtimes read only the first of a file"
        notes = (*notes, Fault(read.source, read.more_at, "", text))
    return notes


def _is_within(inner: str, outer: str) -> bool:
    return inner == outer or (inner.startswith(outer) and inner[len(outer)] in ".[")


def faults(spec: Spec) -> Iterator[FieldError]:
    """What makes runtimes refuse the spec."""
    root = Path()
    for text in version_faults(spec):
        yield _invalid(root.child("cdiVersion"), text)
    for text in kind_faults(spec.kind):
        yield _invalid(root.child("kind"), text)
    yield from _edit_faults(spec.container_edits, root.child("containerEdits"))
    if not spec.devices:
        yield FieldError("devices", Reason.REQUIRED, "there must be one at least")
    seen: set[str] = set()
    for position, device in enumerate(spec.devices):
        here = root.child("devices").index(position)
        for text in device_faults(device.name):
            yield _invalid(here.child("name"), text)
        if device.name in seen and device.name:
            text = f"{device.name!r} is there twice"
            yield FieldError(here.child("name").text, Reason.DUPLICATE, text)
        seen.add(device.name)
        if not device.container_edits:
            text = "must not be empty: the device would change nothing"
            yield FieldError(here.child("containerEdits").text, Reason.REQUIRED, text)
        yield from _edit_faults(device.container_edits, here.child("containerEdits"))


def _edit_faults(edits: Edits, path: Path) -> Iterator[FieldError]:
    yield from _env_faults(edits.env, path.child("env"))
    for position, node in enumerate(edits.device_nodes):
        yield from _node_faults(node, path.child("deviceNodes").index(position))
    for position, hook in enumerate(edits.hooks):
        yield from _hook_faults(hook, path.child("hooks").index(position))
    for position, mount in enumerate(edits.mounts):
        here = path.child("mounts").index(position)
        yield from _required(here.child("hostPath"), mount.host_path)
        yield from _required(here.child("containerPath"), mount.container_path)
    if edits.intel_rdt is not None:
        yield from _rdt_faults(edits.intel_rdt, path.child("intelRdt"))
    yield from _net_faults(edits.net_devices, path.child("netDevices"))


def _env_faults(env: tuple[str, ...], path: Path) -> Iterator[FieldError]:
    for position, text in enumerate(env):
        if text.find("=") < 1:
            yield _invalid(path.index(position), f"must be NAME=VALUE, not {text!r}")


def _node_faults(node: NodeEdit, path: Path) -> Iterator[FieldError]:
    yield from _required(path.child("path"), node.path)
    if node.type and node.type not in NODE_TYPES:
        text = f"must be b (block), c or u (character) or p (pipe), not {node.type!r}"
        yield FieldError(path.child("type").text, Reason.NOT_SUPPORTED, text)
    if node.permissions != NO_PERMISSIONS and not set(node.permissions) <= set("rwm"):
        text = f"must be some of r, w and m, or {NO_PERMISSIONS!r}, not {node.permissions!r}"
        yield _invalid(path.child("permissions"), text)


def _hook_faults(hook: HookEdit, path: Path) -> Iterator[FieldError]:
    if hook.hook_name not in HOOKS:
        text = f"must be one of {', '.join(HOOKS)}, not {hook.hook_name!r}"
        yield FieldError(path.child("hookName").text, Reason.NOT_SUPPORTED, text)
    yield from _required(path.child("path"), hook.path)
    yield from _env_faults(hook.env, path.child("env"))


def _rdt_faults(rdt: RdtEdit, path: Path) -> Iterator[FieldError]:
    """The name becomes a directory; `/` is the root class, which exists."""
    name = rdt.clos_id
    if name == "/":
        return
    if name in (".", "..") or "/" in name or "\n" in name or len(name.encode()) > _LONGEST_CLOS:
        yield _invalid(path.child("closID"), f"must be / or a file's name, not {name[:40]!r}")


def _net_faults(devices: tuple[NetDeviceEdit, ...], path: Path) -> Iterator[FieldError]:
    hosts: set[str] = set()
    containers: set[str] = set()
    for position, device in enumerate(devices):
        here = path.index(position)
        pairs = (("hostInterfaceName", device.host_interface_name, hosts), ("name", device.name, containers))
        for field, name, seen in pairs:
            yield from _required(here.child(field), name)
            if name and name in seen:
                yield FieldError(here.child(field).text, Reason.DUPLICATE, f"{name!r} is there twice")
            seen.add(name)


def advice(spec: Spec) -> Iterator[FieldError]:
    """What the specification asks for and runtimes let pass."""
    root = Path()
    for text in version_advice(spec):
        yield _invalid(root.child("cdiVersion"), text)
    vendor, kind_class = split_kind(spec.kind)
    if vendor and api_names.dns_subdomain(vendor.lower()):
        yield _invalid(
            root.child("kind"), f"the vendor {vendor!r} should be a DNS name of at most 253 characters"
        )
    if len(kind_class) > _LONGEST_CLASS:
        yield _invalid(root.child("kind"), f"the class should have at most {_LONGEST_CLASS} characters")
    yield from _annotation_advice(spec.annotations, root.child("annotations"))
    yield from _edit_advice(spec.container_edits, root.child("containerEdits"))
    for position, device in enumerate(spec.devices):
        here = root.child("devices").index(position)
        yield from _annotation_advice(device.annotations, here.child("annotations"))
        yield from _edit_advice(device.container_edits, here.child("containerEdits"))


def _annotation_advice(annotations: dict[str, str], path: Path) -> Iterator[FieldError]:
    for key in annotations:
        for text in api_names.annotation_key(key):
            yield _invalid(path.key(key), text)
    for text in api_names.annotations_size(annotations):
        yield _invalid(path, text)


def _edit_advice(edits: Edits, path: Path) -> Iterator[FieldError]:
    for position, node in enumerate(edits.device_nodes):
        yield from _node_advice(node, path.child("deviceNodes").index(position))
    for position, hook in enumerate(edits.hooks):
        here = path.child("hooks").index(position)
        yield from _absolute(here.child("path"), hook.path)
        if hook.timeout is not None and hook.timeout <= 0:
            yield _invalid(here.child("timeout"), f"should be more than 0 seconds, not {hook.timeout}")
    for position, mount in enumerate(edits.mounts):
        here = path.child("mounts").index(position)
        yield from _absolute(here.child("containerPath"), mount.container_path)
    for position, device in enumerate(edits.net_devices):
        for field, name in (("hostInterfaceName", device.host_interface_name), ("name", device.name)):
            if len(name) > _LONGEST_INTERFACE or "/" in name:
                text = f"{name!r} cannot be an interface: at most {_LONGEST_INTERFACE} characters, no /"
                yield _invalid(path.child("netDevices").index(position).child(field), text)


def _node_advice(node: NodeEdit, path: Path) -> Iterator[FieldError]:
    yield from _absolute(path.child("path"), node.path)
    yield from _absolute(path.child("hostPath"), node.host_path)
    for field, number in (("major", node.major), ("minor", node.minor)):
        if number < 0:
            yield _invalid(path.child(field), f"should not be negative: {number}")
    mode = node.file_mode
    if mode is None:
        return
    if mode > _MODE_BITS:
        yield _invalid(path.child("fileMode"), f"should have permission bits only: {mode} is {mode:#o}")
    elif 512 <= mode <= 777 and set(str(mode)) <= set("01234567"):
        # Nobody wants these bits on a device node; many forget that JSON has no octal numbers.
        octal = int(str(mode), 8)
        yield _invalid(path.child("fileMode"), f"{mode} is {mode:#o}: for {octal:#o} write {octal}")


def _absolute(path: Path, text: str) -> Iterator[FieldError]:
    if text and not text.startswith("/"):
        yield _invalid(path, f"should be an absolute path, not {text!r}")


def _required(path: Path, text: str) -> Iterator[FieldError]:
    if not text:
        yield FieldError(path.text, Reason.REQUIRED, "must not be empty")


def _invalid(path: Path, text: str) -> FieldError:
    return FieldError(path.text, Reason.INVALID, text)
