"""Lists the fields of Kubernetes' Go types, one path a line, for `test_fields.py`. Needs the Go modules; run by hand:

    go mod download k8s.io/api@v0.36.4 k8s.io/apimachinery@v0.36.4
    python tests/api/oracle/fields/extract.py ~/go/pkg/mod/k8s.io > tests/api/oracle/fields/v0.36.4.txt

A line is `PATH TYPE`: `[]` goes into a list, `{}` into a map, `*` marks a pointer.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

VERSION = "v0.36.4"
SOURCES = {
    "v1": f"api@{VERSION}/core/v1/types.go",
    "metav1": f"apimachinery@{VERSION}/pkg/apis/meta/v1/types.go",
    "coordination": f"api@{VERSION}/coordination/v1/types.go",
    "resource.v1": f"api@{VERSION}/resource/v1/types.go",
    "resource.v1beta2": f"api@{VERSION}/resource/v1beta2/types.go",
}
ROOTS = (
    ("resource.v1", "ResourceSlice"),
    ("resource.v1", "DeviceClass"),
    ("resource.v1", "ResourceClaim"),
    ("resource.v1", "ResourceClaimTemplate"),
    ("resource.v1beta2", "DeviceTaintRule"),
    ("metav1", "Status"),
    ("v1", "Pod"),
    ("v1", "Node"),
    ("v1", "Namespace"),
    ("v1", "Event"),
    ("v1", "ConfigMap"),
    ("coordination", "Lease"),
)
LEAVES = {
    *("resource.Quantity", "metav1.Time", "metav1.MicroTime", "runtime.RawExtension"),
    *("string", "int64", "int32", "bool", "byte"),
}
PLAIN = {
    *(
        "Volume",
        "PodSecurityContext",
        "SecurityContext",
        "EnvVarSource",
        "EnvFromSource",
        "Probe",
        "Lifecycle",
        "PodAffinity",
    ),
    *(
        "PodAntiAffinity",
        "TopologySpreadConstraint",
        "PodDNSConfig",
        "HostAlias",
        "PodReadinessGate",
        "LocalObjectReference",
    ),
    *(
        "PodOS",
        "ContainerResizePolicy",
        "ContainerRestartRule",
        "PodSchedulingGroup",
        "ContainerImage",
        "AttachedVolume",
    ),
    *(
        "NodeConfigSource",
        "NodeConfigStatus",
        "NodeRuntimeHandler",
        "NodeFeatures",
        "ContainerUser",
        "VolumeMountStatus",
    ),
}
"""Structs that the views keep as plain JSON."""
_TYPE = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_ALIAS = re.compile(r"^type (\w+) (string|map.*|\[\].*)$", re.MULTILINE)
_FIELD = re.compile(r'^\s*(?:\w+ )?([\w.*\[\]]+)\s+`json:"([^"]*)"', re.MULTILINE)


class Types:
    """The structs and string types of each package."""

    def __init__(self, modules: Path) -> None:
        texts = {package: (modules / source).read_text() for package, source in SOURCES.items()}
        self.structs = {p: dict(_TYPE.findall(text)) for p, text in texts.items()}
        self.aliases = {p: dict(_ALIAS.findall(text)) for p, text in texts.items()}

    def walk(self, package: str, name: str, path: str) -> None:
        """Print every field below a struct."""
        for kind, tag in _FIELD.findall(self.structs[package][name]):
            field = tag.split(",")[0]
            if "inline" in tag:
                self.field(package, kind, path)
            elif field:
                self.field(package, kind, f"{path}.{field}")

    def field(self, package: str, kind: str, path: str) -> None:
        """One field: a leaf is printed, the rest is gone into."""
        pointer = "*" if kind.startswith("*") else ""
        kind = kind.removeprefix("*")
        if kind.startswith("[]"):
            self.field(package, kind[2:], f"{path}[]")
        elif kind.startswith("map["):
            self.field(package, kind.partition("]")[2], f"{path}{{}}")
        elif kind == "FieldsV1":
            print(path, "runtime.RawExtension")
        elif kind in ("Time", "metav1.Time"):
            print(path, f"{pointer}metav1.Time")
        elif (alias := self.aliases[package].get(kind, "")).startswith(("map", "[]")):
            self.field(package, alias, path)
        elif kind in PLAIN:
            print(path, f"{pointer}struct")
        elif kind in LEAVES or self.is_text(package, kind):
            print(path, f"{pointer}{kind if kind in LEAVES else 'string'}")
        else:
            other, _, name = kind.rpartition(".")
            if pointer:
                print(path, "*struct")
            self.walk(other or package, name, path)

    def is_text(self, package: str, kind: str) -> bool:
        """A string type, such as `DeviceTaintEffect` or `types.UID`."""
        return kind in self.aliases[package] or kind.startswith("types.") or kind == "v1.ResourceName"


if __name__ == "__main__":
    types = Types(Path(sys.argv[1]))
    for package, root in ROOTS:
        types.walk(package, root, root)
