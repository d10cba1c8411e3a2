"""``HOST:PORT``, ``[v6]:PORT`` or ``unix:PATH``."""

from __future__ import annotations

from dataclasses import dataclass

from chaosflow.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP host and port, or the path of a Unix stream socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        if text.startswith("unix:"):
            return cls(path=text.removeprefix("unix:"))
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"address {text!r}", "is not HOST:PORT or unix:PATH", "write 127.0.0.1:8000")
        return cls(host=host.strip("[]"), port=int(port))

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
