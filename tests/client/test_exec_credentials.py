from __future__ import annotations

import asyncio
import base64
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.client.access import ClusterAccess, Secret
from dray.client.exec_credentials import ExecCredential, ExecCredentials, ExecLimits, read_answer
from dray.client.exec_process import Said
from dray.errors import DeniedError, Error, InvalidError, ProtocolError, UnavailableError
from dray.runtime.clock import FakeClock, settle
from tests.campaign import campaign
from tests.client.plugins import V1BETA1, answer, calls, plugin, say, saying, script
from tests.waiting import wait_until

ACCESS = ClusterAccess("https://server:6443")


def asking(
    path: Path, access: ClusterAccess = ACCESS, clock: FakeClock | None = None, **fields: Any
) -> ExecCredentials:
    limits = ExecLimits(seconds=fields.pop("seconds", 10.0), output=fields.pop("output", 10_000))
    return ExecCredentials(
        plugin(path, **fields), access, clock or FakeClock(), limits, is_terminal=lambda: False
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return saying(tmp_path / "plugin", answer(token="one"))


async def test_asked_once_while_valid(program: Path) -> None:
    credentials = asking(program)
    assert [(await credentials.current()).token for _ in range(3)] == ["one"] * 3
    assert calls(program) == [
        {
            "kind": "ExecCredential",
            "apiVersion": "client.authentication.k8s.io/v1",
            "spec": {"interactive": False},
        }
    ]


async def test_v1beta1_is_spoken_too(program: Path) -> None:
    say(program, answer(V1BETA1, token="old"))
    credentials = asking(program, api_version=V1BETA1)
    assert (await credentials.current()).token == "old"
    assert calls(program)[0]["apiVersion"] == V1BETA1


async def test_asked_again_after_expiry_by_the_clock(program: Path) -> None:
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC))
    credentials = asking(program, clock=clock)
    say(program, answer(token="one", expirationTimestamp="2030-01-01T00:01:00Z"))
    assert (await credentials.current()).token == "one"
    say(program, answer(token="two", expirationTimestamp="2030-01-01T09:01:00+08:00"))
    await clock.advance(60)
    assert (await credentials.current()).token == "one"
    await clock.advance(1)
    assert (await credentials.current()).token == "two"
    assert len(calls(program)) == 2


async def test_credentials_that_come_expired_are_used_once_each(program: Path) -> None:
    say(program, answer(token="late", expirationTimestamp="2001-01-01T00:00:00Z"))
    credentials = asking(program)
    assert [(await credentials.current()).token for _ in range(2)] == ["late", "late"]
    assert len(calls(program)) == 2


async def test_refused_credentials_are_renewed_once_for_all(program: Path) -> None:
    credentials = asking(program)
    first = await credentials.current()
    say(program, answer(token="two"))
    assert await asyncio.gather(*(credentials.renew(first) for _ in range(5))) == [True] * 5
    assert await credentials.renew(first)
    assert len(calls(program)) == 2
    second = await credentials.current()
    assert not await credentials.renew(second)
    assert len(calls(program)) == 3


async def test_one_call_at_a_time_and_its_failure_is_shared(tmp_path: Path) -> None:
    program = script(tmp_path / "plugin", "sleep 0.2", "echo not now >&2", "exit 7")
    credentials = asking(program)
    results = await asyncio.gather(*(credentials.current() for _ in range(10)), return_exceptions=True)
    assert {str(result) for result in results} == {
        f"config: exec: command '{program}': failed with exit code 7: not now"
    }
    assert all(isinstance(result, DeniedError) and not result.authenticated for result in results)
    assert len({id(result) for result in results}) == 10
    assert len(calls(program)) == 1


