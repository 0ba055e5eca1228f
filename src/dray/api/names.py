"""The rules for names, keys and identifiers. Each returns what is wrong, in the API server's words; empty is fine.

Lengths are in bytes, as in Go. Where the API server reports a length as a fault of its own ("Too long"), the rule
says so with `too_long(limit)`, so that a validator can tell it apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253
DRIVER_NAME_MAX: Final = 63
POOL_NAME_MAX: Final = 253
ATTRIBUTE_ID_MAX: Final = 32
ANNOTATIONS_MAX: Final = 256 * 1024
GENERATED_PREFIX_MAX: Final = 58

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"

# The same languages as above, written so that no input makes the match slow or large: a text may be as long as a tenant likes,
# and Python keeps 200 bytes for each turn of a repeated group, but nothing for a repeated set of characters.
_is_label: Final = re.compile(r"(?!-)[-a-z0-9]+(?<!-)").fullmatch
_is_subdomain: Final = re.compile(r"(?![-.])(?!.*?(?:\.[-.]|-\.))[-.a-z0-9]+(?<![-.])", re.DOTALL).fullmatch
_is_label_1035: Final = re.compile(r"(?![-0-9])[-a-z0-9]+(?<!-)").fullmatch
_is_key: Final = re.compile(r"(?![-_.])[-_.A-Za-z0-9]+(?<![-_.])").fullmatch
_is_c_identifier: Final = re.compile(_C_IDENTIFIER).fullmatch
_is_config_key: Final = re.compile(_CONFIG_KEY).fullmatch
_is_uuid: Final = re.compile(
    r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
).fullmatch
_is_uid_for_files: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,126}[A-Za-z0-9])?").fullmatch

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_KEY_RULE: Final = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_C_IDENTIFIER_RULE: Final = (
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'"
)
_UID_RULE: Final = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters"
_NO_DOMAIN: Final = "a fully qualified name must be a domain and a name separated by a slash"


def size(text: str) -> int:
    """Length in UTF-8 bytes: what every limit of the API server counts."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def too_long(limit: int) -> str:
    """What the API server says about a value over its length limit."""
    return f"may not be more than {limit} bytes"


