"""Redirects within one server (RFC 9110, 15.4.8 and 15.4.9): the same request goes to another path."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

_MOST = 3
_KEEP_METHOD = (307, 308)
"""After any other status the request would be a GET without its body."""


class Route:
    """What one request is sent as, through all its redirects. The time that they take belongs to the service."""

    __slots__ = ("_base_url", "hops", "wire")

    def __init__(self, base_url: str, wire: bytes) -> None:
        self.wire = wire
        """Head and body, ready to be sent."""
        self.hops = 0
        self._base_url = base_url

    def follow(self, status: int, location: str) -> bool:
        """Turn there; False where that is another server, or there were too many, or the method would change."""
        if status not in _KEEP_METHOD or self.hops >= _MOST or not location:
            return False
        method, path, rest = self.wire.split(b" ", 2)
        here = urljoin(self._base_url, path.decode())
        there = urlsplit(urljoin(here, location))
        wanted = (there.path or "/") + (f"?{there.query}" if there.query else "")
        if _origin(there.geturl()) != _origin(here) or not wanted.isascii() or not wanted.isprintable():
            return False
        self.wire = b" ".join((method, wanted.replace(" ", "%20").encode(), rest))
        self.hops += 1
        return True


def _origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port; the port is -1 where it is none."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    return parts.scheme, parts.hostname or "", port or (443 if parts.scheme == "https" else 80)
