"""What programs beside the server read from it about trust, in the ConfigMaps where Kubernetes has it."""

from __future__ import annotations

from datetime import datetime

from dray.api.kinds import CONFIG_MAPS
from dray.apiserver.store.contract import Key, Transaction
from dray.apiserver.writing.create import create
from dray.apiserver.writing.request import Rules, Write, document_of
from dray.apiserver.writing.update import update

NAMESPACE = "kube-system"
AUTHENTICATION = "extension-apiserver-authentication"
LEGACY_TOKENS = "kube-apiserver-legacy-service-account-token-tracking"
_FRONT_PROXY = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}


def publish_trust(transaction: Transaction, rules: Rules, authority: str, now: datetime) -> None:
    """Called at each start, after the namespaces were made; a new authority replaces the old one.

    kube-scheduler and the controller manager read the first to know their callers. The server signs no certificates of
    clients but its own, for kubelets, and has no front proxy, so who trusts this authority for them trusts nobody more. The second says since when
    tokens in Secrets are counted: there are none, but the controller that removes old ones asks.
    """
    trust = {"client-ca-file": authority, "requestheader-client-ca-file": authority, **_FRONT_PROXY}
    _keep(transaction, rules, AUTHENTICATION, trust, now)
    key = _key(LEGACY_TOKENS)
    if transaction.get(key) is None:
        _keep(transaction, rules, LEGACY_TOKENS, {"since": f"{now:%Y-%m-%d}"}, now)


def _keep(transaction: Transaction, rules: Rules, name: str, data: dict[str, str], now: datetime) -> None:
    served = rules.serving.of_key(_key(name))
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    stored = transaction.get(_key(name))
    if stored is None:
        create(transaction, Write(rules, served, NAMESPACE, "", now), document)
    elif document_of(stored).get("data") != data:
        wanted = document_of(stored) | {"data": data}
        update(transaction, Write(rules, served, NAMESPACE, name, now), lambda _: wanted)


def _key(name: str) -> Key:
    return Key(str(CONFIG_MAPS), NAMESPACE, name)
