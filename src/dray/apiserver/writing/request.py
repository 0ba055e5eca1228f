"""The values that go into a write and come out of it, and the last step, which all writes share."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from dray.api.codec import encode, loads
from dray.api.names import SUFFIX_ALPHABET
from dray.api.validation.faults import CheckSelector
from dray.apiserver.served import Document, Served, Serving, standard
from dray.apiserver.store.contract import Key, Stored, Transaction
from dray.apiserver.writing import faults

_SUFFIX_LENGTH: Final = 5


def _new_uid() -> str:
    return str(uuid.uuid4())


def _new_suffix() -> str:
    return "".join(secrets.choice(SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))


class FieldValidation(StrEnum):
    """What happens to fields that a kind does not have; only where the type knows all of them."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


@dataclass(frozen=True)
class Rules:
    """What is the same for all writes of a server."""

    serving: Serving = field(default_factory=standard)
    check_selector: CheckSelector | None = None
    """Compiles a CEL selector; None checks only that there is one."""
    new_uid: Callable[[], str] = _new_uid
    new_suffix: Callable[[], str] = _new_suffix


@dataclass(frozen=True)
class Write:
    """One request: what it is about and when it came. `name` is empty for a create."""

    rules: Rules
    served: Served
    namespace: str
    name: str
    now: datetime
    dry_run: bool = False
    """Do everything but the last step."""
    field_validation: FieldValidation = FieldValidation.IGNORE
    manager: str = ""
    """Who owns what is written; empty for the server itself."""
    is_apply: bool = False
    """The document comes from a server-side apply, with its owners."""

    @property
    def key(self) -> Key:
        """Where the object is kept."""
        return self.served.key(self.namespace, self.name)


class Outcome(StrEnum):
    """What became of the object."""

    CREATED = "Created"
    UPDATED = "Updated"
    UNCHANGED = "Unchanged"
    DELETED = "Deleted"


@dataclass(frozen=True)
class Written:
    """The answer to a write. `raw` is the object after it, for a deletion its last state."""

    outcome: Outcome
    raw: bytes
    warnings: tuple[str, ...] = ()


def existing(transaction: Transaction, write: Write) -> Stored:
    """The object a request is about."""
    stored = transaction.get(write.key)
    if stored is None:
        raise faults.not_found(write.served, write.name)
    return stored


def document_of(stored: Stored) -> Document:
    """A fresh copy of a stored document, free to be changed."""
    found: Document = loads(stored.raw)
    return found


def replace(transaction: Transaction, write: Write, old: Stored, document: Document) -> Written:
    """Store a new state, unless it is the old one: then there is no new revision and no event."""
    if document == loads(old.raw):
        return Written(Outcome.UNCHANGED, old.raw)
    if write.dry_run:
        return Written(Outcome.UPDATED, encode(document))
    return Written(Outcome.UPDATED, transaction.put(old.key, old.uid, document).raw)


def remove(transaction: Transaction, write: Write, old: Stored) -> Written:
    """Take an object out of the store."""
    if write.dry_run:
        return Written(Outcome.DELETED, old.raw)
    return Written(Outcome.DELETED, transaction.delete(old.key).raw)
