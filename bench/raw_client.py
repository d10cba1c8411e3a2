"""A raw asyncio client, as simple as one can be that is still right: the yardstick of bench_fidelity.py.

    raw_client.py PORT STREAMS REQUESTS

No HTTP parser, no JSON: it looks for the bytes of a content event. It checks the status, and counts every event.
Prints one JSON object: tokens/s, CPU seconds, and the times of every request in ms.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import sys
import time
from collections.abc import Iterator

BODY = json.dumps(
    {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 64}
).encode()


class Stream(asyncio.Protocol):
    """One connection, kept for one request after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def ask(self, port: int) -> asyncio.Future[None]:
        self.head, self.buffer = False, bytearray()
        self.times: list[int] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(BODY)}\r\n\r\n"
        self.begun_ns = time.perf_counter_ns()
        self.transport.write(head.encode() + BODY)
        return self.over

    def data_received(self, data: bytes) -> None:
        now_ns = time.perf_counter_ns()
        buffer = self.buffer
        buffer += data
        if not self.head:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            assert buffer.startswith(b"HTTP/1.1 200 "), bytes(buffer[:80])
            del buffer[: end + 4]
            self.head = True
        while (begin := buffer.find(b"data: ")) >= 0 and (end := buffer.find(b"\n\n", begin)) >= 0:
            event = buffer[begin:end]
            del buffer[: end + 2]
            if b'"content":"' in event and b'"content":""' not in event:
                self.times.append(now_ns)
        if buffer.endswith(b"0\r\n\r\n"):
            self.over.set_result(None)


async def user(port: int, numbers: Iterator[int], done: list[tuple[int, list[int]]]) -> None:
    _, stream = await asyncio.get_running_loop().create_connection(Stream, "127.0.0.1", port)
    for _ in numbers:
        await stream.ask(port)
        done.append((stream.begun_ns, stream.times))
    stream.transport.close()


async def main(port: int, streams: int, requests: int) -> None:
    done: list[tuple[int, list[int]]] = []
    numbers = iter(range(requests))
    begun_s = time.perf_counter()
    await asyncio.gather(*(user(port, numbers, done) for _ in range(streams)))
    wall_s = time.perf_counter() - begun_s
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "tokens_per_s": sum(len(times) for _, times in done) / wall_s,
                "cpu_s": used.ru_utime + used.ru_stime,
                "ttft": [(times[0] - begun) / 1e6 for begun, times in done],
                "gap": [(b - a) / 1e6 for _, ts in done for a, b in itertools.pairwise(ts)],
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*(int(a) for a in sys.argv[1:4])))
