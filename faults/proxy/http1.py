"""The framing of HTTP/1.x responses, read as bytes come, in mid-stream too. Holds back no byte that it passes raw."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

_HEAD_LIMIT = 1 << 16
_LINE_LIMIT = 1 << 10
_RESYNC = re.compile(rb"(?:^|\r\n)([0-9A-Fa-f]{1,8})\r\n(?=data:|event:|id:|retry:|:)")
_CONTENT_LENGTH = re.compile(rb"(?im)^content-length:[^\r\n]*\r?\n")


@dataclass(frozen=True, slots=True)
class Head:
    """Status line and headers of one response; header names in lower case."""

    raw: bytes
    status: int
    headers: dict[str, str]
    old: bool
    """HTTP/1.0: no chunks."""

    @classmethod
    def parse(cls, raw: bytes) -> Head | None:
        """None when it is no HTTP head."""
        first, *lines = raw.decode("latin-1").splitlines()
        parts = first.split(" ", 2)
        if len(parts) < 2 or not parts[1].isdigit():
            return None
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        return cls(raw, int(parts[1]), headers, parts[0].endswith("/1.0"))

    @property
    def chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int | None:
        text = self.headers.get("content-length", "")
        return int(text) if text.isdigit() and not self.chunked else None

    @property
    def is_event_stream(self) -> bool:
        plain = self.headers.get("content-encoding", "identity").lower() in ("", "identity")
        return self.headers.get("content-type", "").lower().startswith("text/event-stream") and plain

    def as_chunked(self) -> bytes:
        """The same head for a body of another length."""
        return _CONTENT_LENGTH.sub(b"Transfer-Encoding: chunked\r\n", self.raw, count=1)


class Body(Protocol):
    """What a ResponseReader tells of what it reads, in order."""

    def raw(self, data: bytes) -> None:
        """Bytes to pass on as they are: those of responses not taken, or not understood."""

    def head(self, head: Head) -> bool:
        """A response begins: shall its body come decoded? If so the head is the callee's to pass on."""

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


class ResponseReader:
    """Cuts the bytes from a server into heads and bodies.

    ``from_start``: the first byte begins a response. Otherwise it looks for the next head, or for the next
    chunk that begins with a line of a server-sent event, and passes what comes before.
    """

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
        if self._line:
            return False
        return not self._taken or self._at in (_At.CHUNK_SIZE, _At.UNTIL_CLOSE)

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
        if position == 0 and data.startswith(b"HTTP/1."):
            self._at = _At.HEAD
            return position
        found = _RESYNC.search(data, position)
        if not found:
            self._pass(data[position:])
            return len(data)
        self._pass(data[position : found.start(1)])
        self._flush()
        self._taken = self._to.resumed()
        self._at = _At.CHUNK_SIZE
        return found.start(1)

    def _head(self, data: bytes, position: int) -> int:
        before = len(self._line)
        text = self._line + data[position:]
        if not (text[:7].startswith(b"HTTP/1.") or b"HTTP/1.".startswith(text[:7])):
            return self._lost(text, len(data))
        end = text.find(b"\r\n\r\n", max(0, before - 3)) + 4
        if end < 4:
            if len(text) > _HEAD_LIMIT:
                return self._lost(text, len(data))
            self._line = text
            return len(data)
        self._line = b""
        head = Head.parse(text[:end])
        if head is None:
            return self._lost(text, len(data))
        self._flush()
        self._begin(head)
        return position + end - before

    def _begin(self, head: Head) -> None:
        self._taken = self._to.head(head)
        if not self._taken:
            self._pass(head.raw)
        if head.status < 200 or head.status in (204, 304) or self._to.bodiless():
            self._at, self._taken = _At.HEAD, False
        elif head.chunked:
            self._at = _At.CHUNK_SIZE
        elif head.length is not None:
            self._at, self._left = _At.LENGTH, head.length
            if not head.length:
                self._end_of_message(b"")
        else:
            self._at = _At.UNTIL_CLOSE

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
