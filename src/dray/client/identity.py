"""As whom the next request goes out: fixed credentials, files that rotate, or a plugin, behind one face."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from multidict import CIMultiDict

from dray.client.access import ClusterAccess, Secret, User
from dray.client.credentials import Credentials, Tls
from dray.client.exec_credentials import ExecCredential, ExecCredentials, ExecLimits
from dray.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class Proof:
    """What a request was sent with, so that a refusal is told from one of credentials that are gone already."""

    token: str = field(default="", repr=False)
    plugin: ExecCredential | None = None


class Identity:
    """One for each transport. `prove` before each request, then `headers` and `tls_context` are those to use."""

    def __init__(self, access: ClusterAccess, clock: Clock, limits: ExecLimits) -> None:
        self._name = access.user.plugin.name if access.user.plugin is not None else ""
        self._credentials = Credentials(access.user)
        self._tls = Tls(access) if access.server.startswith("https:") else None
        self._plugin: ExecCredentials | None = None
        if access.user.plugin is not None and not _has_own(access.user):
            self._plugin = ExecCredentials(access.user.plugin, access, clock, limits)
        self._adopted: ExecCredential | None = None

    def headers(self) -> CIMultiDict[str]:
        """What to send along."""
        return self._credentials.headers()

    def tls_context(self) -> ssl.SSLContext | None:
        """For the next connection; None: the server speaks plain HTTP."""
        return self._tls.context() if self._tls is not None else None

    async def prove(self) -> Proof:
        """Have credentials at hand, if need be from the plugin, whose failure is raised."""
        if self._plugin is None:
            return Proof(self._credentials.token)
        credential = await self._plugin.current()
        self._adopt(credential)
        return Proof(credential.token, credential)

    async def renew(self, refused: Proof) -> bool:
        """After a 401: read the token file or ask the plugin again. Whether there is something else to try."""
        if self._plugin is None or refused.plugin is None:
            self._credentials.read_again()
            return self._credentials.token != refused.token
        if not await self._plugin.renew(refused.plugin):
            return False
        await self.prove()
        return True

    def _adopt(self, credential: ExecCredential) -> None:
        """Connections made with an older certificate are no longer used for new requests; watches stay."""
        known, self._adopted = self._adopted, credential
        if credential is known:
            return
        self._credentials.use_token(credential.token)
        before = (known.certificate, known.key) if known is not None else (b"", b"")
        if self._tls is not None and before != (credential.certificate, credential.key):
            self._adopted = known  # until it is known to be usable
            self._tls.show(
                self._secret("clientCertificateData", credential.certificate),
                self._secret("clientKeyData", credential.key),
            )
            self._adopted = credential

    def _secret(self, field: str, data: bytes) -> Secret | None:
        return Secret(f"{self._name}: status.{field}", data=data) if data else None


def _has_own(user: User) -> bool:
    return bool(user.token or user.token_file or user.username or user.password or user.certificate)
