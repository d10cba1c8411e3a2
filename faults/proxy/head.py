"""The head of an HTTP/1.x message: first line and headers."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONTENT_LENGTH = re.compile(rb"(?im)^content-length:[^\r\n]*\r?\n")


@dataclass(frozen=True, slots=True)
class Head:
    """First line and headers of one request or response; header names in lower case."""

    raw: bytes
    first: tuple[str, str, str]
    """The three parts of the first line."""
    headers: dict[str, str]

    @classmethod
    def parse(cls, raw: bytes) -> Head:
        first, *lines = raw.decode("latin-1").split("\r\n")
        one, two, three = (*first.split(" ", 2), "", "")[:3]
        pairs = (line.partition(":") for line in lines if line)
        return cls(raw, (one, two, three), {name.strip().lower(): value.strip() for name, _, value in pairs})

    @property
    def status(self) -> int:
        """Of a response; 0 where the first line holds none."""
        return int(self.first[1]) if self.first[1].isdigit() else 0

    @property
    def old(self) -> bool:
        """HTTP/1.0: no chunks."""
        return "HTTP/1.0" in (self.first[0], self.first[2])

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
