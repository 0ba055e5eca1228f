"""etcd and kube-apiserver on loopback in a private directory: the smallest real API server.

    with ControlPlane(locate(modules)) as plane:
        plane.kubectl("get", "namespaces")

Entered = the API server answers; left = nothing remains on the machine (`private.py` says how, even after SIGKILL).
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dray.errors import InvalidError, UnavailableError
from dray.testing.kubernetes import access, commands
from dray.testing.kubernetes.certificates import Authority
from dray.testing.kubernetes.identities import ADMIN_GROUP, Identities
from dray.testing.kubernetes.part import Part, environment, last_lines, wait_until
from dray.testing.kubernetes.private import PrivateDirectory
from dray.testing.kubernetes.tools import Tools

FEATURE_GATES: Mapping[str, bool] = {"DRADeviceTaintRules": True}
READY_TIMEOUT_S = 90.0


class ControlPlane:
    """A real API server with its etcd. Methods block; call them with `asyncio.to_thread` from async code.

    `feature_gates` come on top of FEATURE_GATES. With `save_logs`, the logs are copied below that directory when
    the block is left by an exception or `failed` was set; `saved_logs` then names the copy.
    """

    private: PrivateDirectory
    settings: commands.Settings
    identities: Identities
    etcd: Part
    apiserver: Part

    def __init__(
        self, tools: Tools, *, feature_gates: Mapping[str, bool] | None = None, save_logs: Path | None = None
    ) -> None:
        missing = tools.missing()
        if missing:
            raise InvalidError(
                f"not installed: {', '.join(missing)}; run `make e2e` (it installs them first)."
            )
        self.tools = tools
        self.failed = False
        self.saved_logs: Path | None = None
        self._feature_gates = {**FEATURE_GATES, **(feature_gates or {})}
        self._save_logs = save_logs
        self._parts: list[Part] = []

    # Life

    def __enter__(self) -> Self:
        self.private = PrivateDirectory()
        try:
            self._prepare()
            self._start()
        except BaseException:
            self.failed = True
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.failed = self.failed or kind is not None
        self._leave()

    def _prepare(self) -> None:
        """Make what the parts need before they start: ports, identities, certificates, kubeconfigs."""
        etcd, peer, api, kubelet = access.free_ports(4)
        self.settings = commands.Settings(
            self.tools, self.directory, (etcd, peer, api, kubelet), self._feature_gates
        )
        self.identities = self._make_identities()
        self.kubeconfig = self.identities.admin()
        self.driver_kubeconfig = self.identities.driver()
        self.certificate_kubeconfig = self.kubeconfig_for("admin-by-certificate", ADMIN_GROUP)
        self._access = access.AdminAccess(self.server, self.admin_token, self.identities.server_authority)
        self._serving = self._make_serving()

    def _make_identities(self) -> Identities:
        return Identities(self.directory, self.server)

    def _make_serving(self) -> tuple[Part, ...]:
        """The programs that are the API server, in the order in which they start."""
        self.etcd = self._part("etcd", commands.etcd(self.settings))
        self.apiserver = self._part("kube-apiserver", self._apiserver_command())
        return self.etcd, self.apiserver

    def _apiserver_command(self) -> commands.Command:
        return commands.apiserver(self.settings, self.identities)

    def _start(self) -> None:
        self.etcd.start()
        self.start_apiserver()

    def _leave(self) -> None:
        """Stop the parts in order, the youngest first; what does not stop is swept with the directory."""
        try:
            for part in reversed(self._parts):
                part.stop(timeout=5.0)
            if self.failed and self._save_logs is not None:
                self.saved_logs = self.private.save_logs(self._save_logs)
        finally:
            self.private.close()
            self._parts.clear()

    # The API server

    @property
    def server(self) -> str:
        """The API server's address."""
        return self.settings.server

    @property
    def directory(self) -> Path:
        """The private directory: logs, kubeconfigs, certificates, data."""
        return self.private.path

    def start_apiserver(self) -> None:
        """Start the API server (again, on the same port) and wait until it is ready."""
        self.apiserver.start()
        wait_until(self._access.is_ready, "the API server", READY_TIMEOUT_S, self._serving)

    def stop_apiserver(self) -> None:
        """Stop the API server in order: running requests and watches are ended."""
        self.apiserver.stop(timeout=30.0)

    def kill_apiserver(self) -> None:
        """Kill the API server with SIGKILL: connections break in the middle."""
        self.apiserver.kill()

    def compact_etcd(self) -> int:
        """Forget etcd's history up to now and return the revision.

        A running API server still answers older watches from its own window of events; after it is restarted, a
        watch or a continued list from an older resourceVersion gets 410 Gone.
        """
        return access.compact_etcd(self.settings.etcd_url)

    def request(self, method: str, path: str, body: Any = None, timeout: float = 10.0) -> Any:
        """One request as administrator; returns the decoded JSON. For set-up and waits: tests use the client."""
        return self._access.request(method, path, body, timeout)

    def kubectl(self, *args: str, input: str | None = None, timeout: float = 60.0) -> str:  # noqa: A002
        """Run kubectl as administrator and return what it printed; raises with its message when it fails."""
        return self._run(
            [self.tools.path("kubectl"), f"--kubeconfig={self.kubeconfig}", *args], input, timeout
        )

    # Identities

    @property
    def authority(self) -> Authority:
        """The certificate authority; `authority.certificate` is the CA file."""
        return self.identities.authority

    @property
    def admin_token(self) -> str:
        """The administrator's bearer token."""
        return self.identities.admin_token

    def kubeconfig_for(self, user: str, *groups: str) -> Path:
        """A kubeconfig with a client certificate for any user and groups; it has the rights RBAC gives those.

        `kubeconfig` (administrator) and `driver_kubeconfig` (user `dray-driver`, no rights) carry tokens instead.
        """
        return self.identities.by_certificate(user, groups)

    # Parts

    def log_ends(self, lines: int = 5) -> str:
        """The last lines of every saved log, for a report."""
        if self.saved_logs is None:
            return ""
        logs = sorted(self.saved_logs.rglob("*.log"))
        return "\n".join(f"--- {log.relative_to(self.saved_logs)}\n{last_lines(log, lines)}" for log in logs)

    def _part(self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Part:
        part = Part(name, argv, self.directory, env)
        self._parts.append(part)
        return part

    def _run(self, argv: Sequence[str | Path], stdin: str | None, timeout: float) -> str:
        done = subprocess.run(
            argv,
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment(self.directory),
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip()
            raise UnavailableError(f"{Path(argv[0]).name} failed ({done.returncode}): {said}")
        return done.stdout
