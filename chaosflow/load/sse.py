"""Bytes of a ``text/event-stream`` body -> events, wherever the bytes are cut.

After the WHATWG HTML standard, section 9.2.6 (interpreting an event stream), on bytes: nothing is
decoded, so a UTF-8 character may be cut anywhere and U+2028 or U+0085 are never line ends.
"""

from __future__ import annotations

Event = tuple[bytes, bytes]
"""(event type, data); the type is empty where the stream gave none."""

_MAX_LINE_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"


def _whole_events(chunk: bytes) -> list[Event] | None:
    """The events of a chunk of whole ``data: …`` blocks of one line each; None where it is anything else."""
    if b"\r" in chunk:
        return None
    blocks = chunk[:-2].split(b"\n\n")
    for block in blocks:
        if block[:6] != b"data: " or b"\n" in block:
            return None
    return [(b"", block[6:]) for block in blocks]


class SseParser:
    """Incremental: ``feed`` gives the events that its bytes complete, in order."""

    __slots__ = ("_at_start", "_data", "_skip_lf", "_tail", "_type", "trailing")

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []
        self._type = b""
        self._skip_lf = False
        self._at_start = True
        self.trailing = False
        """Whether the bytes last fed go on after the last event they completed (a comment, a half event)."""

    @property
    def idle(self) -> bool:
        """Whether nothing is left of what was fed: a new event would begin with the next byte."""
        return not (self._tail or self._data or self._type or self._skip_lf)

    def feed(self, chunk: bytes) -> list[Event]:
        """Events completed by ``chunk``. Raises ValueError on a line longer than 8 MiB."""
        if chunk[-2:] == b"\n\n" and self.idle:
            whole = _whole_events(chunk)
            if whole:
                self._at_start = self.trailing = False
                return whole
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == 10:  # the second half of a CRLF that was cut
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._skip_lf = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = (self._tail + chunk if self._tail else chunk).split(b"\n")
        self._tail = lines.pop()
        if len(self._tail) > _MAX_LINE_BYTES:
            raise ValueError(f"a line of the event stream is longer than {_MAX_LINE_BYTES >> 20} MiB")
        events: list[Event] = []
        trailing = False
        for line in lines:
            trailing = bool(line) or trailing
            if not line:
                if self._data:
                    events.append((self._type, b"\n".join(self._data)))
                    self._data = []
                    trailing = False
                self._type = b""
            elif line.startswith(b"data: "):
                self._data.append(line[6:])
            else:
                self._field(line)
        self._at_start = self._at_start and not lines
        self.trailing = trailing or bool(self._tail)
        return events

    def flush(self) -> Event | None:
        """The event left open at the end of the stream, as far as it came; None where there is none."""
        if self._tail:
            tail, self._tail = self._tail, b""
            self._field(tail)
        if not self._data:
            return None
        event = (self._type, b"\n".join(self._data))
        self._data, self._type = [], b""
        return event

    def _field(self, line: bytes) -> None:
        if self._at_start and line.startswith(_BOM):
            line = line[3:]
        self._at_start = False
        if line.startswith(b":"):
            return  # a comment: a ping
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value
        elif name == b"error":  # llama.cpp's way to report an error in mid-stream
            self._type = b"error"
            self._data.append(value)
