"""`service_address.py HOST:PORT HOST:PORT`: what connects to the first address reaches the second.

Stands for kube-proxy and its one rule that a pod cannot do without: the API server's service address.
"""

from __future__ import annotations

import asyncio
import socket
import sys


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def main(listen: str, target: str) -> None:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server, to_server = await asyncio.open_connection(*address(target))
        except ConnectionError:
            writer.close()
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(copy(reader, to_server))
            group.create_task(copy(server, writer))

    listener = socket.create_server(address(listen), backlog=128)
    async with await asyncio.start_server(carry, sock=listener) as running:
        await running.serve_forever()


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
