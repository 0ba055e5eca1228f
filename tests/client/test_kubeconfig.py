from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.client.access import ClusterAccess
from dray.client.kubeconfig import find_access, load_kubeconfig
from dray.errors import InvalidError
from tests.campaign import campaign


def config(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    name: str = "main",
) -> dict[str, Any]:
    """A kubeconfig with one of everything."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": "https://example:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
    }


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else msgspec.json.encode(document))
    return path


def access(tmp_path: Path, document: Any, context: str | None = None) -> ClusterAccess:
    return find_access(write(tmp_path / "config", document), context=context, environ={})


def fault(tmp_path: Path, document: Any, context: str | None = None) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        access(tmp_path, document, context)
    assert str(tmp_path / "config") in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_the_yaml_kubectl_writes(tmp_path: Path) -> None:
    found = access(
        tmp_path,
        b"""
apiVersion: v1
kind: Config
preferences: {}
current-context: dev
clusters:
- name: kind
  cluster:
    server: https://127.0.0.1:6443/
    certificate-authority-data: Q0E=
    tls-server-name: kubernetes
    extensions:
    - name: minikube
      extension: {version: 1.0}
contexts:
- name: dev
  context: {cluster: kind, user: joe, namespace: team-a}
users:
- name: joe
  user:
    token: abc.def
