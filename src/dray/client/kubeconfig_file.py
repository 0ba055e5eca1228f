"""One kubeconfig file as kubectl writes it. Unknown fields are ignored, `null` counts as absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dray.api.codec import load_values, view
from dray.client.access import read_file
from dray.errors import InvalidError


class Extension(msgspec.Struct, frozen=True):
    """An entry of `extensions`: whatever a tool keeps here under its own name."""

    name: str = ""
    extension: Any = None


class Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    """A server and how to trust it."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] = ()


class ExecVariable(msgspec.Struct, frozen=True):
    """An environment variable of a plugin."""

    name: str = ""
    value: str = ""


class ExecEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A program that gives the user's credentials (client.authentication.k8s.io)."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AuthInfo(msgspec.Struct, frozen=True, rename="kebab"):
    """A user's credentials."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    as_: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: dict[str, tuple[str, ...]] = {}
    auth_provider: dict[str, Any] | None = None
    exec: ExecEntry | None = None


class Context(msgspec.Struct, frozen=True):
    """Which user on which cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(msgspec.Struct, frozen=True):
    """An entry of `clusters`."""

    name: str
    cluster: Cluster = Cluster()


class NamedUser(msgspec.Struct, frozen=True):
    """An entry of `users`."""

    name: str
    user: AuthInfo = AuthInfo()


class NamedContext(msgspec.Struct, frozen=True):
    """An entry of `contexts`."""

    name: str
    context: Context = Context()


class KubeConfigFile(msgspec.Struct, frozen=True):
    """The whole file."""

    kind: str = "Config"
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    current_context: str = msgspec.field(default="", name="current-context")


def read_kubeconfig(path: Path) -> KubeConfigFile:
    """Read and check the form of one file. InvalidError names the file and the field, or line and column."""
    documents = load_values(read_file(path, "kubeconfig"), str(path))
    if len(documents) > 1:
        raise InvalidError(
            f"{path}: kubeconfig: holds {len(documents)} documents; keep one", field="kubeconfig"
        )
    try:
        file = view(documents[0].value if documents else {}, KubeConfigFile)
    except InvalidError as error:
        hint = "; put it in quotes" if "expected `str`, got" in str(error) else ""
        raise InvalidError(f"{path}: {error}{hint}", field=error.field) from error
    if file.kind != "Config":
        raise InvalidError(f"{path}: kind: is {file.kind}, not Config: this is no kubeconfig", field="kind")
    for field, names in (
        ("clusters", [entry.name for entry in file.clusters]),
        ("users", [entry.name for entry in file.users]),
        ("contexts", [entry.name for entry in file.contexts]),
    ):
        _check_unique(path, field, names)
    return file


def _check_unique(path: Path, field: str, names: list[str]) -> None:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            raise InvalidError(f'{path}: {field}[{index}].name: "{name}" is there twice', field=field)
        seen.add(name)
