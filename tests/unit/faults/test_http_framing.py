"""HTTP/1.1 as the proxy reads it: any cut of the bytes gives the same messages, and what is not HTTP passes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from stream_rig import MemoryWire, chunked, responses

from chaosflow.faults.proxy.request import Request, path_matches

SSE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)
JSON = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"data":[]}'
ODD = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n"
)


def token(i: int) -> bytes:
    return b'data: {"choices":[{"delta":{"content":"t%d"}}]}\n\n' % i


def stream(tokens: int, chunk_of: int = 1) -> bytes:
    events = [b": ping\n\n", *(token(i) for i in range(tokens)), b"data: [DONE]\n\n"]
    body = [b"".join(events[i : i + chunk_of]) for i in range(0, len(events), chunk_of)]
    return SSE + chunked(*body) + b"0\r\n\r\n"


def through(pieces: list[bytes], kind: str, **attributes: Any) -> MemoryWire:
    wire = MemoryWire()
    wire.add(kind, **attributes)
    for piece in pieces:
        wire.lane.feed(piece)
    return wire


KINDS: list[tuple[str, dict[str, Any], list[int]]] = [
    ("sse_duplicate", {"at_event": 2}, [0, 1, 1, 2, 3]),
    ("sse_reorder", {"at_event": 2}, [0, 2, 1, 3]),
    ("sse_coalesce", {"events": 3}, [0, 1, 2, 3]),
    ("sse_drop_done", {}, [0, 1, 2, 3]),
    ("sse_corrupt", {"at_event": 2, "damage": "field"}, [0, 2, 3]),
    ("sse_error", {"after_events": 2, "then": "go_on"}, [0, 1, 2, 3]),
]


def _numbers(body: bytes) -> list[int]:
    return [int(part[0:1]) for part in body.split(b'data: {"choices":[{"delta":{"content":"t')[1:]]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "attributes", "numbers"), KINDS)
def test_any_cut_gives_the_same_events_in_valid_chunks(
    kind: str, attributes: dict[str, Any], numbers: list[int]
) -> None:
    data = JSON + stream(4) + ODD + stream(4)
    want = None
    for cut in range(0, len(data) + 1, 3):
        wire = through([data[:cut], data[cut:]], kind, **attributes)
        bodies = [body for _, body, _ in responses(wire.out)]
        assert _numbers(bodies[1]) == numbers, cut
        assert _numbers(bodies[-1]) == numbers, cut
        want = want or bodies
        assert bodies == want


def test_byte_by_byte_is_the_same() -> None:
    data = stream(4)
    wire = through([data[i : i + 1] for i in range(len(data))], "sse_duplicate", at_event=2)
    [(_, body, complete)] = responses(wire.out)
    assert (_numbers(body), complete) == ([0, 1, 1, 2, 3], True)


def test_what_is_not_a_stream_passes_as_it_came() -> None:
    for data in (JSON, ODD, JSON + ODD, b"\x16\x03\x01" + random.Random(1).randbytes(5000), b"HTTP/1.1 \x00"):
        for cut in range(min(len(data), 200)):
            wire = through([data[:cut], data[cut:]], "sse_drop_done")
            wire.lane.end(reset=False)
            assert wire.out == data
            assert wire.ended == "eof"


def test_no_byte_waits_in_the_proxy_but_a_head() -> None:
    wire = through([JSON[:60]], "sse_drop_done")
    assert wire.out == b""
    wire.lane.feed(JSON[60:-3])
    assert wire.out == JSON[:-3]


def test_a_body_with_a_length_gets_chunks() -> None:
    body = token(0) + token(1) + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nContent-Type: text/event-stream\r\n\r\n" % len(body)
    wire = through([head + body + JSON], "sse_drop_done")
    (got_head, got, complete), (_, json, _) = responses(wire.out)
    assert b"Transfer-Encoding: chunked" in got_head
    assert b"content-length" not in got_head
    assert (got, complete, json) == (token(0) + token(1), True, b'{"data":[]}')


def test_a_body_until_close_stays_one() -> None:
    head = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    wire = through([head, token(0), token(1), b"data: [DONE]\n\n"], "sse_drop_done")
    wire.lane.end(reset=False)
    assert wire.out == head + token(0) + token(1)


def test_a_compressed_stream_is_left_alone() -> None:
    data = stream(3).replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n", 1)
    assert through([data], "sse_drop_done").out == data


def test_a_response_to_head_has_no_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99\r\n\r\n"
    wire = MemoryWire(request=Request("HEAD", "/"))
    wire.add("sse_drop_done")
    wire.lane.feed(head)
    wire.request = Request("GET", "/")
    wire.lane.feed(stream(2))
    assert wire.out.endswith(token(1)[-9:] + b"\r\n0\r\n\r\n")


def test_a_toxic_added_in_mid_stream_finds_the_next_chunk() -> None:
    """toxiproxy 148: connections already open were not acted on."""
    data = stream(40)
    middle = data.index(token(20)) + 10
    wire = MemoryWire()
    wire.lane.feed(data[:middle])
    toxic = wire.add("sse_duplicate", at_event=3)
    wire.lane.feed(data[middle:])
    [(_, body, complete)] = responses(wire.out)
    numbers = [int(part.split(b'"')[0]) for part in body.split(b'"content":"t')[1:]]
    assert complete
    assert toxic.stats.more["acted"] == 1
    assert numbers == sorted([*range(40), 23])


@pytest.mark.parametrize("chunk_of", [1, 3])
def test_a_toxic_removed_anywhere_in_a_stream_leaves_it_whole(chunk_of: int) -> None:
    data = stream(6, chunk_of)
    for cut in range(len(data)):
        wire = MemoryWire()
        toxic = wire.add("sse_coalesce", events=4)
        wire.lane.feed(data[:cut])
        wire.lane.detach(toxic)
        wire.lane.feed(data[cut:])
        [(_, body, complete)] = responses(wire.out)
        assert complete, cut
        assert _numbers(body) == list(range(6)), cut
        assert wire.lane.stages == [], cut


def test_chosen_by_path_by_count_and_by_probability() -> None:
    wire = MemoryWire(request=Request("POST", "/v1/chat/completions"))
    toxic = wire.add("sse_drop_done", path="/v1/chat/*", count=2)
    wire.lane.feed(stream(1) * 3)
    wire.request = Request("POST", "/v1/completions")
    wire.lane.feed(stream(1))
    kept = [b"[DONE]" in body for _, body, _ in responses(wire.out)]
    assert kept == [False, False, True, True]
    assert (toxic.stats.more["streams"], toxic.stats.more["chosen"]) == (3, 2)
    wire = MemoryWire()
    wire.add("sse_drop_done", probability=0.5)
    wire.lane.feed(stream(1) * 200)
    assert 60 < sum(b"[DONE]" in body for _, body, _ in responses(wire.out)) < 140


def test_a_request_line_is_recognized() -> None:
    assert Request.begins(b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\n") == Request(
        "POST", "/v1/chat/completions"
    )
    assert Request.begins(b"GET / SPDY\r\n") is None
    assert Request.begins(b"\x16\x03\x01") is None
    assert not path_matches(None, "/v1/*")
    assert path_matches(None, None)


@pytest.mark.parametrize("damage", ["json", "utf8", "field"])
def test_a_damaged_event_stays_an_event(damage: str) -> None:
    [(_, body, _)] = responses(through([stream(3)], "sse_corrupt", damage=damage).out)
    events = body.split(b"\n\n")
    assert events[1] == token(0).rstrip(b"\n")
    assert events[2] != token(1).rstrip(b"\n")
    assert events[3] == token(2).rstrip(b"\n")
    if damage == "utf8":
        assert b't1\xff"' in events[2]


@pytest.mark.parametrize(("ending", "complete", "ended"), [("clean", True, "whole"), ("cut", False, "whole"), ("reset", False, "reset")])  # fmt: skip
def test_a_truncated_stream_ends_as_asked(ending: str, complete: bool, ended: str) -> None:
    data = stream(5)
    for cut in range(0, len(data), 7):
        wire = through([data[:cut], data[cut:]], "sse_truncate", after_events=2, ending=ending)
        [(_, body, is_complete)] = responses(wire.out)
        assert (_numbers(body), is_complete, wire.ended) == ([0, 1], complete, ended)


@pytest.mark.parametrize(("then", "complete", "done"), [("done", True, True), ("clean", True, False), ("cut", False, False)])  # fmt: skip
def test_an_error_event_comes_after_a_200(then: str, complete: bool, done: bool) -> None:
    for after in (0, 2):
        wire = through([stream(5)], "sse_error", after_events=after, then=then, code=503)
        [(head, body, is_complete)] = responses(wire.out)
        assert head.startswith(b"HTTP/1.1 200")
        assert b'data: {"error": {' in body
        assert b'"code": 503' in body
        assert (_numbers(body), is_complete, b"[DONE]" in body) == (list(range(after)), complete, done)


def test_coalesced_events_come_in_one_chunk() -> None:
    wire = through([stream(7)], "sse_coalesce", events=3)
    sizes = [chunk.count(b'"content"') for chunk in wire.out.split(b"\r\n") if b"data:" in chunk]
    assert sizes == [3, 3, 1]


def test_a_coalesced_event_waits_no_longer_than_asked() -> None:
    wire = through([SSE + chunked(token(0))], "sse_coalesce", events=3, hold_ms=5)
    assert b"t0" not in wire.out
    wire.manual.fire()
    assert b"t0" in wire.out


def test_a_character_is_cut_in_two_chunks() -> None:
    text = "data: " + '{"choices":[{"delta":{"content":"a€b"}}]}' + "\n\n"
    wire = through([SSE + chunked(text.encode(), token(1)) + b"0\r\n\r\n"], "sse_split", gap_ms=0.001)
    while wire.manual.pending:
        wire.manual.fire()
    [(_, body, _)] = responses(wire.out)
    assert body == text.encode() + token(1)
    assert b"a\xe2\r\n" in wire.out


def test_the_first_token_and_all_behind_it_wait() -> None:
    wire = through([stream(3)], "sse_first_token", delay_ms=0.001)
    while wire.manual.pending:
        wire.manual.fire()
    assert wire.out == stream(3)
    wire = through([stream(3)], "sse_first_token", delay_ms=60_000)
    assert wire.out == SSE + chunked(b": ping\n\n")


CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
LIST = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
UPLOAD = b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


def test_a_rejected_request_never_reaches_the_server() -> None:
    data = LIST + CHAT + LIST + UPLOAD + LIST
    for cut in range(len(data)):
        wire = MemoryWire("upstream")
        wire.add("http_reject", status=503, retry_after_s=7, path="/v1/chat/*")
        wire.lane.feed(data[:cut])
        wire.lane.feed(data[cut:])
        assert wire.out == LIST * 3
        assert len(wire.answers) == 2
    [(head, body, complete)] = responses(wire.answers[0])
    assert head.startswith(b"HTTP/1.1 503 Service Unavailable")
    assert b"Retry-After: 7" in head
    assert b'"error"' in body
    assert complete


def test_a_reject_removed_in_mid_request_swallows_just_that_one() -> None:
    for cut in range(len(CHAT)):
        wire = MemoryWire("upstream")
        toxic = wire.add("http_reject")
        wire.lane.feed(CHAT[:cut])
        wire.lane.detach(toxic)
        wire.lane.feed(CHAT[cut:] + LIST)
        assert wire.out in (LIST, CHAT + LIST)
        assert (wire.out == LIST) == (len(wire.answers) == 1)


def test_a_client_that_waits_for_100_gets_it() -> None:
    wire = MemoryWire("upstream")
    wire.add("http_reject")
    wire.lane.feed(CHAT.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")[:-4])
    assert wire.answers == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    wire.lane.feed(b"body")
    assert wire.answers[1].startswith(b"HTTP/1.1 429 Too Many Requests\r\n")


def test_rejections_come_in_bursts() -> None:
    wire = MemoryWire("upstream")
    toxic = wire.add("http_reject", burst_ms=1000, pause_ms=3000)
    toxic.stats.added_ns -= 2_000_000_000
    wire.lane.feed(LIST)
    assert (wire.out, wire.answers) == (LIST, [])
    toxic.stats.added_ns -= 2_000_000_000
    wire.lane.feed(LIST)
    assert (wire.out, len(wire.answers)) == (LIST, 1)
