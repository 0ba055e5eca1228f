"""Reads the agent's configuration file; finds all faults at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dray.agent.config.additions import Additions, Role, validate_additions
from dray.agent.config.conflicts import find_conflicts, resource_names
from dray.agent.config.doors import notes_on_doors
from dray.agent.config.reading import read_view, report
from dray.api.codec import load_values
from dray.api.codec.unknown_fields import unknown_field, unknown_fields
from dray.api.field_errors import FieldError, Path, Reason
from dray.api.kubevirt.gates import DISABLE_MDEV
from dray.api.kubevirt.types import (
    API_GROUP,
    CONFIGURATION_FIELDS,
    KIND,
    Configuration,
    MediatedDevicesConfiguration,
    PermittedHostDevices,
)
from dray.api.kubevirt.validation import validate_configuration
from dray.errors import InvalidError

if TYPE_CHECKING:
    from dray.api.codec.yaml_reader import Document

ADDITIONS: Final = "dray"
_NO_SUCH: Final = "KubeVirt's configuration has none of this name"
_NONE_OF_OURS: Final = "there is no setting of this name here"
_OBJECT_FIELDS: Final = ("apiVersion", "kind", "metadata", "spec", "status", ADDITIONS)
_FILE_FIELDS: Final = (*sorted(CONFIGURATION_FIELDS), ADDITIONS)


def _places(kind: type[msgspec.Struct], under: str) -> dict[str, str]:
    return {field.encode_name: f"{under}.{field.encode_name}" for field in msgspec.structs.fields(kind)}


_ELSEWHERE: Final = {
    **_places(Additions, ADDITIONS),
    **_places(PermittedHostDevices, "permittedHostDevices"),
    "featureGates": "developerConfiguration.featureGates",
}


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """A configuration without faults. `notes` are for the operator: what is deprecated in it, or does nothing."""

    source: str
    configuration: Configuration
    additions: Additions
    role: Role
    notes: tuple[str, ...] = ()


def load_agent_config(text: str | bytes, source: str) -> AgentConfig:
    """The configuration in a YAML or JSON text; `source` is its file, for errors.

    InvalidError has all faults in `causes`, or the line and column where the syntax breaks. Called at start and on
    every change of the file; it keeps nothing between calls.
    """
    document = _only_document(text, source)
    raw: dict[str, Any] = document.value
    config, faults = _read(raw, source)
    if faults:
        raise report(source, raw, document.lines, faults)
    return config


def _only_document(text: str | bytes, source: str) -> Document:
    """An empty file is refused: it is more likely half written than meant."""
    documents = load_values(text, source)
    if not documents:
        raise InvalidError(
            f"{source}: is empty; write {{}} to serve the permanent devices only", field=source
        )
    if len(documents) > 1:
        raise InvalidError(f"{source}:{documents[1].line}: a second document; only one is read", field=source)
    if not isinstance(documents[0].value, dict):
        raise InvalidError(f"{source}:{documents[0].line}: must be a map of settings", field=source)
    return documents[0]


def _read(raw: dict[str, Any], source: str) -> tuple[AgentConfig, list[FieldError]]:
    is_object = "kind" in raw or "apiVersion" in raw
    path, added = Path("spec.configuration") if is_object else Path(), Path(ADDITIONS)
    faults = _object_faults(raw) if is_object else _unknown(raw, _FILE_FIELDS, _ELSEWHERE)
    below, misplaced = _configuration_of(raw) if is_object else (raw, [])
    ours, mistaken = _map(raw, ADDITIONS, Path())
    configuration, mistyped = read_view(below, Configuration, path)
    additions, mistyped_ours = read_view(ours, Additions, added)
    faults += [
        *misplaced,
        *mistaken,
        *mistyped,
        *mistyped_ours,
        *unknown_fields(ours, Additions, added, _NONE_OF_OURS),
    ]
    role = _role(additions, is_object)
    content = [
        *validate_configuration(configuration, path),
        *validate_additions(additions, added),
        *find_conflicts(configuration, additions, role, path, added),
    ]
    faults += [fault for fault in content if not _is_known(fault, faults)]
    resources = resource_names(configuration, additions, role)
    notes = _notes(configuration) + notes_on_doors(additions.doors, resources, added.child("doors"))
    return AgentConfig(source, configuration, additions, role, notes), faults


def _role(additions: Additions, is_object: bool) -> Role:
    """An unknown role is a fault already; which one stands in for it does not matter."""
    default = Role.BESIDE_KUBEVIRT if is_object else Role.REPLACE
    return Role(additions.role) if additions.role in tuple(Role) else default


def _object_faults(raw: dict[str, Any]) -> list[FieldError]:
    faults = _unknown(raw, _OBJECT_FIELDS, {})
    kind, version = raw.get("kind"), raw.get("apiVersion")
    if kind != KIND:
        faults.append(FieldError("kind", Reason.NOT_SUPPORTED, f'must be "{KIND}", not {kind!r}', kind))
    if not isinstance(version, str) or version.partition("/")[0] != API_GROUP:
        text = f'must be "{API_GROUP}/v1", not {version!r}'
        faults.append(FieldError("apiVersion", Reason.NOT_SUPPORTED, text, version))
    return faults


def _configuration_of(raw: dict[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    spec, faults = _map(raw, "spec", Path())
    configuration, more = _map(spec, "configuration", Path("spec"))
    return configuration, faults + more


def _map(raw: dict[str, Any], key: str, path: Path) -> tuple[dict[str, Any], list[FieldError]]:
    """The map below a key; absent and null are an empty one."""
    value = raw.get(key)
    if value is None:
        return {}, []
    if isinstance(value, dict):
        return value, []
    return {}, [FieldError(path.child(key).text, Reason.TYPE_INVALID, "must be a map of settings", value)]


def _unknown(raw: dict[str, Any], known: tuple[str, ...], elsewhere: dict[str, str]) -> list[FieldError]:
    return [unknown_field(Path(), key, known, elsewhere, _NO_SUCH) for key in sorted(raw.keys() - set(known))]


def _is_known(fault: FieldError, known: list[FieldError]) -> bool:
    """Whether the value of this field was left out because of a fault above it or in it."""
    return any(
        fault.field == one.field or fault.field.startswith((one.field + ".", one.field + "["))
        for one in known
        if one.reason is Reason.TYPE_INVALID
    )


def _notes(configuration: Configuration) -> tuple[str, ...]:
    notes = []
    wanted = configuration.mediated_devices_configuration or MediatedDevicesConfiguration()
    by_node = any(entry.mediated_devices_types for entry in wanted.node_mediated_device_types)
    if wanted.mediated_devices_types or by_node:
        notes.append("mediatedDevicesTypes is deprecated: write mediatedDeviceTypes")
    developer = configuration.developer_configuration
    if developer is not None and DISABLE_MDEV in developer.feature_gates:
        notes.append(
            f"the gate {DISABLE_MDEV} is deprecated: write mediatedDevicesConfiguration.enabled: false"
        )
    return tuple(notes)
