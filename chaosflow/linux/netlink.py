"""A netlink socket inside one network namespace: requests with acknowledgements, and dumps (netlink(7)).

Written out by hand since pyroute2 cannot say half of what netem knows (distributions, loss models, slots,
64-bit times), forks a helper for a foreign namespace, and takes longer to encode than a fault may take.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from chaosflow.linux.netns import call_inside

ROUTE, SOCK_DIAG, NETFILTER = 0, 4, 12
"""Netlink families (<linux/netlink.h>)."""
REQUEST, ACK, ECHO = 0x1, 0x4, 0x8
REPLACE, EXCL, CREATE, APPEND = 0x100, 0x200, 0x400, 0x800
DUMP = 0x300
NESTED = 0x8000

_HEADER = struct.Struct("=IHHII")
_SOL_NETLINK, _CAP_ACK, _EXT_ACK = 270, 10, 11
_ERROR, _DONE = 2, 3
_ACK_TLVS = 0x200
_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 1 << 22
_MANY = 64
"""So many refusals fit into a socket as it comes."""
_SEND_BYTES = 1 << 16
_TIMEOUT_S = 10


class NetlinkError(OSError):
    """The kernel refused; ``strerror`` holds its own words where it gave any."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request: its type, its flags beside REQUEST, and its body."""

    type: int
    flags: int
    body: bytes
    tolerate: tuple[int, ...] = ()
    """Error numbers that are as good as success."""


def attr(kind: int, payload: bytes) -> bytes:
    """One attribute, padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(payload), kind) + payload + b"\0" * (-len(payload) % 4)


def nest(kind: int, *inner: bytes) -> bytes:
    """An attribute made of attributes."""
    return attr(kind | NESTED, b"".join(inner))


def text(kind: int, value: str) -> bytes:
    return attr(kind, value.encode() + b"\0")


def u32(kind: int, value: int) -> bytes:
    return attr(kind, struct.pack("=I", value))


def attrs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes in ``data``, without the flags in their types."""
    at = 0
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield kind & 0x3FFF, data[at + 4 : at + length]
        at += (length + 3) & ~3


def attr_map(data: bytes) -> dict[int, bytes]:
    return dict(attrs(data))


class Netlink:
    """One socket; blocking, for use from one thread at a time. Close it, or use ``with``."""

    def __init__(self, family: int, netns_fd: int | None = None) -> None:
        self._socket = call_inside(netns_fd, lambda: _open(family))
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def close(self) -> None:
        self._socket.close()

    def request(self, *messages: Message) -> list[list[bytes]]:
        """Send them together, wait until all are carried out; for each, the bodies that answered it.

        Raises the first NetlinkError that its message does not tolerate; those behind it have been carried
        out all the same. Not for dumps.
        """
        if len(messages) > _MANY:
            self._make_room()
        refused: NetlinkError | None = None
        answers: list[list[bytes]] = []
        for batch in _batches(messages):
            first = self._sequence + 1
            data = [self._pack(m, 0) for m in batch[:-1]]
            self._socket.send(b"".join(data) + self._pack(batch[-1], ACK))  # refusals are told without ACK
            found: list[list[bytes]] = [[] for _ in batch]
            for at, error in self._until_acknowledged(first, found):
                if error.errno not in batch[at].tolerate and refused is None:
                    refused = error
            answers += found
        if refused:
            raise refused
        return answers

    def _until_acknowledged(self, first: int, found: list[list[bytes]]) -> Iterator[tuple[int, NetlinkError]]:
        """Collect answers up to the acknowledgement of the last message; yields refusals."""
        while True:
            for kind, flags, sequence, body in self._receive():
                if sequence < first:
                    continue
                if kind != _ERROR:
                    found[sequence - first].append(body)
                    continue
                if error := _error(body, tlvs=bool(flags & _ACK_TLVS)):
                    yield sequence - first, error
                if sequence == self._sequence:
                    return

    def transaction(self, begin: Message, messages: Sequence[Message], end: Message) -> None:
        """A netfilter batch: all or nothing."""
        first = self._sequence + 1
        parts = [self._pack(begin, 0), *(self._pack(m, 0) for m in messages[:-1])]
        parts += [self._pack(messages[-1], ACK), self._pack(end, 0)]  # refusals are told without ACK
        self._socket.send(b"".join(parts))
        refused = None
        for error in self._refusals_of_a_batch(first, self._sequence):
            refused = refused or error
        if refused:
            raise refused

    def _refusals_of_a_batch(self, begin: int, end: int) -> Iterator[NetlinkError]:
        """Until the last message is acknowledged, or the batch was refused as a whole, told at begin or end."""
        while True:
            for kind, flags, sequence, body in self._receive():
                if kind != _ERROR or sequence < begin:
                    continue
                if error := _error(body, tlvs=bool(flags & _ACK_TLVS)):
                    yield error
                if sequence == end - 1 or (error and sequence in (begin, end)):
                    return

    def dump(self, message: Message) -> list[bytes]:
        """The bodies that answer one request for everything of a kind, in order."""
        self._socket.send(self._pack(message, DUMP))
        found: list[bytes] = []
        while True:
            for kind, _, sequence, body in self._receive():
                if sequence != self._sequence:
                    continue
                if kind == _ERROR:
                    if error := _error(body):
                        raise error
                    return found
                if kind == _DONE:
                    return found
                found.append(body)

    def _pack(self, message: Message, flags: int) -> bytes:
        self._sequence += 1
        body = message.body + b"\0" * (-len(message.body) % 4)
        header = _HEADER.pack(
            16 + len(body), message.type, message.flags | flags | REQUEST, self._sequence, 0
        )
        return header + body

    def _make_room(self) -> None:
        """For a refusal of each of many messages; without CAP_NET_ADMIN the default size must do."""
        with contextlib.suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)

    def _receive(self) -> Iterator[tuple[int, int, int, bytes]]:
        try:
            data = self._socket.recv(1 << 18)
        except BlockingIOError:
            raise TimeoutError(errno.ETIMEDOUT, f"the kernel did not answer within {_TIMEOUT_S} s") from None
        at = 0
        while at + 16 <= len(data):
            length, kind, flags, sequence, _ = _HEADER.unpack_from(data, at)
            yield kind, flags, sequence, data[at + 16 : at + length]
            at += (length + 3) & ~3


def open_sockets(netns_fd: int | None, *families: int) -> list[Netlink]:
    """One of each family, by a single visit: to go there and back takes longer than to ask there."""
    return call_inside(netns_fd, lambda: [Netlink(family) for family in families])


def _open(family: int) -> socket.socket:
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
    try:
        # not settimeout(), which polls before each call: half of all system calls
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", _TIMEOUT_S, 0))
        sock.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
        sock.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _batches(messages: Sequence[Message]) -> Iterator[list[Message]]:
    batch: list[Message] = []
    size = 0
    for message in messages:
        length = 20 + len(message.body)
        if batch and size + length > _SEND_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield batch


def _error(body: bytes, *, tlvs: bool = True) -> NetlinkError | None:
    (code,) = struct.unpack_from("=i", body)
    if code == 0:
        return None
    words = ""
    if tlvs and len(body) > 20:  # behind the error and the header of what was refused
        words = attr_map(body[20:]).get(1, b"").rstrip(b"\0").decode(errors="replace")
    return NetlinkError(-code, os.strerror(-code) + (f": {words}" if words else ""))
