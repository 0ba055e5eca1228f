"""Names the server makes up: a `generateName` and five random characters that spell no word."""

from __future__ import annotations

from typing import Final

from dray.api.names import generate
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.request import Write

ATTEMPTS: Final = 8
"""How many names are tried; with a million objects of one prefix, one create in a thousand fails."""


def give_name(transaction: Transaction, write: Write, metadata: Document) -> None:
    """Fill in `metadata.name` where there is only a prefix, with a name that is free."""
    prefix = metadata.get("generateName")
    if metadata.get("name") or not prefix:
        return
    for _ in range(ATTEMPTS):
        metadata["name"] = generate(prefix, write.rules.new_suffix())
        if transaction.get(write.served.key(write.namespace, metadata["name"])) is None:
            return
    raise faults.already_there(write.served, metadata["name"], generated=True)


def shown_name(metadata: Document) -> str:
    """The name in a refusal that comes before a name was given."""
    name: str = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return name
