"""Questions about rights, which are posted and never kept: `kubectl auth can-i` and `whoami`, and a kubelet about its callers.

Paths that are no resources are judged as the server does it; where a right depends on the object, the answer is about the
request alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dray.apiserver.access.authorize import check_request
from dray.apiserver.access.identity import ANONYMOUS, Identity
from dray.apiserver.access.impersonation import AUTHENTICATED
from dray.apiserver.access.roles import READS, Asked, check_path, denied
from dray.apiserver.access.service_accounts import ISSUER
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.http.writes import ClusterView
from dray.apiserver.store.contract import Store
from dray.errors import DeniedError
from dray.runtime.http_server import RequestError

Document = dict[str, Any]
_PATH: Final = re.compile(
    r"/apis/(?P<group>authorization|authentication)\.k8s\.io/v1/(namespaces/[^/]+/)?(?P<plural>\w+)"
)
_KINDS: Final = {
    "authorization": {
        "localsubjectaccessreviews": "LocalSubjectAccessReview",
        "selfsubjectaccessreviews": "SelfSubjectAccessReview",
        "selfsubjectrulesreviews": "SelfSubjectRulesReview",
        "subjectaccessreviews": "SubjectAccessReview",
    },
    "authentication": {"selfsubjectreviews": "SelfSubjectReview", "tokenreviews": "TokenReview"},
}


def review_kind(path: str) -> str:
    """The kind of review that is posted to a path; nothing for all other paths."""
    found = _PATH.fullmatch(path)
    return _KINDS[found["group"]].get(found["plural"], "") if found else ""


async def reviewed(kind: str, document: Any, identity: Identity, store: Store, tokens: Tokens) -> bytes:
    """The review with its answer. About oneself everybody who is known may ask, about others administrators and nodes."""
    if not isinstance(document, dict):
        raise RequestError(400, f"the body must be a {kind}")
    about_others = not kind.startswith("Self")
    may_ask = identity.is_admin or bool(identity.node) if about_others else identity != ANONYMOUS
    if not may_ask:
        group = "authentication" if kind == "TokenReview" else "authorization"
        raise denied(identity, Asked("create", f"{kind.lower()}s.{group}.k8s.io"))
    return msgspec.json.encode(document | {"status": await _status(kind, document, identity, store, tokens)})


async def _status(
    kind: str, document: Document, identity: Identity, store: Store, tokens: Tokens
) -> Document:
    spec = _below(document, "spec")
    if kind == "SelfSubjectReview":
        return {"userInfo": _user(identity)}
    if kind == "SelfSubjectRulesReview":
        return _rules(identity)
    if kind == "TokenReview":
        return _token(tokens, spec)
    if kind != "SelfSubjectAccessReview":
        groups = spec.get("groups")
        identity = Identity(str(spec.get("user", "")), tuple(groups) if isinstance(groups, list) else ())
    return {"allowed": await _may(identity, spec, store)}


async def _may(identity: Identity, spec: Mapping[str, Any], store: Store) -> bool:
    about = _below(spec, "resourceAttributes")
    try:
        if about:
            asked = _asked(about)
            await store.write(lambda transaction: check_request(identity, asked, ClusterView(transaction)))
        elif path := _below(spec, "nonResourceAttributes").get("path"):
            check_path(identity, str(path))
        else:
            raise RequestError(400, "spec must have resourceAttributes or nonResourceAttributes with a path")
    except DeniedError:
        return False
    return True


def _asked(about: Mapping[str, Any]) -> Asked:
    words = {
        name: str(about.get(name) or "")
        for name in ("verb", "group", "resource", "namespace", "name", "subresource")
    }
    resource = f"{words['resource']}.{words['group']}" if words["group"] else words["resource"]
    return Asked(words["verb"], resource, words["namespace"], words["name"], words["subresource"])


def _rules(identity: Identity) -> Document:
    """What a role may do with everything; a node's rights depend on what is asked for, so its list is not whole."""
    verbs = ["*"] if identity.is_admin else list(READS) if identity.is_reader else []
    whole: Document = {"resourceRules": [], "nonResourceRules": [], "incomplete": not verbs}
    if verbs:
        whole["resourceRules"] = [{"verbs": verbs, "apiGroups": ["*"], "resources": ["*"]}]
        whole["nonResourceRules"] = [
            {"verbs": ["*"] if identity.is_admin else ["get"], "nonResourceURLs": ["*"]}
        ]
    return whole


def _token(tokens: Tokens, spec: Document) -> Document:
    """Whoever names no audience means this server; then the answer names none either."""
    token, wanted = str(spec.get("token") or ""), spec.get("audiences")
    audiences = tuple(str(one) for one in wanted) if isinstance(wanted, list) else ()
    if not token:
        return {"user": {}}
    try:
        found, meant = tokens.known(token, audiences or (ISSUER,))
    except DeniedError as error:
        return {"user": {}, "error": str(error)}
    told: Document = {"authenticated": True, "user": _user(found)}
    return told | {"audiences": list(meant)} if audiences else told


def _user(identity: Identity) -> Document:
    return {"username": identity.name, "groups": list(dict.fromkeys((*identity.groups, AUTHENTICATED)))}


def _below(parent: Mapping[str, Any], key: str) -> Document:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}
