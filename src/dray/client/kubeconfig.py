"""Kubeconfig files: find them, merge them as kubectl does, and turn a context into a `ClusterAccess`.

Where files come from: an explicit path alone; else the files of $KUBECONFIG; else ~/.kube/config; else, in a pod,
its service account. When files are merged, the first to name a cluster, user, context or the current context wins,
and an entry is taken whole: nothing is mixed in from a later file. Relative paths belong to the file they are
written in. Missing files of a list are skipped; a broken one is an error. Other than kubectl, a KUBECONFIG of which
no file exists is an error and does not fall back to the service account.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from yarl import URL

from dray.api.codec import encode
from dray.api.names import dns_label
from dray.client.access import (
    SERVICE_ACCOUNT_DIR,
    ClusterAccess,
    ExecPlugin,
    Impersonation,
    InteractiveMode,
    Secret,
    User,
    in_cluster,
    is_in_cluster,
)
from dray.client.exec_credentials import API_VERSIONS
from dray.client.kubeconfig_file import AuthInfo, Cluster, Context, ExecEntry, read_kubeconfig
from dray.client.proxy import parse_proxy
from dray.errors import InvalidError

E = TypeVar("E")

_MODES: Mapping[str, InteractiveMode] = {"Never": "Never", "IfAvailable": "IfAvailable", "Always": "Always"}
_PLUGIN_EXTENSION = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True)
class Placed(Generic[E]):
    """An entry, what to call it in messages, and the file it is written in."""

    entry: E
    name: str
    file: Path

    def error(self, field: str, problem: str) -> InvalidError:
        """The error for one field of this entry."""
        return InvalidError(f"{self.file}: {self.name}: {field}: {problem}", field=field)

    def path(self, text: str) -> Path:
        """A path as this file means it."""
        return self.file.parent.absolute() / text


@dataclass(frozen=True, slots=True)
class KubeConfig:
    """One or several files, merged. Only the form has been checked until `access` is called."""

    files: tuple[Path, ...]
    current_context: str
    contexts: Mapping[str, Placed[Context]]
    clusters: Mapping[str, Placed[Cluster]]
    users: Mapping[str, Placed[AuthInfo]]

    def access(self, context: str | None = None) -> ClusterAccess:
        """What `context`, or the current one, leads to. InvalidError names file, context and field."""
        chosen = self._choose(context or self.current_context)
        cluster = _refer(chosen, "cluster", chosen.entry.cluster, self.clusters)
        user = _refer(chosen, "user", chosen.entry.user, self.users)
        namespace = chosen.entry.namespace or "default"
        if faults := dns_label(namespace):
            raise chosen.error("namespace", f"{namespace!r}: {faults[0]}")
        entry, ca = cluster.entry, _ca(cluster)
        return ClusterAccess(
            server=_server(cluster, user, ca),
            user=_user(user, cluster),
            namespace=namespace,
            ca=ca,
            insecure=entry.insecure_skip_tls_verify,
            tls_server_name=entry.tls_server_name,
            proxy_url=_proxy(cluster),
            compress=not entry.disable_compression,
            origin=f"{chosen.file}: {chosen.name}",
        )

    def _choose(self, name: str) -> Placed[Context]:
        where = ", ".join(map(str, self.files))
        names = ", ".join(sorted(self.contexts))
        choice = f"choose one of: {names}" if names else "the file has no contexts"
        if not name:
            raise InvalidError(f"{where}: current-context: is not set; {choice}", field="current-context")
        if name not in self.contexts:
            raise InvalidError(f'{where}: contexts: there is no context "{name}"; {choice}', field="contexts")
        return self.contexts[name]


def find_access(
    path: Path | str | None = None,
    *,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT_DIR,
) -> ClusterAccess:
    """The access a user means who gives this kubeconfig and context, or nothing at all."""
    environ = os.environ if environ is None else environ
    files = _candidates(path, environ)
    present = [file for file in files if path or file.exists()]
    if present:
        return load_kubeconfig(present).access(context)
    if not environ.get("KUBECONFIG") and not context and is_in_cluster(service_account, environ):
        return in_cluster(service_account, environ)
    missing = ", ".join(map(str, files)) or "a home directory"
    raise InvalidError(
        f"no kubeconfig: {missing} does not exist; set KUBECONFIG or name a kubeconfig file",
        field="KUBECONFIG",
    )


def _candidates(path: Path | str | None, environ: Mapping[str, str]) -> list[Path]:
    if path:
        return [Path(path)]
    listed = environ.get("KUBECONFIG", "")
    if listed:
        return [Path(part) for part in dict.fromkeys(listed.split(os.pathsep)) if part]
    home = environ.get("HOME", "")
    return [Path(home) / ".kube" / "config"] if home else []


def load_kubeconfig(files: Sequence[Path]) -> KubeConfig:
    """Read and merge; the first file wins. A file that is missing is an error here."""
    contexts: dict[str, Placed[Context]] = {}
    clusters: dict[str, Placed[Cluster]] = {}
    users: dict[str, Placed[AuthInfo]] = {}
    current = ""
    for path in files:
        file = read_kubeconfig(path)
        current = current or file.current_context
        for context in file.contexts:
            contexts.setdefault(context.name, Placed(context.context, f'context "{context.name}"', path))
        for cluster in file.clusters:
            clusters.setdefault(cluster.name, Placed(cluster.cluster, f'cluster "{cluster.name}"', path))
        for user in file.users:
            users.setdefault(user.name, Placed(user.user, f'user "{user.name}"', path))
    return KubeConfig(tuple(files), current, contexts, clusters, users)


def _refer(context: Placed[Context], field: str, name: str, entries: Mapping[str, Placed[E]]) -> Placed[E]:
    """The entry a context points to; its messages name the context too."""
    if not name:
        raise context.error(field, "is not set")
    if name not in entries:
        raise context.error(field, f'there is no {field} "{name}"')
    found = entries[name]
    return Placed(found.entry, f"{context.name}: {found.name}", found.file)


def _server(cluster: Placed[Cluster], user: Placed[AuthInfo], ca: Secret | None) -> str:
    """The base address; without a scheme it is HTTPS where anything about TLS is said, as kubectl has it."""
    entry, text = cluster.entry, cluster.entry.server
    if not text:
        raise cluster.error("server", "is not set")
    if "://" not in text:
        certificate = user.entry.client_certificate or user.entry.client_certificate_data
        secure = ca is not None or entry.insecure_skip_tls_verify or bool(certificate)
        text = f"{'https' if secure else 'http'}://{text}"
    try:
        url = URL(text)
    except ValueError as error:
        raise cluster.error("server", f"{entry.server!r} is no address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise cluster.error("server", f"{entry.server!r} is no http:// or https:// address")
    if url.query_string or url.fragment or url.user is not None:
        raise cluster.error(
            "server", f"{entry.server!r} has a user, query or fragment; give the address alone"
        )
    return str(url).rstrip("/")


def _ca(cluster: Placed[Cluster]) -> Secret | None:
    entry = cluster.entry
    ca = _secret(
        cluster, "certificate-authority", entry.certificate_authority, entry.certificate_authority_data
    )
    if ca is not None and entry.insecure_skip_tls_verify:
        raise cluster.error("insecure-skip-tls-verify", "is set beside a certificate-authority; remove one")
    return ca


def _proxy(cluster: Placed[Cluster]) -> str:
    if cluster.entry.proxy_url:
        parse_proxy(cluster.entry.proxy_url, f"{cluster.file}: {cluster.name}: proxy-url")
    return cluster.entry.proxy_url


def _user(user: Placed[AuthInfo], cluster: Placed[Cluster]) -> User:
    entry = user.entry
    if entry.auth_provider is not None:
        raise user.error("auth-provider", "is not supported; use exec, a token or client-certificate")
    if entry.token and (entry.username or entry.password):
        raise user.error("token", "is set beside username and password; keep one of them")
    certificate = _secret(user, "client-certificate", entry.client_certificate, entry.client_certificate_data)
    key = _secret(user, "client-key", entry.client_key, entry.client_key_data)
    if (certificate is None) != (key is None):
        given, missing = ("client-certificate", "client-key")[:: 1 if key is None else -1]
        raise user.error(missing, f"is not set, but {given} is")
    return User(
        token=entry.token,
        token_file=_secret(user, "tokenFile", entry.token_file, ""),
        certificate=certificate,
        key=key,
        username=entry.username,
        password=entry.password,
        impersonate=_impersonation(user),
        plugin=_plugin(user, entry.exec, cluster) if entry.exec is not None else None,
    )


def _plugin(user: Placed[AuthInfo], entry: ExecEntry, cluster: Placed[Cluster]) -> ExecPlugin:
    if not entry.command:
        raise user.error("exec.command", "is not set")
    if entry.api_version not in API_VERSIONS:
        known = " or ".join(API_VERSIONS)
        raise user.error("exec.apiVersion", f"is {entry.api_version!r}; this client speaks {known}")
    for index, variable in enumerate(entry.env):
        if not variable.name or "=" in variable.name or "\0" in variable.name + variable.value:
            raise user.error(f"exec.env[{index}].name", f"{variable.name!r} is no name of a variable")
    if any("\0" in text for text in (entry.command, *entry.args)):
        raise user.error("exec.args", "hold a zero byte")
    config = [item.extension for item in cluster.entry.extensions if item.name == _PLUGIN_EXTENSION]
    return ExecPlugin(
        name=f"{user.file}: {user.name}: exec",
        command=str(user.path(entry.command)) if "/" in entry.command else entry.command,
        args=entry.args,
        env=tuple((variable.name, variable.value) for variable in entry.env),
        api_version=entry.api_version,
        interactive=_interactive(user, entry),
        install_hint="".join(sign if sign.isprintable() else " " for sign in entry.install_hint),
        provide_cluster=entry.provide_cluster_info,
        cluster_config=encode(config[0]) if config else b"null",
    )


def _interactive(user: Placed[AuthInfo], entry: ExecEntry) -> InteractiveMode:
    """May the plugin talk to the user? v1 wants to be told; before that it could if there was somebody."""
    mode = entry.interactive_mode
    if not mode and entry.api_version.endswith("/v1beta1"):
        return "IfAvailable"
    if mode not in _MODES:
        raise user.error("exec.interactiveMode", f"is {mode!r}; write Never, IfAvailable or Always")
    return _MODES[mode]


def _impersonation(user: Placed[AuthInfo]) -> Impersonation | None:
    entry = user.entry
    if not entry.as_:
        if entry.as_uid or entry.as_groups or entry.as_user_extra:
            raise user.error("as", "is not set, but as-uid, as-groups or as-user-extra is")
        return None
    return Impersonation(entry.as_, entry.as_uid, entry.as_groups, tuple(sorted(entry.as_user_extra.items())))


def _secret(place: Placed[E], field: str, path: str, data: str) -> Secret | None:
    """Data or a file; data wins, as in kubectl. A file is read now, so that a missing one is noticed at start."""
    name = f"{place.file}: {place.name}: {field}"
    if data:
        try:
            return Secret(f"{name}-data", data=base64.b64decode("".join(data.split()), validate=True))
        except (binascii.Error, ValueError) as error:
            raise place.error(f"{field}-data", f"is not base64: {error}") from error
    if not path:
        return None
    secret = Secret(name, path=place.path(path))
    secret.read()
    return secret
