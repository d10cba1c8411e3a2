"""Which redirects are followed."""

from __future__ import annotations

import pytest

from chaosflow.load.redirect import Route

WIRE = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n\r\n{}"


@pytest.mark.parametrize(
    ("base", "location", "path"),
    [
        ("http://h:8000/v1", "/v1/chat/completions/", b"/v1/chat/completions/"),
        ("http://h:8000/v1", "completions/?a=1", b"/v1/chat/completions/?a=1"),
        ("http://h:8000/v1", "http://H:8000/x", b"/x"),
        ("http://h/v1", "http://h:80", b"/"),
        ("https://h/v1", "https://h:443/x", b"/x"),
        ("http://h/v1", "/a b", b"/a%20b"),
    ],
)
def test_to_the_same_server(base: str, location: str, path: bytes) -> None:
    route = Route(base, WIRE)
    assert route.follow(307, location)
    assert route.wire == WIRE.replace(b"/v1/chat/completions", path)


@pytest.mark.parametrize(
    "location",
    [
        "",
        "https://h:8000/v1",
        "http://h/v1",
        "http://other:8000/",
        "//other/",
        "http://h:99999/",
        "/\u00fc",
        "/\x01",
    ],
)
def test_not_elsewhere(location: str) -> None:
    """The API key must not leave the server that it was given for."""
    route = Route("http://h:8000/v1", WIRE)
    assert not route.follow(308, location)
    assert route.wire == WIRE
