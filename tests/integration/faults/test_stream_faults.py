"""The stream faults on a real server that streams tokens: what does a client see, and what do they say of it?"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from process_rig import host_of
from proxy_rig import (
    CHAT,
    RunningProxy,
    ask,
    content_event,
    proxy_to,
    receive,
    server,
    sse_response,
    streaming,
)

from chaosflow.core.fault import FaultAtom, Undo
from chaosflow.core.host import ProxyHandle
from chaosflow.faults.stream_coalesce import StreamCoalesce
from chaosflow.faults.stream_corrupt import StreamCorrupt
from chaosflow.faults.stream_drop_done import StreamDropDone
from chaosflow.faults.stream_duplicate import StreamDuplicate
from chaosflow.faults.stream_error_event import StreamErrorEvent
from chaosflow.faults.stream_idle_cut import StreamIdleCut
from chaosflow.faults.stream_reject import StreamReject
from chaosflow.faults.stream_reorder import StreamReorder
from chaosflow.faults.stream_slow_first_token import StreamSlowFirstToken
from chaosflow.faults.stream_split_utf8 import StreamSplitUtf8
from chaosflow.faults.stream_stall import StreamStall
from chaosflow.faults.stream_truncate import StreamTruncate

TOKENS = 8


@pytest.fixture(scope="module")
def proxy() -> Iterator[RunningProxy]:
    with server(streaming(TOKENS)) as port, proxy_to(port) as made:
        yield made


@pytest.fixture
def injected(proxy: RunningProxy) -> Iterator[Any]:
    """Injects atoms and takes them out again at the end."""
    done: list[tuple[type[FaultAtom], Undo]] = []

    def inject(atom: FaultAtom) -> Undo:
        host = replace(host_of(None), proxy=ProxyHandle(Path(proxy.control)))
        undo = asyncio.run(atom.plan(host, f"fault{len(done)}"))
        asyncio.run(atom.inject(undo))
        done.append((type(atom), undo))
        return undo

    yield inject
    for kind, undo in done:
        asyncio.run(kind.revert(undo))
    assert proxy.call("GET", "/proxies/target/toxics") == (200, [])
    assert ask(proxy) == (b"".join(sse_response(TOKENS)), "complete")


def seen_by(kind: type[FaultAtom], undo: Undo) -> str:
    effect = asyncio.run(kind.is_active(undo))
    assert effect, effect.evidence
    return effect.evidence


def tokens(response: bytes) -> list[str]:
    """The texts of the content events that a client can parse."""
    found = []
    for line in response.split(b"\n"):
        try:
            event = json.loads(line.removeprefix(b"data:"))
        except ValueError:
            continue
        if not isinstance(event, dict) or not line.startswith(b"data:"):
            continue
        found += [c["delta"]["content"] for c in event.get("choices", []) if c["delta"].get("content")]
    return found


ALL = [f"t{i} " for i in range(TOKENS)]


@pytest.mark.parametrize(("ending", "how"), [("clean", "complete"), ("cut", "closed"), ("reset", "reset")])
def test_truncate_leaves_k_tokens_and_no_end(
    proxy: RunningProxy, injected: Any, ending: Any, how: str
) -> None:
    """inference-perf 655: 10 of 1,024 tokens, then a clean close."""
    undo = injected(StreamTruncate(after_events=3, ending=ending))
    got, ended = ask(proxy)
    assert ended == how
    assert how == "reset" or tokens(got) == ALL[:3]  # a reset may overtake what the client had not read
    assert b"[DONE]" not in got
    assert seen_by(StreamTruncate, undo).startswith("1 streams truncated; 1 of 1 streams chosen")


def test_coalesce_keeps_all_tokens_in_few_writes(proxy: RunningProxy, injected: Any) -> None:
    undo = injected(StreamCoalesce(events=4))
    got, _ = ask(proxy)
    assert tokens(got) == ALL
    assert max(chunk.count(b'"content": "t') for chunk in got.split(b"\r\n")) == 4
    assert seen_by(StreamCoalesce, undo).startswith("2 writes of several events")


@pytest.mark.slow
def test_slow_first_token_moves_the_whole_stream(proxy: RunningProxy, injected: Any) -> None:
    begin = time.monotonic()
    ask(proxy)
    plain_s = time.monotonic() - begin
    undo = injected(StreamSlowFirstToken(delay_ms=800))
    with proxy.connect() as sock:
        begin = time.monotonic()
        sock.sendall(CHAT)
        pieces = sse_response(TOKENS)
        receive(sock, len(pieces[0] + pieces[1]))
        role_s = time.monotonic() - begin
        receive(sock, len(pieces[2]))
        token_s = time.monotonic() - begin
        receive(sock, len(b"".join(pieces[3:])))
        whole_s = time.monotonic() - begin
    assert role_s < 0.8 <= token_s
    assert whole_s == pytest.approx(0.8 + plain_s, abs=0.6)
    assert seen_by(StreamSlowFirstToken, undo).startswith("1 first tokens delayed")


@pytest.mark.parametrize("damage", ["json", "utf8", "field"])
def test_corrupt_damages_one_event(proxy: RunningProxy, injected: Any, damage: Any) -> None:
    undo = injected(StreamCorrupt(at_event=3, damage=damage))
    got, ended = ask(proxy)
    assert ended == "complete"
    assert tokens(got) == [*ALL[:2], *ALL[3:]]
    assert seen_by(StreamCorrupt, undo).startswith("1 events damaged")


def test_duplicate_and_reorder_compose(proxy: RunningProxy, injected: Any) -> None:
    injected(StreamDuplicate(at_event=2, events=2))
    undo = injected(StreamReorder(at_event=1))
    got, _ = ask(proxy)
    assert tokens(got) == ["t1 ", "t0 ", "t1 ", "t2 ", "t2 ", *ALL[3:]]
    assert seen_by(StreamReorder, undo).startswith("1 events swapped")


@pytest.mark.parametrize(("then", "how", "done"), [("done", "complete", True), ("clean", "complete", False), ("cut", "closed", False)])  # fmt: skip
def test_an_error_event_after_a_200(
    proxy: RunningProxy, injected: Any, then: Any, how: str, done: bool
) -> None:
    """guidellm 743: an error inside a 200 stream."""
    undo = injected(StreamErrorEvent(after_events=2, then=then, message="out of memory"))
    got, ended = ask(proxy)
    assert (ended, tokens(got)) == (how, ALL[:2])
    assert got.startswith(b"HTTP/1.1 200")
    assert b'{"error": {"message": "out of memory", "type": "server_error"' in got
    assert (b"[DONE]" in got) is done
    assert seen_by(StreamErrorEvent, undo).startswith("1 error events sent")


def test_a_200_with_an_error_and_nothing_else(proxy: RunningProxy, injected: Any) -> None:
    """vllm PR 54708: a 200 with only [DONE] counted as success."""
    injected(StreamErrorEvent(after_events=0))
    got, _ = ask(proxy)
    assert tokens(got) == []
    assert b"[DONE]" in got


def test_drop_done_drops_nothing_else(proxy: RunningProxy, injected: Any) -> None:
    undo = injected(StreamDropDone())
    got, ended = ask(proxy)
    assert (tokens(got), ended) == (ALL, "complete")
    assert b"[DONE]" not in got
    assert b'"finish_reason": "stop"' in got or b'"finish_reason":"stop"' in got
    injected(StreamDropDone(finish_reason=True))
    assert b"finish_reason" not in ask(proxy)[0]
    assert seen_by(StreamDropDone, undo).startswith("2 [DONE] events dropped")


@pytest.mark.slow
def test_split_utf8_cuts_characters_and_keeps_the_text(injected: Any) -> None:
    event = content_event("grüße").decode("unicode_escape").encode()
    assert b"\xc3\xbc" in event
    pieces = [*sse_response(0)[:1], b"%x\r\n%b\r\n" % (len(event), event), b"0\r\n\r\n"]
    with server(streaming(0, pieces=pieces)) as port, proxy_to(port) as proxy:
        proxy.add("sse_split", gap_ms=20)
        got, _ = ask(proxy)
        halves = [part for part in got.split(b"\r\n") if b"gr\xc3" in part or b"\xbc" in part]
        assert [b"gr\xc3" in halves[0], b"\xbc" in halves[1]] == [True, True]
        assert proxy.stats()["acted"] == 1


def test_text_without_such_characters_is_not_confirmed() -> None:
    toxic = {"attributes": StreamSplitUtf8().model_dump()}
    stats = {"chunks": 99, "events": 50, "streams": 5, "chosen": 5, "installed_s": 20.0}
    effect = StreamSplitUtf8.judge(toxic, stats)
    assert not effect.met
    assert "no content event had a character of several bytes" in effect.evidence


@pytest.mark.slow
def test_an_idle_stream_is_cut_as_by_a_balancer(injected: Any, proxy: RunningProxy) -> None:
    injected(StreamStall(after_events=2))
    undo = injected(StreamIdleCut(idle_ms=150))
    begin = time.monotonic()
    got, ended = ask(proxy)
    assert (ended, tokens(got)) == ("closed", ALL[:2])
    assert 0.15 <= time.monotonic() - begin < 3
    assert seen_by(StreamIdleCut, undo).startswith("1 of 1 connections cut")


def test_reject_answers_instead_of_the_server(proxy: RunningProxy, injected: Any) -> None:
    before = proxy.call("GET", "/proxies/target")[1]["stats"]["upstream_bytes"]
    undo = injected(StreamReject(status=429, retry_after_s=3, count=2, path="/v1/chat/*"))
    for _ in range(2):
        got, ended = ask(proxy)
        assert got.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert b"\r\nRetry-After: 3\r\n" in got
        assert json.loads(got.partition(b"\r\n\r\n")[2])["error"]["type"] == "rate_limit_error"
        assert ended == "complete"
    assert tokens(ask(proxy)[0]) == ALL
    assert seen_by(StreamReject, undo).startswith("2 requests rejected; 2 of 3 requests chosen")
    assert proxy.call("GET", "/proxies/target")[1]["stats"]["upstream_bytes"] > before


def test_a_rejected_connection_serves_the_next_request(proxy: RunningProxy, injected: Any) -> None:
    injected(StreamReject(count=1))
    with proxy.connect() as sock:
        sock.sendall(CHAT)
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1)
        receive(sock, int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0]))
        sock.sendall(CHAT)
        whole = b"".join(sse_response(TOKENS))
        assert receive(sock, len(whole)) == whole


def test_by_path_and_by_count(proxy: RunningProxy, injected: Any) -> None:
    injected(StreamDropDone(path="/v1/chat/*", count=1))
    other = CHAT.replace(b"/v1/chat/completions", b"/v1/completions?stream=1")
    assert b"[DONE]" in ask(proxy, other)[0]
    assert b"[DONE]" not in ask(proxy)[0]
    assert b"[DONE]" in ask(proxy)[0]


@pytest.mark.slow
def test_by_probability(proxy: RunningProxy, injected: Any) -> None:
    undo = injected(StreamDropDone(probability=0.5))
    kept = sum(b"[DONE]" in ask(proxy)[0] for _ in range(40))
    assert 8 <= kept <= 32
    assert f"{40 - kept} of 40 streams chosen" in seen_by(StreamDropDone, undo)


@pytest.mark.slow
def test_a_stream_open_at_the_injection_is_acted_on(injected: Any) -> None:
    """toxiproxy 148: connections open before were not acted on."""
    with server(streaming(200, gap_s=0.003)) as port, proxy_to(port) as proxy:
        result: list[tuple[bytes, str]] = []
        reader = threading.Thread(target=lambda: result.append(ask(proxy)))
        reader.start()
        while proxy.call("GET", "/proxies/target")[1]["stats"]["downstream_bytes"] < 1500:
            time.sleep(0.002)
        proxy.add("sse_truncate", after_events=4, ending="clean")
        reader.join()
        got, ended = result[0]
        assert ended == "complete"
        assert 4 < len(tokens(got)) < 200
        assert tokens(got) == [f"t{i} " for i in range(len(tokens(got)))]


@pytest.mark.slow
def test_stream_faults_compose_with_a_slow_thin_and_sliced_path(proxy: RunningProxy, injected: Any) -> None:
    """Events split over packets: the proxy's own slicer in front cuts them to pieces."""
    proxy.add("slicer", name="a", average_size=7, size_variation=3)
    proxy.add("latency", name="b", latency=5)
    injected(StreamDuplicate(at_event=1, events=None))
    injected(StreamDropDone())
    proxy.add("bandwidth", name="c", rate=200)
    try:
        got, ended = ask(proxy)
    finally:
        for name in "abc":
            proxy.remove(name)
    assert ended == "complete"
    assert tokens(got) == [token for token in ALL for _ in range(2)]
    assert b"[DONE]" not in got
