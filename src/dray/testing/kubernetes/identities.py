"""Who may talk to the API server: tokens, client certificates and the kubeconfig files that carry them."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from dray.testing.kubernetes.certificates import Authority, KeyPair

ADMIN_GROUP = "system:masters"
DRIVER_USER = "dray-driver"


class Identities:
    """The cluster's certificate authority and its users."""

    def __init__(self, directory: Path, server: str) -> None:
        self.authority = Authority(directory / "certificates")
        self.admin_token = secrets.token_hex(16)
        self.driver_token = secrets.token_hex(16)
        self._directory = directory
        self._server = server

    @property
    def server_authority(self) -> Path:
        """The CA file of those who talk to the API server."""
        return self.authority.certificate

    def admin(self) -> Path:
        """A kubeconfig of the administrator, by token."""
        return self._write("admin", {"token": self.admin_token})

    def driver(self) -> Path:
        """A kubeconfig of a plain user without rights, by token: give it the rights a test is about."""
        return self._write("driver", {"token": self.driver_token})

    def by_certificate(self, user: str, groups: tuple[str, ...]) -> Path:
        """A kubeconfig with a client certificate."""
        file_name = user.replace(":", "-").replace("/", "-")
        pair = self.authority.client(file_name, user, groups)
        return self._write(
            file_name, {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        )

    def write_tokens(self) -> Path:
        """The file from which the API server knows the tokens."""
        path = self._directory / "tokens.csv"
        path.touch(mode=0o600)
        path.write_text(
            f'{self.admin_token},admin,admin,"{ADMIN_GROUP}"\n{self.driver_token},{DRIVER_USER},{DRIVER_USER}\n'
        )
        return path

    def service_account_keys(self) -> KeyPair:
        """The keys that sign service account tokens: the same pair each time."""
        directory = self.authority.certificate.parent
        pair = KeyPair(directory / "service-accounts.pub", directory / "service-accounts.key")
        return pair if pair.key.exists() else self.authority.signing_key("service-accounts")

    def _write(self, name: str, user: dict[str, str]) -> Path:
        cluster = {"server": self._server, "certificate-authority": str(self.server_authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "dray-e2e", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "dray-e2e", "context": {"cluster": "dray-e2e", "user": name}}],
            "current-context": "dray-e2e",
        }
        path = self._directory / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config, indent=1))
        return path
