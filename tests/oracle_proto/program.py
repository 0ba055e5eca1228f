"""client-go's protobuf codec as a running program; `python -m tests.oracle_proto.program` writes the schema anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dray.apiserver.served import standard
from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent
TABLE = Path("src/dray/apiserver/http/protobuf/schema.json")
# What a body may be besides the served kinds: those of the subresources, and what comes with a deletion.
OTHERS = (
    "authentication.k8s.io/v1/TokenRequest",
    "autoscaling/v1/Scale",
    "policy/v1/Eviction",
    "v1/Binding",
    "v1/DeleteOptions",
)
# Questions about rights; they are posted and never kept.
REVIEWS = (
    "authentication.k8s.io/v1/SelfSubjectReview",
    "authentication.k8s.io/v1/TokenReview",
    "authorization.k8s.io/v1/LocalSubjectAccessReview",
    "authorization.k8s.io/v1/SelfSubjectAccessReview",
    "authorization.k8s.io/v1/SelfSubjectRulesReview",
    "authorization.k8s.io/v1/SubjectAccessReview",
)


def program() -> Path:
    return go_program(SOURCE, SOURCE / "go.mod", "oracle-proto")


class ProtoOracle(GoOracle):
    """Asked for random bodies, for what a body means, or for the fields of all messages."""

    def __init__(self) -> None:
        super().__init__([program()])


def kinds() -> list[str]:
    """All kinds a protobuf body may have. Those of KubeVirt are custom resources, and so JSON only."""
    served = (
        f"{one.api_version(version)}/{one.resource.kind}"
        for one in standard().all
        for version in one.versions
        if one.resource.group != "kubevirt.io"
    )
    return sorted({*served, *OTHERS, *REVIEWS, "apiextensions.k8s.io/v1/CustomResourceDefinition"})


def generated_table() -> str:
    """The schema as it is kept: one line a kind and a message."""
    with ProtoOracle() as oracle:
        answer = oracle.ask({"ask": "schema", "kinds": kinds()})["schema"]
    parts = [f" {json.dumps(name)}: {_lines(answer[name])}" for name in ("kinds", "messages")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(entries: dict[str, Any]) -> str:
    lines = [f"  {json.dumps(key)}: {_line(value)}" for key, value in sorted(entries.items())]
    return "{\n" + ",\n".join(lines) + "\n }"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        value = dict(sorted(value.items(), key=lambda item: int(item[0])))
    return json.dumps(value)


if __name__ == "__main__":
    TABLE.write_text(generated_table())