async def test_cancelled_caller_passes_the_turn_on(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    program = script(tmp_path / "plugin", f"[ -e {gate} ] || sleep 60", f"echo '{answer(token='t')}'")
    credentials = asking(program, seconds=30)
    first = asyncio.create_task(credentials.current())
    await wait_until(lambda: calls(program))
    second = asyncio.create_task(credentials.current())
    await settle()
    gate.touch()
    first.cancel()
    assert (await second).token == "t"
    assert first.cancelled()


async def test_who_waited_for_a_cancelled_call_does_not_take_what_has_expired(tmp_path: Path) -> None:
    program = saying(tmp_path / "plugin", answer(token="old", expirationTimestamp="2001-01-01T00:00:00Z"))
    credentials = asking(program, seconds=30)
    assert (await credentials.current()).token == "old"
    script(program, "sleep 60")
    first = asyncio.create_task(credentials.current())
    await wait_until(lambda: len(calls(program)) == 2)
    second = asyncio.create_task(credentials.current())
    await settle()
    saying(program, answer(token="new"))
    first.cancel()
    assert (await second).token == "new"


async def test_arguments_environment_and_cluster(tmp_path: Path) -> None:
    program = script(
        tmp_path / "plugin",
        """printf '{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"%s-%s-%s"}}' """
        """"client.authentication.k8s.io/v1" "$1" "$EXTRA" "$PATH_KEPT" """,
    )
    os.environ["PATH_KEPT"] = "kept"
    access = ClusterAccess(
        "https://server:6443",
        ca=Secret("ca", data=b"PEM"),
        tls_server_name="name",
        proxy_url="http://proxy:1",
        compress=False,
    )
    fields: dict[str, Any] = {
        "args": ("a",),
        "env": (("EXTRA", "b"),),
        "provide_cluster": True,
        "cluster_config": b'{"audience":"x"}',
    }
    try:
        assert (await asking(program, access, **fields).current()).token == "a-b-kept"
    finally:
        del os.environ["PATH_KEPT"]
    assert calls(program)[0]["spec"]["cluster"] == {
        "server": "https://server:6443",
        "tls-server-name": "name",
        "certificate-authority-data": base64.b64encode(b"PEM").decode(),
        "proxy-url": "http://proxy:1",
        "disable-compression": True,
        "config": {"audience": "x"},
    }


async def test_programs_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidError, match=r"command '.*nothing': cannot be started: not found; get it at x\.example"
    ) as caught:
        await asking(tmp_path / "nothing", install_hint="get it at x.example").current()
    assert caught.value.field == "exec.command"
    plain = tmp_path / "plain"
    plain.write_text("no program")
    with pytest.raises(InvalidError, match="cannot be started: permission denied"):
        await asking(plain).current()


async def test_slow_and_talkative_programs(tmp_path: Path) -> None:
    slow = script(tmp_path / "slow", "sleep 60")
    with pytest.raises(UnavailableError, match=r"slow': gave no answer within 0\.2 s"):
        await asking(slow, seconds=0.2).current()
    loud = script(tmp_path / "loud", "cat /dev/zero")
    with pytest.raises(ProtocolError, match="loud': wrote more than 100 bytes on stdout"):
        await asking(loud, output=100).current()


async def test_failure_is_not_remembered(tmp_path: Path) -> None:
    program = saying(tmp_path / "plugin", "nonsense")
    credentials = asking(program)
    with pytest.raises(ProtocolError):
        await credentials.current()
    say(program, answer(token="now"))
    assert (await credentials.current()).token == "now"


async def test_interactive_only_with_a_terminal(program: Path) -> None:
    with pytest.raises(InvalidError, match="interactiveMode is Always, but standard input is not a terminal"):
        await asking(program, interactive="Always").current()
    assert calls(program) == []
    assert (await asking(program, interactive="IfAvailable").current()).token == "one"
    credentials = ExecCredentials(
        plugin(program, interactive="Always"), ACCESS, FakeClock(), is_terminal=lambda: True
    )
    await credentials.current()
    never = ExecCredentials(plugin(program), ACCESS, FakeClock(), is_terminal=lambda: True)
    await never.current()
    assert [call["spec"]["interactive"] for call in calls(program)] == [False, True, False]


def read(text: str | bytes) -> ExecCredential:
    data = text.encode() if isinstance(text, str) else text
    return read_answer(plugin(Path("/p")), Said(0, data, b""))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "kind: is '', not ExecCredential"),
        (answer(V1BETA1, token="x"), "apiVersion: is 'client.authentication.k8s.io/v1beta1', but"),
        (answer().replace('"status": {}', '"status": null'), "status: is missing"),
        (answer(), "neither token nor clientCertificateData"),
        (answer(clientKeyData="k"), "come together"),
        (answer(token="t", clientCertificateData="c"), "come together"),
        (answer(token="a b"), "status.token: holds characters"),
        (answer(token="a\r\nX: y"), "status.token: holds characters"),
        (answer(token=5), "status.token"),
        (answer(token="t", expirationTimestamp="soon"), "status.expirationTimestamp"),
    ],
)
def test_answers_that_are_none_name_command_and_field(text: str | bytes, words: str) -> None:
    with pytest.raises(ProtocolError, match="config: exec: command '/p': ") as caught:
        read(text)
    assert words in str(caught.value)


def test_yaml_and_both_kinds_of_credentials_are_fine() -> None:
    text = "kind: ExecCredential\napiVersion: client.authentication.k8s.io/v1\nstatus: {token: t}\n"
    assert read(text) == ExecCredential("t")
    found = read(answer(token="t", clientCertificateData="c", clientKeyData="k"))
    assert (found.token, found.certificate, found.key) == ("t", b"c", b"k")
    assert "secret" not in repr(
        read(answer(token="secret", clientCertificateData="c", clientKeyData="secret"))
    )


def test_death_by_signal_is_told() -> None:
    with pytest.raises(DeniedError, match=r"failed with signal 9$"):
        read_answer(plugin(Path("/p")), Said(-9, b"", b""))


@settings(max_examples=campaign(200, 50_000))
@given(data=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(str.encode)))
def test_any_bytes_are_an_error_of_ours(data: bytes) -> None:
    with pytest.raises(Error):
        read(data)
