"""TLS on memory buffers: the socket below keeps its kernel stamps."""

from __future__ import annotations

import ssl


class Tls:
    """One client-side connection; does no I/O."""

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_hostname=name)

    def shake_hands(self) -> bool:
        """Go on as far as possible; True when done. Raises ssl.SSLError."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def incoming(self, data: bytes) -> None:
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()

    def outgoing(self) -> bytes:
        return self._out.read()

    def encrypt(self, payload: bytes) -> bytes:
        self._ssl.write(payload)
        return self._out.read()

    def decrypt(self, data: bytes) -> bytes:
        self._in.write(data)
        parts: list[bytes] = []
        try:
            while part := self._ssl.read(65536):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(parts)
