"""`dray` on a real terminal, with somebody who presses keys."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import struct
import sys
import termios

from tests.interrupts import interruptible


class Terminal:
    """A program on a pseudo terminal of 100 by 30."""

    def __init__(self, *words: str) -> None:
        self.seen = ""
        with interruptible():
            self.pid, self._fd = pty.fork()
            if self.pid == 0:
                os.execv(sys.executable, [sys.executable, "-m", "dray", *words])
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        os.set_blocking(self._fd, False)

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    async def wait(self, text: str) -> None:
        """Until it is on the screen that comes after what was waited for before."""
        async with asyncio.timeout(60):
            while text not in self.seen:
                self._read()
                await asyncio.sleep(0.02)
        self.seen = self.seen.partition(text)[2]

    async def end(self) -> int:
        async with asyncio.timeout(60):
            while True:
                self._read()
                pid, code = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._read()
                    os.close(self._fd)
                    return os.waitstatus_to_exitcode(code)
                await asyncio.sleep(0.02)

    def _read(self) -> None:
        try:
            self.seen += os.read(self._fd, 65536).decode(errors="replace")
        except (BlockingIOError, OSError):
            return
