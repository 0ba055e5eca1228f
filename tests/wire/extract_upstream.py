"""Write `upstream_fields.json` from the real `.proto` files: `python tests/wire/extract_upstream.py`. Needs Go.

The Go modules are fetched through the module proxy and checksum database; protoc (grpcio-tools) reads their files into
descriptors. Only facts are kept: names, numbers, types, labels.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

TARGET = Path(__file__).parent / "upstream_fields.json"
# 0.37 of k8s.io/kubelet holds everything of 0.36.4 and adds dra-health v1 and the pod-level fields of podresources v1.
SOURCES = {
    "k8s.io/kubelet@v0.37.2": [
        "deviceplugin/v1beta1",
        "pluginregistration/v1",
        "dra/v1",
        "dra/v1beta1",
        "dra-health/v1alpha1",
        "dra-health/v1",
        "podresources/v1",
        "podresources/v1alpha1",
    ],
    "k8s.io/cri-api@v0.36.4": ["runtime/v1"],
}


def fetch(module: str) -> Path:
    """The folder of a Go module, downloaded if need be."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "go.mod").write_text("module scratch\n")
        command = ["go", "mod", "download", "-json", module]
        out = subprocess.run(command, cwd=scratch, check=True, capture_output=True, text=True).stdout
    return Path(json.loads(out)["Dir"])


def parse(path: Path) -> FileDescriptorProto:
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "set"
        assert protoc.main(["protoc", f"-I{path.parent}", f"--descriptor_set_out={out}", str(path)]) == 0
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


def facts(file: FileDescriptorProto) -> dict[str, dict[str, Any]]:
    """Messages, enums and methods of one file, keyed by full name."""
    found: dict[str, dict[str, Any]] = {"messages": {}, "enums": {}, "methods": {}}

    def walk(message: DescriptorProto, scope: str) -> None:
        name = f"{scope}.{message.name}"
        found["messages"][name] = [describe(field) for field in message.field]
        for inner in message.nested_type:
            walk(inner, name)
        for enum in message.enum_type:
            found["enums"][f"{name}.{enum.name}"] = [[value.name, value.number] for value in enum.value]

    for message in file.message_type:
        walk(message, file.package)
    for enum in file.enum_type:
        found["enums"][f"{file.package}.{enum.name}"] = [[value.name, value.number] for value in enum.value]
    for service in file.service:
        for method in service.method:
            types = [method.input_type.lstrip("."), method.output_type.lstrip(".")]
            found["methods"][f"/{file.package}.{service.name}/{method.name}"] = [
                *types,
                method.server_streaming,
            ]
    return found


def describe(field: FieldDescriptorProto) -> list[Any]:
    """Name, number, type, label; a message or enum field's type is the full name of that message or enum."""
    kind = (
        field.type_name.lstrip(".")
        or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    )
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    label = "repeated" if repeated else "optional" if field.proto3_optional else "singular"
    return [field.name, field.number, kind, label]


def main() -> None:
    result: dict[str, Any] = {"sources": SOURCES, "messages": {}, "enums": {}, "methods": {}}
    for module, apis in SOURCES.items():
        folder = fetch(module) / "pkg" / "apis"
        for api in apis:
            for kind, found in facts(parse(folder / api / "api.proto")).items():
                clash = result[kind].keys() & found.keys()
                assert not clash, clash
                result[kind].update(found)
    TARGET.write_text(dump(result))


def dump(result: dict[str, Any]) -> str:
    """JSON with one fact a line, sorted, so that a new version shows as a readable difference."""
    parts = []
    for kind, found in result.items():
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
        parts.append(f"{json.dumps(kind)}: {{\n{lines}\n}}")
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    main()
