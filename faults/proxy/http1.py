"""The framing of HTTP/1.x, read as bytes come, of responses in mid-stream too. Waits for the end of heads only."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import ClassVar, Protocol

from chaosflow.faults.proxy.head import Head
from chaosflow.faults.proxy.request import METHODS

_HEAD_LIMIT = 1 << 16
_LINE_LIMIT = 1 << 10
_RESYNC = re.compile(rb"(?:^|\r\n)([0-9A-Fa-f]{1,8})\r\n(?=data:|event:|id:|retry:|:)")


class Body(Protocol):
    """What a reader tells of what it reads, in order."""

    def raw(self, data: bytes) -> None:
        """Bytes to pass on as they are: those of messages not taken, or not understood."""

    def head(self, head: Head) -> bool:
        """A message begins: shall its body come decoded? If so the head is the callee's to pass on."""

    def resumed(self) -> bool:
        """A chunk of server-sent events begins, of a response whose head was missed: as ``head``."""

    def body(self, data: bytes) -> None:
        """A piece of a body that was taken, without chunk headers."""

    def body_end(self, trailer: bytes) -> None:
        """A body that was taken is complete; ``trailer``: lines behind the last chunk."""

    def bodiless(self) -> bool:
        """Whether the response that begins answers a HEAD request."""


class _At(Enum):
    UNKNOWN = 0
    HEAD = 1
    CHUNK_SIZE = 2
    CHUNK = 3
    CHUNK_END = 4
    TRAILER = 5
    LENGTH = 6
    UNTIL_CLOSE = 7


