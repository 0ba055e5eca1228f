"""Who owns which field (`metadata.managedFields`), kept by every write of a client; the server's own writes leave no trace.

It comes after defaults and before what the server itself adds, so that a client owns what it sent and nothing else. A
binding, an eviction and a deletion are not counted, as upstream.
"""

from __future__ import annotations

from dray.apiserver.patching.apply.apply import updated, with_kept_times
from dray.apiserver.served import Document
from dray.apiserver.writing.request import Write


def managed(write: Write, old: Document | None, new: Document, subresource: str = "") -> Document:
    """The new document with its owners; an apply brought them along already. `old` is None for a create."""
    if not write.manager or write.is_apply:
        return new
    served = write.served
    versions = [served.api_version(version) for version in served.versions]
    return updated(served.resource, old, new, write.manager, subresource, write.now, versions)


def settled(old: Document, new: Document) -> Document:
    """The last step: where only the times of owners differ in the end, nothing has changed."""
    return with_kept_times(old, new)
