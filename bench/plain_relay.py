"""A relay as one writes it in ten lines, the rival of bench_proxy.py: plain_relay.py asyncio|uvloop LISTEN UPSTREAM."""

from __future__ import annotations

import asyncio
import sys


async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def main(listen: int, upstream: int) -> None:
    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", upstream)
        await asyncio.gather(pipe(reader, up_writer), pipe(up_reader, writer))

    server = await asyncio.start_server(accepted, "127.0.0.1", listen)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "uvloop":
        import uvloop

        uvloop.run(main(int(sys.argv[2]), int(sys.argv[3])))
    else:
        asyncio.run(main(int(sys.argv[2]), int(sys.argv[3])))
