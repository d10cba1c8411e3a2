"""The request that a connection is answering: enough to choose by path."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"DELETE ", b"PATCH ", b"OPTIONS ")


@dataclass(frozen=True, slots=True)
class Request:
    """Method and path (without query) of an HTTP/1.x request line."""

    method: str
    path: str

    @classmethod
    def begins(cls, data: bytes) -> Request | None:
        """The request whose first bytes these are; None when they begin none.

        Clients wait for an answer before they ask again (no pipelining), and send the line in one piece.
        """
        if not data.startswith(METHODS):
            return None
        parts = data.partition(b"\r\n")[0].split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            return None
        return cls(parts[0].decode("ascii"), parts[1].partition(b"?")[0].decode("latin-1"))

    def matches(self, pattern: str | None) -> bool:
        """Whether the path is like ``pattern`` (``*`` stands for anything); None matches all."""
        return pattern is None or fnmatchcase(self.path, pattern)


def path_matches(request: Request | None, pattern: str | None) -> bool:
    """As ``matches``; a request that was not seen matches only when any path does."""
    return pattern is None or (request is not None and request.matches(pattern))
