"""Addresses on which a machine is to be found: read, and tried before anything depends on them."""

from __future__ import annotations

import errno
import socket

from chaosflow.core.errors import UsageError

DEFAULT_PORT = 5557
"""Locust's own."""
_HIGHEST_PORT = 65535
_BOUND_ALREADY = "another program listens there, perhaps another run: choose another port"


def split_address(text: str, key: str) -> tuple[str, int]:
    """(host, port) of ``HOST``, ``HOST:PORT``, ``[IPv6]:PORT`` or a bare IPv6 address. Raises UsageError.

    Looks nothing up: whether there is such a host is not known yet.
    """
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") > 1:
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    number = int(port) if port.isascii() and port.isdigit() else 0
    if not host or (port and not 0 < number <= _HIGHEST_PORT):
        raise UsageError(
            f"{key} {text!r}", "is no address", f"write HOST or HOST:PORT, e.g. 10.0.0.5:{DEFAULT_PORT}"
        )
    return host, number or DEFAULT_PORT


def listen_address(text: str) -> tuple[str, int]:
    """(address, port) of ``load.listen``, where ``:PORT`` means every interface. Raises UsageError."""
    return split_address(f"0.0.0.0{text}" if text.startswith(":") else text, "listen")


def require_free(host: str, port: int, key: str) -> None:
    """Raises UsageError where this machine cannot listen on that address. Lets go of it at once; contacts nobody."""
    thing = f"{key} {f'[{host}]' if ':' in host else host}:{port}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Locust does
            tried.bind(address)
    except (OSError, UnicodeError) as e:
        in_use = isinstance(e, OSError) and e.errno == errno.EADDRINUSE
        remedy = (
            _BOUND_ALREADY if in_use else "name an address of this machine, and a port that is yours to use"
        )
        raise UsageError(thing, getattr(e, "strerror", None) or str(e), remedy) from e
