"""What files hold that does not count: kinds that nobody reads, and fields of a newer Kubernetes. Told once for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

from dray.api.codec.manifest import Manifest
from dray.api.field_errors import FieldError

Key = tuple[str, str, str]


@dataclass(slots=True)
class DumpNotes:
    """Filled while files are read."""

    kinds: Iterable[str]
    _passed: dict[Key, list[str]] = field(default_factory=dict)
    _fields: dict[Key, list[str]] = field(default_factory=dict)

    def pass_over(self, manifest: Manifest) -> None:
        """An object of a kind that is not read."""
        key = (manifest.kind, manifest.api_version, "")
        self._passed.setdefault(key, []).append(manifest.source)

    def leave_out(self, manifest: Manifest, fault: FieldError) -> None:
        """A field that a server had stored, and that is not known here."""
        key = (manifest.kind, manifest.api_version, str(fault.bad_value))
        self._fields.setdefault(key, []).append(f"{manifest.source}: {manifest}: {fault.field}")

    def lines(self) -> Iterator[str]:
        """One for each kind and field, with the first place."""
        for (kind, version, _), places in sorted(self._passed.items()):
            near = get_close_matches(kind, list(self.kinds), n=1, cutoff=0.7)
            advice = f"; did you mean {near[0]}?" if near and near[0] != kind else ""
            what = f"{kind or 'no kind'} of {version or 'no apiVersion'}"
            yield f"{_first(places)}: passed over, {what} is not read{advice}"
        for (kind, _, name), places in sorted(self._fields.items()):
            yield f"{_first(places)}: field {name} of {kind} is not known here and does not count"


def _first(places: list[str]) -> str:
    return f"{places[0]} and {len(places) - 1} more" if len(places) > 1 else places[0]
