"""What of the chart can be checked without helm: values and their schema, Grafana's dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from dray.agent.config import load_agent_config
from dray.api.codec import load_values

CHART = Path("deploy/helm/dray")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def values() -> Any:
    (found,) = load_values((CHART / "values.yaml").read_text(), "values.yaml")
    assert isinstance(found.value, dict)
    return found.value


def mismatches(value: Any, schema: Any, path: str = "") -> list[str]:
    """Names that only one of the two has. Objects without listed properties may hold anything."""
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    assert schema["additionalProperties"] is False, path
    found = [f"{path}.{name}" for name in value.keys() ^ known.keys() if name != "global"]
    return found + [
        line
        for name in value.keys() & known.keys()
        for line in mismatches(value[name], known[name], f"{path}.{name}")
    ]


def test_the_schema_knows_every_value_and_no_other() -> None:
    assert mismatches(values(), SCHEMA) == []


def test_an_authority_of_clients_needs_their_names() -> None:
    """Else every certificate that it signed opens the guard, those of kubelets too. `tests/e2e` asks helm."""
    guard = SCHEMA["properties"]["guard"]
    assert guard["if"]["properties"] == {"clientCASecret": {"minLength": 1}}
    assert guard["then"] == {"required": ["clientNames"], "properties": {"clientNames": {"minItems": 1}}}
    assert guard["properties"]["clientNames"]["items"]["minLength"] == 1


def test_the_policies_that_bound_an_agent_are_on_wherever_the_chart_is_rendered() -> None:
    """Helm knows the cluster's version only where it talks to the cluster: `helm template` says its own."""
    agent = values()["agent"]
    assert (agent["ownSlicesPolicy"], agent["ownClaimsPolicy"]) == (True, "on")


def test_every_value_is_used_by_a_template() -> None:
    text = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
    parts = ("agent", "scheduler", "guard", "controllers", "dashboard")
    named = {name for part in parts for name in values()[part]} | values().keys()
    assert sorted(name for name in named if not re.search(rf"[.]{name}\b", text)) == []


def test_the_default_configuration_is_good() -> None:
    load_agent_config(json.dumps(values()["agent"]["config"]), "values.yaml")


def test_grafana_shows_metrics_that_exist() -> None:
    pages = "".join(
        Path(f"docs/reference/{page}.md").read_text() for page in ("controllers", "metrics", "scheduler")
    )
    board = json.loads((CHART / "files" / "grafana.json").read_text())
    asked = {name for panel in board["panels"] for one in panel["targets"] for name in _metrics(one["expr"])}
    assert asked
    assert sorted(name for name in asked if f"`{name}`" not in pages) == []


def _metrics(expression: str) -> set[str]:
    return {name.removesuffix("_bucket") for name in re.findall(r"\b(?:dray|scheduler)_[a-z_]+", expression)}