def _mismatch(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


_KEY_MISMATCH: Final = _mismatch(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")


def dns_label(value: str) -> list[str]:
    """A DNS-1123 label: namespaces, containers, devices, requests, counters."""
    faults = [f"must be no more than {LABEL_MAX} characters"] if size(value) > LABEL_MAX else []
    if not _is_label(value):
        if _is_subdomain(value):
            faults.append("must not contain dots")
        else:
            faults.append(_mismatch(_LABEL_RULE, _LABEL, "my-name", "123-abc"))
    return faults


def dns_subdomain(value: str) -> list[str]:
    """A DNS-1123 subdomain: most object names."""
    faults = [f"must be no more than {SUBDOMAIN_MAX} characters"] if size(value) > SUBDOMAIN_MAX else []
    if not _is_subdomain(value):
        faults.append(_mismatch(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return faults


def dns_1035_label(value: str) -> list[str]:
    """A DNS-1035 label: service names."""
    faults = [f"must be no more than {LABEL_MAX} characters"] if size(value) > LABEL_MAX else []
    if not _is_label_1035(value):
        faults.append(_mismatch(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123"))
    return faults


def label_key(value: str) -> list[str]:
    """A label key, taint key or condition type: a name with an optional DNS prefix and slash."""
    prefix, slash, name = value.partition("/")
    if "/" in name:
        shown = f"a valid label key {_KEY_MISMATCH}"
        return [f"{shown} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    faults = _key_prefix(prefix) if slash else []
    if not slash:
        name = prefix
    if not name:
        faults.append("name part must be non-empty")
    elif size(name) > LABEL_MAX:
        faults.append(f"name part must be no more than {LABEL_MAX} bytes")
    if not _is_key(name):
        faults.append(f"name part {_KEY_MISMATCH}")
    return faults


def _key_prefix(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    faults = (
        [f"prefix part must be no more than {SUBDOMAIN_MAX} bytes"] if size(prefix) > SUBDOMAIN_MAX else []
    )
    if not _is_subdomain(prefix):
        faults.append("prefix part " + _mismatch(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))
    return faults


def label_value(value: str) -> list[str]:
    """A label or taint value; empty is allowed."""
    faults = [f"must be no more than {LABEL_MAX} bytes"] if size(value) > LABEL_MAX else []
    if value and not _is_key(value):
        rule = f"a valid label must be an empty string or {_KEY_RULE.removeprefix('must ')}"
        faults.append(_mismatch(rule, _VALUE, "MyValue", "my_value", "12345"))
    return faults


def annotation_key(value: str) -> list[str]:
    """An annotation key: a label key in which upper case is allowed everywhere."""
    return label_key(value.lower())


def annotations_size(annotations: Mapping[str, str]) -> list[str]:
    """All keys and values of one object's annotations together."""
    total = sum(size(key) + size(value) for key, value in annotations.items())
    return [too_long(ANNOTATIONS_MAX)] if total > ANNOTATIONS_MAX else []


def path_segment(value: str) -> list[str]:
    """A name that stands in a URL or file path by itself."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{banned}'" for banned in "/%" if banned in value]


def config_map_key(value: str) -> list[str]:
    """A key of a ConfigMap; it becomes a file name."""
    faults = [f"must be no more than {SUBDOMAIN_MAX} characters"] if size(value) > SUBDOMAIN_MAX else []
    if not _is_config_key(value):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        faults.append(_mismatch(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    if value in (".", ".."):
        faults.append(f"must not be '{value}'")
    elif value.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def c_identifier(value: str) -> list[str]:
    """An identifier in the sense of C."""
    if _is_c_identifier(value):
        return []
    return [_mismatch(_C_IDENTIFIER_RULE, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def driver_name(value: str) -> list[str]:
    """A DRA driver name. Upper case passes, as in the API server. Empty is a fault: report it as required."""
    if not value:
        return ["must be non-empty"]
    faults = [too_long(DRIVER_NAME_MAX)] if size(value) > DRIVER_NAME_MAX else []
    return faults + dns_subdomain(value.lower())


def pool_name(value: str) -> list[str]:
    """A DRA pool name: DNS subdomains joined by slashes. Empty is a fault: report it as required."""
    if not value:
        return ["must be non-empty"]
    faults = [too_long(POOL_NAME_MAX)] if size(value) > POOL_NAME_MAX else []
    for part in value.split("/"):
        faults += dns_subdomain(part)
    return faults


def attribute_id(value: str) -> list[str]:
    """The part of a qualified name behind the slash."""
    faults = [too_long(ATTRIBUTE_ID_MAX)] if size(value) > ATTRIBUTE_ID_MAX else []
    return faults + c_identifier(value)


def qualified_name(value: str) -> list[str]:
    """An attribute or capacity name: `id` or `domain/id`. Two slashes and more pass, as in the API server."""
    parts = value.split("/")
    if len(parts) == 1:
        return attribute_id(value)
    if len(parts) > 2:
        return []
    domain, name = parts
    faults = driver_name(domain) if domain else ["the domain must not be empty"]
    return faults + (attribute_id(name) if name else ["the name must not be empty"])


def fully_qualified_name(value: str) -> list[str]:
    """A qualified name whose domain is required: matchAttribute, distinctAttribute."""
    return qualified_name(value) + ([] if "/" in value else [_NO_DOMAIN])


def share_id(value: str) -> list[str]:
    """The id of a share of a device: a UUID in lower case."""
    if _is_uuid(value):
        return [] if value == value.lower() else [_UID_RULE]
    length = size(value)
    bare = {32: value, 38: value[1:-1], 45: value[9:]}.get(length)
    if bare is not None and _is_wrapped_uuid(value, bare):
        return [_UID_RULE]
    return [f"error validating uid: {_uuid_fault(value, length)}"]


def _is_wrapped_uuid(value: str, bare: str) -> bool:
    """The other spellings Go's parser takes for a UUID: no dashes, in braces, or as a URN."""
    if bare is value:
        return re.fullmatch("[0-9A-Fa-f]{32}", value) is not None
    wrapped = value.lower() in (f"{{{bare.lower()}}}", f"urn:uuid:{bare.lower()}")
    return wrapped and _is_uuid(bare) is not None


def _uuid_fault(value: str, length: int) -> str:
    if length == 45 and value[:9].lower() != "urn:uuid:":
        return f'invalid urn prefix: "{value[:9]}"'
    if length == 38 and (value[0], value[-1]) != ("{", "}"):
        return "invalid bracketed UUID format"
    return "invalid UUID format" if length in (32, 36, 38, 45) else f"invalid UUID length: {length}"


def is_uid_for_files(value: str) -> bool:
    """Whether a UID can be part of the names of files and CDI devices. Kubernetes has no rule for UIDs; its own are UUIDs."""
    return _is_uid_for_files(value) is not None


def is_native_resource(name: str) -> bool:
    """Whether a resource is Kubernetes' own: `cpu`, `memory`, `hugepages-2Mi`, anything under kubernetes.io/."""
    return "/" not in name or "kubernetes.io/" in name


def extended_resource_name(value: str) -> list[str]:
    """The name of a device resource: what a device plugin may register and a DeviceClass may map."""
    if "/" not in value:
        faults = ["a name must be a domain-prefixed path, such as 'example.com/my-prop'"]
    elif is_native_resource(value):
        faults = ['must not have "kubernetes.io/" domain']
    else:
        faults = []
    if value.startswith("requests."):
        faults.append('must not have "requests." prefix')
    return faults + label_key(f"requests.{value}")


def is_extended_resource_name(name: str) -> bool:
    """The kubelet's check when a device plugin registers."""
    return not extended_resource_name(name)


def as_prefix(rule: Callable[[str], list[str]], value: str) -> list[str]:
    """Apply a rule to a `generateName`, which may end in a dash because more follows."""
    if len(value) > 1 and value.endswith("-"):
        value = value[:-2] + "a"
    return rule(value)


def generate(prefix: str, random_suffix: str) -> str:
    """The name made from a `generateName` and five random characters, 63 at most."""
    cut = prefix.encode()[:GENERATED_PREFIX_MAX].decode(errors="ignore")
    return cut + random_suffix


SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
