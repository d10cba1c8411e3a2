"""A network namespace with a process in it, echo servers, clients, and a look at all that a fault may change."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from chaosflow.core.fault import FaultAtom, Undo
from chaosflow.core.host import Host, ProcessRef, TargetHandle
from chaosflow.linux.netlink import call_inside
from chaosflow.linux.netns import new_network_namespace

needs_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a network namespace"),
]
PORT, OTHER_PORT = 7000, 7001


class Space:
    """A namespace of a test's own; ``fd`` holds it, ``process`` lives in it."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self.fd, self.process = fd, process

    def socket(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        return call_inside(self.fd, lambda: socket.socket(socket.AF_INET, kind))

    def connect(self, port: int = PORT, timeout_s: float = 10.0) -> socket.socket:
        sock = self.socket()
        try:
            sock.settimeout(timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect(("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return sock

    def run(self, line: str) -> str:
        """A shell line inside; its output."""
        command = ["nsenter", f"--net=/proc/self/fd/{self.fd}", "sh", "-c", line]
        done = subprocess.run(command, pass_fds=[self.fd], capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def look(self) -> str:
        """Qdiscs, filters, links and rules, without counters, as text."""
        names = self.run("ls /sys/class/net 2>/dev/null; ip -o link | cut -d: -f2").split()
        carrier = "sed 's/NO-CARRIER,//; s/LOWER_UP//; s/ state [A-Z]*//'"  # comes and goes by itself
        lines = ["tc qdisc show", f"ip -o link | {carrier}"]
        for name in sorted({n.partition("@")[0] for n in names}):
            lines += [f"tc filter show dev {name} {hook} 2>/dev/null" for hook in ("ingress", "egress")]
        if shutil.which("nft"):
            lines.append("nft list ruleset 2>/dev/null")
        return self.run("; ".join(lines))

    def host(self, port: int = PORT, *, included: bool = True) -> Host:
        ref = ProcessRef.of(self.process.pid)
        assert ref
        target = TargetHandle(
            included=included, url=f"http://127.0.0.1:{port}/v1", processes=(ref,), selector="pid"
        )
        return Host(run_id="test", target=target)


@contextlib.contextmanager
def space() -> Iterator[Space]:
    fd = new_network_namespace()
    assert fd is not None
    try:
        command = ["nsenter", f"--net=/proc/self/fd/{fd}", "sleep", "1000"]
        process = subprocess.Popen(command, pass_fds=[fd])
        try:
            inode, give_up = os.fstat(fd).st_ino, time.monotonic() + 10
            while os.stat(f"/proc/{process.pid}/ns/net").st_ino != inode:
                assert time.monotonic() < give_up, "nsenter never entered"
                time.sleep(0.002)
            yield Space(fd, process)
        finally:
            process.kill()
            process.wait(10)
    finally:
        os.close(fd)


@contextlib.contextmanager
def echo(where: Space, *ports: int) -> Iterator[None]:
    """TCP echo servers in one thread."""
    listeners = []
    for port in ports:
        listener = where.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(256)
        listener.setblocking(False)
        listeners.append(listener)
    stop_read, stop_write = os.pipe()
    thread = threading.Thread(target=_serve, args=(listeners, stop_read), name="echo")
    thread.start()
    try:
        yield
    finally:
        os.write(stop_write, b"x")
        thread.join(10)
        os.close(stop_read)
        os.close(stop_write)
        for listener in listeners:
            listener.close()


def _serve(listeners: list[socket.socket], stop: int) -> None:
    poll = select.epoll()
    poll.register(stop, select.EPOLLIN)
    known = {listener.fileno(): listener for listener in listeners}
    ours = set(known)
    for fd in known:
        poll.register(fd, select.EPOLLIN)
    try:
        while True:
            for fd, _ in poll.poll():
                if fd == stop:
                    return
                if fd in ours:
                    with contextlib.suppress(OSError):
                        made, _ = known[fd].accept()
                        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        made.settimeout(5)
                        known[made.fileno()] = made
                        poll.register(made, select.EPOLLIN)
                    continue
                try:
                    data = known[fd].recv(65536)
                    if data:
                        known[fd].sendall(data)
                        continue
                except OSError:
                    pass
                poll.unregister(fd)
                known.pop(fd).close()
    finally:
        poll.close()
        for fd, sock in known.items():
            if fd not in ours:
                sock.close()


def round_trips_ms(where: Space, port: int = PORT, count: int = 20, timeout_s: float = 10.0) -> list[float]:
    with where.connect(port, timeout_s) as sock:
        return [round_trip_ms(sock) for _ in range(count)]


def round_trip_ms(sock: socket.socket) -> float:
    begun = time.perf_counter()
    sock.sendall(b"x")
    if not sock.recv(10):
        raise ConnectionResetError("closed")
    return (time.perf_counter() - begun) * 1e3


def udp_lost(where: Space, count: int, port: int = PORT) -> list[bool]:
    """For each of ``count`` datagrams whether it was lost."""
    with where.socket(socket.SOCK_DGRAM) as sink, where.socket(socket.SOCK_DGRAM) as source:
        sink.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE
        sink.bind(("127.0.0.1", port))
        sink.setblocking(False)
        source.connect(("127.0.0.1", port))
        got: set[int] = set()

        def drain() -> None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    got.add(int.from_bytes(sink.recv(64), "big"))

        for number in range(count):
            source.send(number.to_bytes(4, "big"))
            if number % 50 == 49:
                drain()
        before = -1
        while len(got) > before:
            before = len(got)
            time.sleep(0.15)
            drain()
    return [number not in got for number in range(count)]


def planned(atom: FaultAtom, host: Host, name: str = "some-name") -> Undo:
    return asyncio.run(atom.plan(host, name))


@contextlib.contextmanager
def in_effect(atom: FaultAtom, host: Host, name: str = "some-name") -> Iterator[Undo]:
    undo = planned(atom, host, name)
    asyncio.run(atom.inject(undo))
    try:
        effect = asyncio.run(atom.is_active(undo))
        assert effect, effect.evidence
        yield undo
    finally:
        asyncio.run(atom.revert(undo))


def effect_of(atom: FaultAtom, undo: Undo, **change: Any) -> Any:
    """Look again as if it had been injected long ago."""
    old = undo.model_copy(deep=True)
    old.state["began_ns"] -= int(60e9)
    return asyncio.run(atom.is_active(old))
