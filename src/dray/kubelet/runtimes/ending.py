"""End a container: ask, wait, then by force. The keeper does it where it lives, because its number cannot be reused there."""

from __future__ import annotations

import signal
from collections.abc import Callable

from dray.errors import UnavailableError
from dray.kubelet.runtimes.engine import Engine
from dray.kubelet.runtimes.liveness import send, wait_ended
from dray.kubelet.runtimes.records import Facts

FORCE_SECONDS = 30.0
"""How long the kernel may take to end a process that was killed."""


async def end(look: Callable[[], Facts | None], grace: float, engine: Engine) -> None:
    """Returns when nothing of it runs; UnavailableError when even force does not help within FORCE_SECONDS.

    `look` reads the facts anew: a keeper may be killed while we wait for it.
    """
    facts = look()
    if grace > 0 and facts is not None and facts.awaited is not None and facts.running is not None:
        send(facts.running, signal.SIGTERM)
        await wait_ended(facts.awaited, grace)
        facts = look()
    if facts is not None and facts.is_kept and facts.keeper is not None:
        send(facts.keeper, signal.SIGUSR1)
        if not await wait_ended(facts.keeper, FORCE_SECONDS):
            raise _stuck(facts)
        facts = look()
    if facts is None or facts.exit is not None or facts.keeper is None:
        return
    # The keeper was killed: nobody else ends what it kept.
    await engine.kill(facts.record.id, facts.running)
    if facts.running is not None and not await wait_ended(facts.running, FORCE_SECONDS):
        raise _stuck(facts)


def _stuck(facts: Facts) -> UnavailableError:
    return UnavailableError(
        f"container {facts.record.name} of pod {facts.record.pod.name} does not end:"
        f" a process of it hangs in the kernel (see its state in /proc)"
    )
