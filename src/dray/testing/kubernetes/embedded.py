"""A node whose API server is `dray apiserver`; kubelet, containerd, scheduler and controller manager are the real ones.

with EmbeddedCluster(locate(modules)) as cluster:
    cluster.kubectl("get", "nodes")
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dray.apiserver.access.identity import ADMINS, Identity
from dray.apiserver.access.tokens import Tokens
from dray.errors import InvalidError
from dray.runtime.certificates import serving_certificate
from dray.testing.kubernetes import access, commands
from dray.testing.kubernetes.certificates import KeyPair
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.identities import Identities
from dray.testing.kubernetes.part import Part

SCHEDULER, CONTROLLERS = "system:kube-scheduler", "system:kube-controller-manager"
_NAMES = ("127.0.0.1", "::1", "localhost")


class EmbeddedIdentities(Identities):
    """Users known by tokens that are issued before the server starts: it reads its file then, and takes no certificates."""

    def __init__(self, directory: Path, server: str, data: Path, users: Sequence[Identity]) -> None:
        super().__init__(directory, server)
        data.mkdir(mode=0o700)
        self._serving = serving_certificate(data / "pki", _NAMES, datetime.now(UTC))
        tokens = Tokens(data / "tokens.json")
        self.admin_token = tokens.issue(Identity("admin", (ADMINS,)))
        self.driver_token = tokens.issue(Identity("dray-driver"))
        self._tokens = {one.name: tokens.issue(one) for one in users}

    @property
    def server_authority(self) -> Path:
        """The authority that the server made for itself."""
        return self._serving.ca

    def by_certificate(self, user: str, groups: tuple[str, ...]) -> Path:
        """A kubeconfig with the user's token; only for users that were named at the start, whose groups stay."""
        if user not in self._tokens:
            raise InvalidError(f"{user!r} has no token: name it when the identities are made", field="user")
        return self._write(user.replace(":", "-"), {"token": self._tokens[user]})


class EmbeddedCluster(Cluster):
    """As Cluster. The kubelet has the node's role and asks the server about its own callers; the others are administrators.

    RBAC grants nothing at this server, so the controllers do not run as service accounts of their own.
    """

    @property
    def data(self) -> Path:
        """The server's data directory."""
        return self.directory / "apiserver"

    @property
    def scheduler_port(self) -> int:
        """Where kube-scheduler answers over TLS, to callers whom the server vouches for."""
        return self.settings.ports[0]

    @property
    def kubelet_port(self) -> int:
        """Where the kubelet answers, likewise."""
        return self.settings.ports[3]

    def get(self, port: int, path: str, token: str) -> int:
        """The status of the answer of a program of this node to a caller with this token, or with none."""
        return access.status_of(f"https://127.0.0.1:{port}{path}", token)

    def _make_identities(self) -> Identities:
        users = (
            Identity(f"system:node:{self.node_name}", ("system:nodes",)),
            Identity(SCHEDULER, (ADMINS,)),
            Identity(CONTROLLERS, (ADMINS,)),
            Identity("admin-by-certificate", (ADMINS,)),
        )
        return EmbeddedIdentities(self.directory, self.server, self.data, users)

    def _make_serving(self) -> tuple[Part, ...]:
        self.apiserver = self._part("dray-apiserver", self._apiserver_command())
        return (self.apiserver,)

    def _apiserver_command(self) -> commands.Command:
        listen = self.server.removeprefix("https://")
        return [sys.executable, "-m", "dray", "apiserver", "--data-dir", self.data, "--listen", listen]

    def _controllers_command(self, without: Sequence[str] = ()) -> commands.Command:
        own = super()._controllers_command(without)
        return [word for word in own if not str(word).startswith("--use-service-account-credentials")]

    def _scheduler_command(self) -> commands.Command:
        """Elected by a Lease, and with its port open: then it reads from the server whom to trust, and asks it about callers."""
        config = f"--kubeconfig={self.kubeconfig_for(SCHEDULER)}"
        others = ("--secure-port", "--leader-elect")
        own = [word for word in super()._scheduler_command() if not str(word).startswith(others)]
        return [
            *own,
            "--leader-elect=true",
            # On a busy machine the server may need longer to come back than the ten seconds of the default.
            "--leader-elect-renew-deadline=60s",
            "--leader-elect-lease-duration=90s",
            f"--secure-port={self.scheduler_port}",
            "--bind-address=127.0.0.1",
            config.replace("--kubeconfig", "--authentication-kubeconfig"),
            config.replace("--kubeconfig", "--authorization-kubeconfig"),
        ]

    def _kubelet_config(self, serving: KeyPair) -> dict[str, Any]:
        found = super()._kubelet_config(serving)
        found["authentication"]["webhook"] = {"enabled": True}
        return found | {"authorization": {"mode": "Webhook"}}