""",
    )
    assert found.server == "https://127.0.0.1:6443"
    assert (found.namespace, found.tls_server_name, found.insecure) == ("team-a", "kubernetes", False)
    assert found.ca is not None
    assert found.ca.read() == b"CA"
    assert found.user.token == "abc.def"
    assert 'context "dev"' in found.origin


def test_secrets_are_not_shown_by_repr(tmp_path: Path) -> None:
    key = {"client-certificate-data": b64(b"PUBLIC-C"), "client-key-data": b64(b"SECRET-K")}
    found = access(tmp_path, config(user={"token": "SECRET-T", **key}))
    assert "SECRET" not in repr(found)
    assert "PUBLIC" not in repr(found)
    basic = access(tmp_path, config(user={"username": "u", "password": "SECRET-P"}))
    assert "SECRET" not in repr(basic)


def test_relative_paths_belong_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a/pki/ca.crt", b"CA")
    write(tmp_path / "a/token", b"tok\n")
    write(tmp_path / "a/me.crt", b"CERT")
    write(tmp_path / "a/me.key", b"KEY")
    document = config(
        {"certificate-authority": "pki/ca.crt"},
        {"tokenFile": "./token", "client-certificate": "me.crt", "client-key": "me.key"},
    )
    write(tmp_path / "a/config", document)
    monkeypatch.chdir(tmp_path)
    found = find_access("a/config", environ={})
    monkeypatch.chdir("/")
    assert found.ca is not None
    assert found.user.certificate is not None
    assert found.user.key is not None
    assert found.user.token_file is not None
    assert found.ca.read() == b"CA"
    assert found.user.certificate.read() == b"CERT"
    assert found.user.key.read() == b"KEY"
    assert found.user.token_file.read() == b"tok\n"


def test_data_wins_over_a_file_that_need_not_exist(tmp_path: Path) -> None:
    found = access(
        tmp_path, config({"certificate-authority": "gone", "certificate-authority-data": b64(b"CA")})
    )
    assert found.ca is not None
    assert found.ca.read() == b"CA"


def test_merge_takes_whole_entries_from_the_first_file(tmp_path: Path) -> None:
    one = write(tmp_path / "1", config(user={"username": "joe", "password": "p"}))
    two = write(
        tmp_path / "2",
        {
            **config({"server": "https://two", "tls-server-name": "t"}, {"token": "two"}),
            "current-context": "x",
        },
    )
    three = write(tmp_path / "3", config({"server": "https://three"}, name="other"))
    environ = {"KUBECONFIG": os.pathsep.join(["", str(tmp_path / "gone"), str(one), str(two), str(three)])}
    found = find_access(environ=environ)
    assert found.server == "https://example:6443"
    assert (found.tls_server_name, found.user.token, found.user.username) == ("", "", "joe")
    assert found.namespace == "default"
    assert find_access(context="other", environ=environ).server == "https://three"


def test_entries_may_refer_across_files(tmp_path: Path) -> None:
    one = write(tmp_path / "1", {"current-context": "c", "users": [{"name": "u", "user": {"token": "t"}}]})
    two = write(tmp_path / "sub/2", {"contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]})
    three = write(
        tmp_path / "3", {"clusters": [{"name": "k", "cluster": {"server": "h:1", "tls-server-name": "x"}}]}
    )
    found = find_access(environ={"KUBECONFIG": f"{one}:{two}:{three}"})
    assert (found.server, found.user.token) == ("http://h:1", "t")


def test_first_current_context_wins_even_if_the_context_is_elsewhere(tmp_path: Path) -> None:
    one = write(tmp_path / "1", {"current-context": "b"})
    two = write(tmp_path / "2", config(name="a"))
    three = write(tmp_path / "3", config({"server": "https://b"}, name="b"))
    assert load_kubeconfig([one, two, three]).access().server == "https://b"


def test_where_files_come_from(tmp_path: Path) -> None:
    home = write(tmp_path / "home/.kube/config", config({"server": "https://home"})).parent.parent
    listed = write(tmp_path / "listed", config({"server": "https://listed"}))
    given = write(tmp_path / "given", config({"server": "https://given"}))
    pod = service_account(tmp_path)
    cluster = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    everything = {"HOME": str(home), "KUBECONFIG": str(listed), **cluster}
    assert find_access(given, environ=everything, service_account=pod).server == "https://given"
    assert find_access(environ=everything, service_account=pod).server == "https://listed"
    del everything["KUBECONFIG"]
    assert find_access(environ=everything, service_account=pod).server == "https://home"
    everything["HOME"] = str(tmp_path)
    assert find_access(environ=everything, service_account=pod).server == "https://10.0.0.1:443"
    with pytest.raises(InvalidError, match=rf"no kubeconfig: {tmp_path}/.kube/config does not exist"):
        find_access(environ={"HOME": str(tmp_path)}, service_account=pod)
    with pytest.raises(InvalidError, match="no kubeconfig"):
        find_access(environ={})


def service_account(tmp_path: Path) -> Path:
    pod = tmp_path / "serviceaccount"
    write(pod / "token", b"t")
    write(pod / "ca.crt", b"CA")
    return pod


def test_kubeconfig_variable_that_names_nothing_is_an_error_even_in_a_pod(tmp_path: Path) -> None:
    environ = {
        "KUBECONFIG": str(tmp_path / "typo"),
        "KUBERNETES_SERVICE_HOST": "h",
        "KUBERNETES_SERVICE_PORT": "1",
    }
    with pytest.raises(InvalidError, match="typo does not exist"):
        find_access(environ=environ, service_account=service_account(tmp_path))


def test_missing_or_unreadable_explicit_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="gone: cannot read kubeconfig: no such file"):
        find_access(tmp_path / "gone", environ={})
    with pytest.raises(InvalidError, match="cannot read kubeconfig: is a directory"):
        find_access(tmp_path, environ={})


def test_server_without_scheme_is_https_only_where_tls_is_mentioned(tmp_path: Path) -> None:
    assert access(tmp_path, config({"server": "host:8080"})).server == "http://host:8080"
    secure = config({"server": "host:6443", "certificate-authority-data": "QQ=="})
    assert access(tmp_path, secure).server == "https://host:6443"
    insecure = access(tmp_path, config({"server": "host", "insecure-skip-tls-verify": True}))
    assert (insecure.server, insecure.insecure) == ("https://host", True)
    assert access(tmp_path, config({"server": "https://r/k8s/clusters/c-1/"})).server.endswith(
        "/clusters/c-1"
    )


def test_nulls_and_missing_lists_count_as_absent(tmp_path: Path) -> None:
    document = config({"proxy-url": None}, {"token": None, "exec": None}, {"namespace": None})
    assert access(tmp_path, {**document, "preferences": None, "extensions": None}).user.token == ""
    assert "the file has no contexts" in str(fault(tmp_path, {"contexts": None, "current-context": "x"}))
    assert "current-context: is not set" in str(fault(tmp_path, b""))


def test_impersonation(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scope": ["x", "y"]}}
    who = access(tmp_path, config(user=user)).user.impersonate
    assert who is not None
    assert (who.user, who.uid, who.groups, who.extra) == ("jane", "7", ("a", "b"), (("scope", ("x", "y")),))
    assert fault(tmp_path, config(user={"as-groups": ["a"]})).field == "as"


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        (
            config(user={"exec": {"command": "aws"}}),
            "exec.apiVersion",
            'context "main": user "main": exec.apiVersion: is \'\'; this client speaks',
        ),
        (config(user={"auth-provider": {"name": "oidc"}}), "auth-provider", "is not supported; use exec"),
        (config({"server": ""}), "server", 'cluster "main": server: is not set'),
        (config({"server": "ftp://x"}), "server", "no http:// or https:// address"),
        (config({"server": "https://u:p@x"}), "server", "give the address alone"),
        (config({"server": "https://x?y=z"}), "server", "give the address alone"),
        (config({"server": "https://[::1"}), "server", "is no address"),
        (config({"proxy-url": "socks5://p:1"}), "proxy-url", "is not supported"),
        (config({"certificate-authority-data": "%%"}), "certificate-authority-data", "is not base64"),
        (config({"certificate-authority": "gone.crt"}), "certificate-authority", "gone.crt: cannot read"),
        (
            config({"certificate-authority-data": "QQ==", "insecure-skip-tls-verify": True}),
            "insecure-skip-tls-verify",
            "remove one",
        ),
        (
            config(user={"client-certificate-data": "QQ=="}),
            "client-key",
            "is not set, but client-certificate is",
        ),
        (config(user={"client-key-data": "QQ=="}), "client-certificate", "is not set, but client-key is"),
        (config(user={"token": "a", "username": "b"}), "token", "keep one of them"),
        (config(context={"cluster": "zz"}), "cluster", 'context "main": cluster: there is no cluster "zz"'),
        (config(context={"user": ""}), "user", 'context "main": user: is not set'),
        (config(context={"namespace": "No_Good"}), "namespace", "RFC 1123 label"),
        ({**config(), "current-context": "zz"}, "contexts", 'there is no context "zz"; choose one of: main'),
        ({**config(), "kind": "Pod"}, "kind", "this is no kubeconfig"),
        ({**config(), "users": config()["users"] * 2}, "users", 'users[1].name: "main" is there twice'),
        (config(user={"token": 5}), "users[0].user.token", "put it in quotes"),
        ({**config(), "clusters": {"a": 1}}, "clusters", "expected `array`"),
        ([1], "", "expected `object`"),
        (b"a: \xff\xff", "", ":1:4: not valid UTF-8"),
        (b"a: [", "", "config:2:1: "),
        (b"a: b\n---\na: c\n", "kubeconfig", "holds 2 documents"),
        (b"kind: Config\nkind: Config", "", "config:2:1: "),
        (b"a: b: c", "", ""),
    ],
)
def test_errors_name_file_context_and_field(tmp_path: Path, document: Any, field: str, words: str) -> None:
    error = fault(tmp_path, document)
    assert words in str(error)
    if field:
        assert error.field.endswith(field)


def test_endless_files_are_cut_off() -> None:
    with pytest.raises(InvalidError, match="larger than 16 MiB"):
        find_access("/dev/zero", environ={})


@settings(max_examples=campaign(150, 100_000))
@given(data=st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_random_bytes_are_a_clear_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "random-kubeconfig"
    path.write_bytes(data)
    with pytest.raises(InvalidError, match="random-kubeconfig"):
        find_access(path, environ={})


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=campaign(150, 50_000))
@given(
    place=st.sampled_from(["cluster", "user", "context", "top"]),
    field=st.sampled_from(
        [
            "server",
            "certificate-authority-data",
            "token",
            "as-groups",
            "exec",
            "namespace",
            "clusters",
            "kind",
        ]
    ),
    value=JSONISH,
)
def test_wrong_types_anywhere_are_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, place: str, field: str, value: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "wrong-kubeconfig"
    parts: dict[str, dict[str, Any]] = {place: {field: value}}
    document = config(parts.get("cluster"), parts.get("user"), parts.get("context"))
    if place == "top":
        document[field] = value
    write(path, document)
    try:
        find_access(path, environ={})
    except InvalidError as error:
        assert "wrong-kubeconfig" in str(error)
