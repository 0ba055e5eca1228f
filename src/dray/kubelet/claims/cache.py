"""All claims of this node, in memory and on the disk. A change is on the disk before anybody can see it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from dray.kubelet.claims.claim_info import ClaimInfo
from dray.kubelet.claims.state_file import StateFile

Key = tuple[str, str]
ANY_DRIVER = "<any>"


class ClaimCache:
    """Owned by one event loop; every method returns without waiting for anything but the disk.

    Two marks live in memory alone, because a restart ends what they stand for: a claim is being prepared (by some
    pods at once), or being unprepared. Who meets the other mark comes again later. `reached` is called between any
    two steps of a prepare or unprepare with a word for the place: tests end the process there.
    """

    def __init__(self, file: StateFile, reached: Callable[[str], None] = lambda _: None) -> None:
        self.reached = reached
        self._file = file
        self._claims: dict[Key, ClaimInfo] = {}
        self._preparing: dict[Key, int] = {}
        self._unpreparing: set[Key] = set()

    def load(self) -> None:
        """Once, at start. The file is there afterwards."""
        self._claims = {claim.key: claim for claim in self._file.open()}
        self._file.save(self.claims())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """The claim of that name, if it is known here."""
        return self._claims.get((namespace, name))

    def claims(self) -> tuple[ClaimInfo, ...]:
        """All, in a fixed order."""
        return tuple(self._claims[key] for key in sorted(self._claims))

    def of_pod(self, uid: str) -> tuple[ClaimInfo, ...]:
        """Those the pod uses."""
        return tuple(claim for claim in self.claims() if uid in claim.pods)

    def has_pod(self, uid: str) -> bool:
        """Whether the pod uses any."""
        return any(uid in claim.pods for claim in self._claims.values())

    def commit(self, changed: Iterable[ClaimInfo] = (), removed: Iterable[Key] = ()) -> None:
        """All of it or nothing: where the disk refuses, memory stays as it was. No change needs no disk."""
        new, gone = {claim.key: claim for claim in changed}, set(removed)
        if not new and not gone:
            return
        after = {key: claim for key, claim in {**self._claims, **new}.items() if key not in gone}
        self._file.save(tuple(after.values()))
        self._claims = after

    def in_use(self) -> dict[str, int]:
        """Prepared claims by driver, and all of them together; 0 after a restart, as a kubelet counts."""
        prepared = [claim for claim in self._claims.values() if claim.is_prepared]
        names = sorted({name for claim in prepared for name in claim.drivers})
        counts = {name: sum(name in claim.drivers for claim in prepared) for name in names}
        return {ANY_DRIVER: len(prepared), **counts}

    def is_preparing(self, key: Key) -> bool:
        """Whether a driver may be working on it right now."""
        return key in self._preparing

    def is_unpreparing(self, key: Key) -> bool:
        """Whether a driver may be giving it back right now."""
        return key in self._unpreparing

    @contextmanager
    def preparing(self, keys: Iterable[Key]) -> Iterator[None]:
        """Mark them while the calls are under way."""
        marked = tuple(keys)
        for key in marked:
            self._preparing[key] = self._preparing.get(key, 0) + 1
        try:
            yield
        finally:
            for key in marked:
                self._preparing[key] -= 1
                if not self._preparing[key]:
                    del self._preparing[key]

    @contextmanager
    def unpreparing(self, keys: Iterable[Key]) -> Iterator[None]:
        """Mark them while the calls are under way."""
        marked = set(keys)
        self._unpreparing |= marked
        try:
            yield
        finally:
            self._unpreparing -= marked
