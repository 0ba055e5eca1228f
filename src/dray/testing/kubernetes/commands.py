"""The command line of every part, with the reason for each setting that is not a plain address or file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dray.testing.kubernetes.identities import ADMIN_GROUP, Identities
from dray.testing.kubernetes.leftovers import KUBELET_DIR
from dray.testing.kubernetes.tools import Tools

SERVICE_ADDRESSES = "10.96.0.0/16"
RUNTIME_CONFIG = "resource.k8s.io/v1beta2=true"

Command = list[str | Path]


@dataclass(frozen=True)
class Settings:
    """What the command lines share. `ports` are etcd, etcd's peers, API server, kubelet."""

    tools: Tools
    directory: Path
    ports: tuple[int, int, int, int]
    feature_gates: Mapping[str, bool]

    @property
    def etcd_url(self) -> str:
        """Where etcd answers."""
        return f"http://127.0.0.1:{self.ports[0]}"

    @property
    def server(self) -> str:
        """Where the API server answers."""
        return f"https://127.0.0.1:{self.ports[2]}"

    @property
    def gates(self) -> str:
        """The flag with the feature gates."""
        named = sorted(self.feature_gates.items())
        return "--feature-gates=" + ",".join(f"{name}={str(on).lower()}" for name, on in named)


def etcd(settings: Settings) -> Command:
    """One member, without fsync: the data does not outlive the machine anyway."""
    peer = f"http://127.0.0.1:{settings.ports[1]}"
    return [
        settings.tools.path("etcd"),
        f"--data-dir={settings.directory / 'etcd'}",
        f"--listen-client-urls={settings.etcd_url}",
        f"--advertise-client-urls={settings.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--logger=zap",
    ]


def apiserver(settings: Settings, identities: Identities) -> Command:
    """The API server, with the authorizers and the node restriction of a real cluster."""
    authority = identities.authority
    serving = authority.server("apiserver", ("127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1"))
    to_kubelet = authority.client("apiserver-to-kubelet", "kube-apiserver", (ADMIN_GROUP,))
    account_keys = identities.service_account_keys()
    return [
        settings.tools.path("kube-apiserver"),
        f"--etcd-servers={settings.etcd_url}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        # The default would publish that address as an Endpoint, which may not be on loopback.
        "--endpoint-reconciler-type=none",
        f"--secure-port={settings.ports[2]}",
        f"--cert-dir={authority.certificate.parent}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={authority.certificate}",
        f"--token-auth-file={identities.write_tokens()}",
        f"--kubelet-certificate-authority={authority.certificate}",
        f"--kubelet-client-certificate={to_kubelet.certificate}",
        f"--kubelet-client-key={to_kubelet.key}",
        # The kubelet listens on loopback, so its name must be used and not the address the node found for itself.
        "--kubelet-preferred-address-types=Hostname",
        f"--service-account-key-file={account_keys.certificate}",
        f"--service-account-signing-key-file={account_keys.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_ADDRESSES}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # Pods run without a token volume: the service address they would use it with is not routed here.
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        f"--runtime-config={RUNTIME_CONFIG}",
        settings.gates,
    ]


def controller_manager(settings: Settings, identities: Identities, without: Sequence[str] = ()) -> Command:
    """All controllers but those named, each with the rights of its own service account."""
    return [
        settings.tools.path("kube-controller-manager"),
        f"--kubeconfig={identities.by_certificate('system:kube-controller-manager', ())}",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={identities.service_account_keys().key}",
        f"--root-ca-file={identities.authority.certificate}",
        "--leader-elect=false",
        "--secure-port=0",
        # The default of 20 requests a second makes its start take eight seconds.
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        # It makes this directory, wherever it is.
        f"--flex-volume-plugin-dir={settings.directory / 'volume-plugins'}",
        f"--controllers={','.join(['*', *(f'-{name}' for name in without)])}",
        settings.gates,
    ]


def scheduler(settings: Settings, identities: Identities) -> Command:
    """The scheduler with its default profile."""
    return [
        settings.tools.path("kube-scheduler"),
        f"--kubeconfig={identities.by_certificate('system:kube-scheduler', ())}",
        "--leader-elect=false",
        "--secure-port=0",
        settings.gates,
    ]


def kubelet(settings: Settings, config: Path, kubeconfig: Path, node_name: str) -> Command:
    """The kubelet; its settings are in the file `config`."""
    return [
        settings.tools.path("kubelet"),
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={KUBELET_DIR}",
        f"--hostname-override={node_name}",
    ]
