"""A network namespace with a process in it, echo servers, clients, and a look at all that a fault may change."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from told import tell_rung

from chaosflow.core.fault import Effect, FaultAtom, Undo
from chaosflow.core.host import Host, ProcessRef, TargetHandle
from chaosflow.faults._net.abilities import abilities
from chaosflow.linux.netns import call_inside, new_network_namespace

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
        return self._run(["sh", "-c", line])

    def _run(self, command: list[str], lines: str = "") -> str:
        """A program inside, fed these lines. A child lives where the thread is that forks it: no nsenter."""
        done = call_inside(
            self.fd,
            lambda: subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60),
        )
        return done.stdout + done.stderr

    def look(self) -> str:
        """Qdiscs, filters, links and rules, without counters, as text. Few processes: a guest is slow at them."""
        links = call_inside(self.fd, _links)
        asked = ["qdisc show"]
        asked += [f"filter show dev {name} {hook}" for name in links for hook in ("ingress", "egress")]
        seen = f"{links}\n" + self._run(["tc", "-force", "-batch", "-"], "\n".join(asked) + "\n")
        rules = shutil.which("nft") and (abilities().nft_netdev or abilities().nft_reject)
        return seen + (self._run(["nft", "list", "ruleset"]) if rules else "")

    def host(self, port: int = PORT, *, included: bool = True) -> Host:
        ref = ProcessRef.of(self.process.pid)
        assert ref
        target = TargetHandle(
            included=included, url=f"http://127.0.0.1:{port}/v1", processes=(ref,), selector="pid"
        )
        return Host(run_id="test", target=target)


def _links() -> dict[str, int]:
    """Names and flags of the links of this namespace; a carrier comes and goes by itself."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in sorted(socket.if_nameindex()):
            answer = fcntl.ioctl(sock, 0x8913, struct.pack("16sH14x", name.encode(), 0))  # SIOCGIFFLAGS
            found[name] = struct.unpack("16sH14x", answer)[1] & ~0x40  # IFF_RUNNING
    return found


@contextlib.contextmanager
def space() -> Iterator[Space]:
    fd = new_network_namespace()
    assert fd is not None
    try:
        process = call_inside(fd, lambda: subprocess.Popen(["sleep", "1000"]))
        try:
            assert os.stat(f"/proc/{process.pid}/ns/net").st_ino == os.fstat(fd).st_ino
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
    undo = asyncio.run(atom.plan(host, name))
    tell_rung(undo)
    return undo


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


def effect_of(atom: FaultAtom, undo: Undo) -> Effect:
    """Look again as just before the revert: in place is not enough."""
    old = undo.model_copy(deep=True)
    if "began_ns" in old.state:
        old.state["began_ns"] -= int(60e9)
    effect = asyncio.run(atom.is_active(old))
    return Effect(effect.active and effect.met, effect.evidence)
