"""How to reach one API server and as whom: the value a kubeconfig or a pod's service account is turned into."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dray.errors import InvalidError

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")

InteractiveMode = Literal["Never", "IfAvailable", "Always"]

_FILE_LIMIT = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Secret:
    """Text given in place or as a file; `name` is what messages call it. Never shown by repr()."""

    name: str
    data: bytes = field(default=b"", repr=False)
    path: Path | None = None

    def read(self) -> bytes:
        """The bytes of now: a file is read each time, because credentials rotate."""
        if self.path is None:
            return self.data
        return read_file(self.path, self.name)


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Act as somebody else; the server checks that the user may."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that is asked for credentials. `name` is what messages call it (file, context, user, `exec`).

    `command` is a name to look for in PATH, or a path. `cluster_config` is the JSON that the kubeconfig's cluster
    keeps for the plugin; it is told with the rest of the cluster where `provide_cluster` is set.
    """

    name: str
    command: str
    api_version: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    interactive: InteractiveMode = "Never"
    install_hint: str = ""
    provide_cluster: bool = False
    cluster_config: bytes = field(default=b"null", repr=False)


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. All empty: nobody in particular (system:anonymous). A token file wins over a token.

    A plugin is asked only where there is no token, password or certificate, as in kubectl.
    """

    token: str = field(default="", repr=False)
    token_file: Secret | None = None
    certificate: Secret | None = None
    key: Secret | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    impersonate: Impersonation | None = None
    plugin: ExecPlugin | None = None


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """One server, one user, one default namespace. `origin` says where it was written, for messages."""

    server: str
    user: User = User()
    namespace: str = "default"
    ca: Secret | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    compress: bool = True
    origin: str = ""


def in_cluster(
    directory: Path = SERVICE_ACCOUNT_DIR, environ: Mapping[str, str] | None = None
) -> ClusterAccess:
    """The access every pod is given: token, CA and namespace as files, the server in the environment."""
    environ = os.environ if environ is None else environ
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise InvalidError(
            "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give a kubeconfig",
            field="KUBERNETES_SERVICE_HOST",
        )
    token, ca, namespace = (
        Secret("service account token", path=directory / "token"),
        Secret("service account CA", path=directory / "ca.crt"),
        directory / "namespace",
    )
    for needed in (token, ca):
        if not needed.read().strip():
            raise InvalidError(f"{needed.path}: {needed.name} is empty", field=str(needed.path))
    return ClusterAccess(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        user=User(token_file=token),
        namespace=_namespace(namespace),
        ca=ca,
        origin=str(directory),
    )


def is_in_cluster(directory: Path = SERVICE_ACCOUNT_DIR, environ: Mapping[str, str] | None = None) -> bool:
    """Whether this process runs in a pod that may talk to its API server."""
    environ = os.environ if environ is None else environ
    return bool(
        environ.get("KUBERNETES_SERVICE_HOST")
        and environ.get("KUBERNETES_SERVICE_PORT")
        and (directory / "token").is_file()
    )


def _namespace(path: Path) -> str:
    """A pod's own namespace; some mounts leave the file out."""
    if not path.exists():
        return "default"
    return decode_text(read_file(path, "service account namespace"), str(path)).strip() or "default"


def read_file(path: Path, what: str) -> bytes:
    """A small file, whole. Named pipes work (`--kubeconfig <(…)`); endless ones are cut off with an error."""
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_LIMIT + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidError(f"{path}: cannot read {what}: {reason}", field=what) from error
    if len(data) > _FILE_LIMIT:
        raise InvalidError(f"{path}: {what} is larger than {_FILE_LIMIT >> 20} MiB", field=what)
    return data


def decode_text(data: bytes, what: str) -> str:
    """UTF-8 text, or an error that names the place."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"{what}: is not UTF-8 text (byte {error.start})", field=what) from error
