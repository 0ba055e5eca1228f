"""The plain manifests: what the chart makes of its defaults, a file for each part.

`python -m tests.e2e.deploy_manifests` writes them after a change of the chart; it builds helm where that is missing.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from dray.errors import InvalidError
from dray.testing.kubernetes.tools import KUBERNETES_VERSION, locate
from tests.e2e.deploy_cluster import CHART, NAMESPACE, install_helm

MANIFESTS = Path("deploy/manifests")
PARTS = ("agent", "controllers", "dashboard", "guard", "scheduler")
EVERYTHING = (
    "--set",
    ",".join(
        [
            *(f"{part}.enabled=true" for part in PARTS),
            *(f"{part}.replicas=2" for part in ("controllers", "guard", "scheduler")),
            *(
                f"{name}.enabled=true"
                for name in ("grafana", "networkPolicy", "serviceMonitor", "agent.kubevirt")
            ),
            "scheduler.preempt=true",
            "guard.parameters={gpu.nvidia.com}",
            "guard.apiServerCIDRs={10.0.0.0/24,fd00::/64}",
            "guard.clientCASecret=guard-client-ca",
            "guard.clientNames={kube-apiserver}",
            "metrics.token=a-token-of-sixteen",
            "dashboard.token=a-token-of-sixteen",
            "agent.runtimeClassName=nvidia",
            "agent.doors={dra,plugin}",
        ]
    ),
)
_NAMESPACE = f"""\
# Apply this first. The agent mounts directories of the host, which Pod Security allows in privileged namespaces alone.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    app.kubernetes.io/name: dray
    pod-security.kubernetes.io/enforce: privileged
"""


def render_values(helm: Path, *words: str) -> str:
    """All that the chart makes of these values."""
    place = ["--namespace", NAMESPACE, "--kube-version", KUBERNETES_VERSION]
    command = [str(helm), "template", "dray", str(CHART), *place, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise InvalidError(done.stderr.strip())
    return done.stdout


def render(helm: Path, part: str) -> str:
    """One part alone; the DeviceClasses go with the agent."""
    chosen = [f"{name}.enabled={str(name == part).lower()}" for name in PARTS]
    chosen.append(f"deviceClasses.enabled={str(part == 'agent').lower()}")
    # What the chart asks for: who applies files by hand chooses for himself (docs/howto/deploy.md).
    chosen.append("guard.apiServerCIDRs=none")
    text = re.sub(r"^# Source: .*\n", "", render_values(helm, "--set", ",".join(chosen)), flags=re.MULTILINE)
    return f"# Made from deploy/helm/dray with its defaults: change that, and render it anew.\n{text}"


def render_all(helm: Path) -> dict[str, str]:
    """File name to text."""
    return {"namespace.yaml": _NAMESPACE} | {f"{part}.yaml": render(helm, part) for part in PARTS}


def main() -> None:
    MANIFESTS.mkdir(exist_ok=True)
    for name, text in render_all(install_helm(locate(Path("tests/e2e/tools")))).items():
        (MANIFESTS / name).write_text(text)


if __name__ == "__main__":
    main()
