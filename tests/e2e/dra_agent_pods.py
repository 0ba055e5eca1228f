"""Pods with a claim that come and go on the real node, a few at once, while a test does things to the driver."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.e2e.dra_agent import DraNode, container, metadata_path, pod

_PATH = "/api/v1/namespaces/default/pods"
_POLL_S = 0.1
STUCK_S = 120.0
"""No pod may take longer, whatever happens: a kubelet tries again every ten seconds or so."""
SEES = f"test $(ls /dev/dray-sim | wc -l) = 1 && test -s {metadata_path('device', 'gpu')}"


class PodStream:
    """Each pod looks for its one device and for the file about it, and ends; or it stays and is deleted.

    They are named after the template. With `patience`, seconds, a pod that does not run by then is deleted, and any pod
    touched now and then: a kubelet that was refused waits long before it asks again. `wrong` are those that failed or
    took too long; `done` how many are gone again.
    """

    def __init__(
        self, node: DraNode, template: str, seed: int, at_once: int = 4, patience: float = math.inf
    ) -> None:
        self.node, self.template, self.at_once, self.patience = node, template, at_once, patience
        self.started, self.done = 0, 0
        self.wrong: list[str] = []
        self._dice = random.Random(seed)
        self._since: dict[str, float] = {}
        self._stays: set[str] = set()
        self._is_closed = threading.Event()

    @contextmanager
    def flowing(self, most: int | None = None) -> Iterator[PodStream]:
        """With `most` no more are made after that many. Left: all are gone, or it is told which are not."""
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(self._run, most)
            try:
                yield self
            finally:
                self._is_closed.set()
                future.result(STUCK_S + 30.0)

    def wait_done(self, count: int, timeout: float = STUCK_S) -> None:
        """Until so many have come and gone."""
        end = time.monotonic() + timeout
        while self.done < count and not self.wrong:
            assert time.monotonic() < end, f"{self.done} of {count} pods in {timeout:.0f} s"
            time.sleep(_POLL_S)

    def _run(self, most: int | None) -> None:
        while self._since or not self._is_closed.is_set():
            if not self._is_closed.is_set() and len(self._since) < self.at_once and self.started != most:
                self._start()
            self._look()
            time.sleep(_POLL_S)

    def _start(self) -> None:
        name = f"{self.template}-{self.started}"
        stays = self._dice.random() < 0.5
        rest = "trap 'exit 0' TERM; sleep 100000 & wait" if stays else f"sleep {self._dice.random():.1f}"
        manifest = pod(
            name, container(f"{SEES} && {{ {rest}; }}", "device"), device=f"template:{self.template}"
        )
        manifest["metadata"]["labels"] = {"flow": self.template}
        self.node.cluster.request("POST", _PATH, manifest)
        self.started += 1
        self._since[name] = time.monotonic()
        if stays:
            self._stays.add(name)

    def _look(self) -> None:
        items = self.node.cluster.request("GET", f"{_PATH}?labelSelector=flow%3D{self.template}")["items"]
        found = {one["metadata"]["name"]: one for one in items}
        now = time.monotonic()
        for name, since in list(self._since.items()):
            if name not in found:
                self.done += 1
                del self._since[name]
            elif now - since > STUCK_S:
                self.wrong.append(f"{name} is stuck: {found[name]['status']}")
                del self._since[name]
            else:
                self._end(name, found[name])

    def _end(self, name: str, found: dict[str, Any]) -> None:
        phase, is_deleted = found["status"]["phase"], "deletionTimestamp" in found["metadata"]
        if phase == "Failed" and not is_deleted:
            self.wrong.append(f"{name} failed: {found['status']}")
        if not is_deleted and (phase in ("Failed", "Succeeded") or self._is_enough(name, phase)):
            self.node.delete(f"{_PATH}/{name}")
        elif (is_deleted or phase == "Pending") and self._is_waiting_long(name):
            self.node.touch(name, f"{time.monotonic():.3f}")

    def _is_enough(self, name: str, phase: str) -> bool:
        if phase == "Running":
            return name in self._stays and self._dice.random() < 0.3
        return self._is_waiting_long(name) and self._dice.random() < 0.3

    def _is_waiting_long(self, name: str) -> bool:
        return time.monotonic() - self._since[name] > self.patience and self._dice.random() < 0.1
