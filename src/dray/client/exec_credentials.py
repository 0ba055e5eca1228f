"""Credentials from a program named in the kubeconfig (`exec`, client.authentication.k8s.io v1 and v1beta1).

The program is asked before the first request, after its credentials expired, and when the server no longer takes
them (401). One call at a time: who comes meanwhile waits for it and shares its result, also its failure. It inherits
our environment, with the kubeconfig's `env` and KUBERNETES_EXEC_INFO on top, and answers on stdout.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from dray.api.codec import encode, load_values, view
from dray.api.meta import Time
from dray.client.access import ClusterAccess, ExecPlugin
from dray.client.exec_process import Said, TooMuchOutputError, run_program
from dray.errors import DeniedError, Error, InvalidError, ProtocolError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("client.exec")

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
OUTPUT_LIMIT = 2**20


@dataclass(frozen=True, slots=True)
class ExecLimits:
    """How long one call may take, in seconds: alone, and when it may ask the user something."""

    seconds: float = 60.0
    interactive_seconds: float = 600.0
    output: int = OUTPUT_LIMIT


@dataclass(frozen=True, slots=True)
class ExecCredential:
    """What the program gave: a token, a certificate with its key, or both."""

    token: str = field(default="", repr=False)
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    expires: datetime | None = None


class _Call:
    """One run of the program that others may wait for."""

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.failure: Error | None = None
        self.is_answered = False


class ExecCredentials:
    """Asks the plugin when needed. Used from one event loop; a new process starts with an empty hand."""

    def __init__(
        self,
        plugin: ExecPlugin,
        access: ClusterAccess,
        clock: Clock,
        limits: ExecLimits | None = None,
        *,
        is_terminal: Callable[[], bool] | None = None,
    ) -> None:
        self._plugin = plugin
        self._access = access
        self._clock = clock
        self._limits = limits or ExecLimits()
        self._is_terminal = is_terminal or _stdin_is_terminal
        self._known: ExecCredential | None = None
        self._call: _Call | None = None

    async def current(self) -> ExecCredential:
        """Credentials that have not expired, from the last call or a new one.

        InvalidError: the program cannot be started. DeniedError: it ended with a failure. UnavailableError: it took
        too long. ProtocolError: what it said is no credential. All name the command.
        """
        while self._known is None or self._is_expired(self._known):
            if await self._ask() and self._known is not None:
                break  # even if it came expired: the server decides, and the next request asks again
        return self._known

    async def renew(self, refused: ExecCredential) -> bool:
        """Called after a 401: ask again, unless somebody did already. Whether there is something new to try."""
        while self._known is refused and not await self._ask():
            pass
        return self._known != refused

    def _is_expired(self, credential: ExecCredential) -> bool:
        return credential.expires is not None and self._clock.now() > credential.expires

    async def _ask(self) -> bool:
        """Run the program, or wait for who runs it. False: that one was cancelled, the next may try."""
        if self._call is not None:
            call = self._call
            await call.done.wait()
            if call.failure is not None:
                raise _again(call.failure)
            return call.is_answered
        call = self._call = _Call()
        try:
            self._known = await self._run()
            call.is_answered = True
        except Error as error:
            call.failure = error
            raise
        finally:
            self._call = None
            call.done.set()
        return True

    async def _run(self) -> ExecCredential:
        plugin, on_terminal = self._plugin, self._may_ask_user()
        limits = self._limits
        seconds = limits.interactive_seconds if on_terminal else limits.seconds
        env = {**os.environ, **dict(plugin.env), "KUBERNETES_EXEC_INFO": self._info(on_terminal).decode()}
        try:
            said = await run_program(
                (plugin.command, *plugin.args),
                env,
                on_terminal=on_terminal,
                seconds=seconds,
                limit=limits.output,
            )
        except TimeoutError as error:
            raise UnavailableError(f"{_what(plugin)}: gave no answer within {seconds:g} s") from error
        except TooMuchOutputError as error:
            raise ProtocolError(
                f"{_what(plugin)}: wrote {error} on stdout; is this the right program?"
            ) from error
        except OSError as error:
            raise _not_started(plugin, error) from error
        credential = read_answer(plugin, said)
        _log.debug("credentials renewed", plugin=plugin.command, expires=credential.expires)
        return credential

    def _may_ask_user(self) -> bool:
        mode = self._plugin.interactive
        if mode == "Always" and not self._is_terminal():
            raise InvalidError(
                f"{_what(self._plugin)}: interactiveMode is Always, but standard input is not a terminal",
                field="exec.interactiveMode",
            )
        return mode != "Never" and self._is_terminal()

    def _info(self, on_terminal: bool) -> bytes:
        """What the program is told about us."""
        spec: dict[str, Any] = {"interactive": on_terminal}
        if self._plugin.provide_cluster:
            spec["cluster"] = cluster_info(self._access, self._plugin.cluster_config)
        return encode({"kind": "ExecCredential", "apiVersion": self._plugin.api_version, "spec": spec})


def cluster_info(access: ClusterAccess, config: bytes) -> dict[str, Any]:
    """The cluster as the program is told it; what is not set is left out."""
    optional = {
        "tls-server-name": access.tls_server_name,
        "insecure-skip-tls-verify": access.insecure,
        "certificate-authority-data": base64.b64encode(access.ca.read()).decode() if access.ca else "",
        "proxy-url": access.proxy_url,
        "disable-compression": not access.compress,
    }
    given = {name: value for name, value in optional.items() if value}
    return {"server": access.server, **given, "config": msgspec.Raw(config)}


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    expiration_timestamp: Time | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


def read_answer(plugin: ExecPlugin, said: Said) -> ExecCredential:
    """The credential in what the program said; the error names the command and the field."""
    if said.returncode:
        raise DeniedError(
            f"{_what(plugin)}: failed with {_exit(said.returncode)}{_last_words(said.stderr)}",
            authenticated=False,
        )
    try:
        documents = load_values(said.stdout, "stdout")
        answer = view(documents[0].value if documents else None, _Answer)
    except InvalidError as error:
        raise ProtocolError(f"{_what(plugin)}: its answer cannot be read: {error}") from error
    if fault := _fault(answer, plugin.api_version):
        raise ProtocolError(f"{_what(plugin)}: {fault}")
    status = answer.status or _Status()
    return ExecCredential(
        status.token,
        status.client_certificate_data.encode(),
        status.client_key_data.encode(),
        status.expiration_timestamp,
    )


def _fault(answer: _Answer, api_version: str) -> str:
    status = answer.status
    if answer.kind != "ExecCredential":
        return f"kind: is {answer.kind!r}, not ExecCredential"
    if answer.api_version != api_version:
        return f"apiVersion: is {answer.api_version!r}, but the kubeconfig says {api_version}"
    if status is None:
        return "status: is missing; the program gave no credentials"
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        return "status: clientCertificateData and clientKeyData come together or not at all"
    if not status.token and not status.client_key_data:
        return "status: holds neither token nor clientCertificateData"
    token = status.token
    if not token.isascii() or not token.isprintable() or " " in token:
        return "status.token: holds characters that no token has"
    return ""


def _not_started(plugin: ExecPlugin, error: OSError) -> InvalidError:
    hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
    reason = "not found" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()
    return InvalidError(f"{_what(plugin)}: cannot be started: {reason}{hint}", field="exec.command")


def _again(failure: Error) -> Error:
    """The same failure for another waiter: an exception object belongs to who raises it."""
    match failure:
        case InvalidError():
            return InvalidError(str(failure), field=failure.field)
        case DeniedError():
            return DeniedError(str(failure), authenticated=failure.authenticated)
    return type(failure)(str(failure))


def _what(plugin: ExecPlugin) -> str:
    return f"{plugin.name}: command {plugin.command!r}"


def _exit(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"


def _last_words(stderr: bytes) -> str:
    """The last line it wrote, which mostly says why."""
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    text = "".join(sign for sign in lines[-1] if sign.isprintable()).strip() if lines else ""
    return f": {text[-300:]}" if text else ""


def _stdin_is_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