class MessageReader(ABC):
    """Cuts the bytes of one direction into heads and bodies.

    ``from_start``: the first byte begins a message. Otherwise it passes everything until it recognizes one.
    """

    starts: ClassVar[tuple[bytes, ...]]
    """What a head begins with."""

    def __init__(self, to: Body, *, from_start: bool) -> None:
        self._to = to
        self._at = _At.HEAD if from_start else _At.UNKNOWN
        self._line = b""  # a head or a line that is not complete yet
        self._left = 0
        self._taken = False
        self._raw: list[bytes] = []
        self._trailer = b""
        self._steps: dict[_At, Callable[[bytes, int], int]] = {
            _At.UNKNOWN: self._seek,
            _At.HEAD: self._head,
            _At.CHUNK_SIZE: self._chunk_size,
            _At.CHUNK: self._counted,
            _At.CHUNK_END: self._chunk_end,
            _At.TRAILER: self._read_trailer,
            _At.LENGTH: self._counted,
            _At.UNTIL_CLOSE: self._until_close,
        }

    def feed(self, data: bytes) -> None:
        position = 0
        while position < len(data):
            position = self._steps[self._at](data, position)
        self._flush()

    def finish(self) -> None:
        """No byte comes any more."""
        if self._at is _At.UNTIL_CLOSE and self._taken:
            self._at, self._taken = _At.HEAD, False
            self._to.body_end(b"")

    @property
    def between_chunks(self) -> bool:
        """Whether the next byte could go on raw: no chunk, line or head is cut in two here."""
        if self._at is _At.HEAD:
            return not self._line
        if not self._taken or self._at is _At.UNTIL_CLOSE:
            return True
        return self._at is _At.CHUNK_SIZE and not self._line

    def let_go(self) -> bytes:
        """The part of a head that is still waiting for its end; the reader understands nothing more."""
        waiting = self._line if self._at is _At.HEAD else b""
        self._line, self._at, self._taken = b"", _At.UNKNOWN, False
        return waiting

    def _flush(self) -> None:
        if self._raw:
            pieces, self._raw = self._raw, []
            self._to.raw(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _pass(self, data: bytes) -> None:
        if not self._taken and data:
            self._raw.append(data)

    def _seek(self, data: bytes, position: int) -> int:
        if position == 0 and data.startswith(self.starts):
            self._at = _At.HEAD
            return position
        self._pass(data[position:])
        return len(data)

    def _head(self, data: bytes, position: int) -> int:
        before = len(self._line)
        text = self._line + data[position:]
        if not any(text.startswith(start) or start.startswith(text) for start in self.starts):
            return self._lost(text, len(data))
        end = text.find(b"\r\n\r\n", max(0, before - 3)) + 4
        if end < 4:
            if len(text) > _HEAD_LIMIT:
                return self._lost(text, len(data))
            self._line = text
            return len(data)
        self._line = b""
        self._flush()
        head = Head.parse(text[:end])
        self._taken = self._to.head(head)
        if not self._taken:
            self._pass(head.raw)
        self._begin(head)
        return position + end - before

    @abstractmethod
    def _begin(self, head: Head) -> None:
        """Go to where the body of this message is read."""

    def _counted_body(self, head: Head) -> bool:
        """Whether the head says how long the body is."""
        if head.chunked:
            self._at = _At.CHUNK_SIZE
            return True
        if head.length is None:
            return False
        self._at, self._left = _At.LENGTH, head.length
        if not head.length:
            self._end_of_message(b"")
        return True

    def _next_line(self, data: bytes, position: int) -> tuple[bytes | None, int]:
        """A whole line with its end, or None while it is not complete."""
        newline = data.find(b"\n", position) + 1
        stop = newline or len(data)
        self._pass(data[position:stop])
        self._line += data[position:stop]
        if not newline:
            return None, stop
        line, self._line = self._line, b""
        return line, stop

    def _chunk_size(self, data: bytes, position: int) -> int:
        line, stop = self._next_line(data, position)
        if line is None:
            return stop if len(self._line) < _LINE_LIMIT else self._lost(b"", stop)
        try:
            self._left = int(line.split(b";")[0], 16)
        except ValueError:
            return self._lost(line if self._taken else b"", stop)
        self._at = _At.CHUNK if self._left else _At.TRAILER
        return stop

    def _counted(self, data: bytes, position: int) -> int:
        """A chunk's or a body's bytes."""
        stop = min(len(data), position + self._left)
        self._left -= stop - position
        self._piece(data[position:stop])
        if not self._left:
            if self._at is _At.CHUNK:
                self._at = _At.CHUNK_END
            else:
                self._end_of_message(b"")
        return stop

    def _piece(self, piece: bytes) -> None:
        if self._taken:
            self._to.body(piece)
        else:
            self._pass(piece)

    def _chunk_end(self, data: bytes, position: int) -> int:
        line, stop = self._next_line(data, position)
        if line is not None:
            if line.strip(b"\r\n"):
                return self._lost(line if self._taken else b"", stop)
            self._at = _At.CHUNK_SIZE
        return stop

    def _read_trailer(self, data: bytes, position: int) -> int:
        line, stop = self._next_line(data, position)
        if line is not None:
            if line.strip(b"\r\n"):
                self._trailer += line
            else:
                trailer, self._trailer = self._trailer, b""
                self._end_of_message(trailer)
        return stop

    def _until_close(self, data: bytes, position: int) -> int:
        self._piece(data[position:])
        return len(data)

    def _end_of_message(self, trailer: bytes) -> None:
        taken, self._taken, self._at = self._taken, False, _At.HEAD
        if taken:
            self._to.body_end(trailer)

    def _lost(self, rest: bytes, stop: int) -> int:
        """Not what was expected: pass on everything until something is recognized again."""
        self._at, self._taken, self._line = _At.UNKNOWN, False, b""
        self._pass(rest)
        return stop


class ResponseReader(MessageReader):
    """Of a server's bytes. In mid-stream it goes by the next chunk that begins with a line of an event."""

    starts: ClassVar[tuple[bytes, ...]] = (b"HTTP/1.",)

    def _seek(self, data: bytes, position: int) -> int:
        found = _RESYNC.search(data, position)
        if not found or (position == 0 and data.startswith(self.starts)):
            return super()._seek(data, position)
        self._pass(data[position : found.start(1)])
        self._flush()
        self._taken = self._to.resumed()
        self._at = _At.CHUNK_SIZE
        return found.start(1)

    def _begin(self, head: Head) -> None:
        if head.status < 200 or head.status in (204, 304) or self._to.bodiless():
            self._at, self._taken = _At.HEAD, False
        elif not self._counted_body(head):
            self._at = _At.UNTIL_CLOSE


class RequestReader(MessageReader):
    """Of a client's bytes. In the middle of a connection it waits for a read that begins with a method."""

    starts: ClassVar[tuple[bytes, ...]] = METHODS

    def _begin(self, head: Head) -> None:
        if not self._counted_body(head):
            self._end_of_message(b"")
