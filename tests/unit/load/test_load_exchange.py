"""Outcomes and stamps of one exchange, byte by byte; nothing here does I/O."""

from __future__ import annotations

import pytest

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.exchange import Exchange

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(*events: bytes) -> bytes:
    body = b"".join(b"data: %s\n\n" % e for e in events)
    return b"%x\r\n%s\r\n" % (len(body), body)


ROLE = b'{"choices":[{"delta":{"role":"assistant","content":""}}]}'
A = b'{"choices":[{"delta":{"content":"alpha"}}]}'
FINISH = b'{"choices":[{"delta":{},"finish_reason":"length"}]}'
USAGE = b'{"choices":[],"usage":{"completion_tokens":5}}'
DONE = b"[DONE]"
END = b"0\r\n\r\n"


class Wire:
    """An exchange fed with reads 10 ns apart, the first at 110."""

    def __init__(self, *, retry_silence: bool = False) -> None:
        self.record = RequestRecord(0, 100, fire_ns=100, sent_ns=100)
        self.resolutions = 0
        self.exchange = Exchange(self.record, self._count, retry_silence=retry_silence)
        self.now_ns = 100

    def _count(self) -> None:
        self.resolutions += 1

    def read(self, data: bytes, *, one_segment: bool = False) -> Wire:
        low_ns, self.now_ns = self.now_ns, self.now_ns + 10
        self.exchange.feed(data, self.now_ns, low_ns, one_segment=one_segment)
        return self

    def close(self) -> Wire:
        self.exchange.ended(self.now_ns + 5)
        return self


def test_a_good_stream_has_all_its_times() -> None:
    wire = (
        Wire().read(HEAD + chunk(ROLE)).read(chunk(A)).read(chunk(A)).read(chunk(FINISH, USAGE, DONE) + END)
    )
    record = wire.record
    assert (record.outcome, record.complete, wire.resolutions) == (Outcome.OK, True, 1)
    assert record.headers_ns == 110
    assert list(record.event_ns) == [120, 130]
    assert record.event_low_ns == record.event_ns
    assert (record.tokens, record.tokens_by_usage) == (5, True)
    assert (record.ttft_ns, record.e2e_ns) == (20, 40)
    assert wire.exchange.message_complete
    assert wire.exchange.keep_alive


def test_a_response_cut_at_any_byte_is_the_same_response() -> None:
    """aiperf PR 368: several events in one read are kept, marked, never mis-parsed."""
    response = HEAD + chunk(ROLE) + chunk(A, A) + chunk(A) + chunk(FINISH, USAGE, DONE) + END
    for cut in range(1, len(response)):
        wire = Wire().read(response[:cut]).read(response[cut:])
        record = wire.record
        assert (record.outcome, len(record.event_ns), record.tokens) == (Outcome.OK, 3, 5), cut
        assert wire.exchange.message_complete
    slowly = Wire()
    for byte in response:
        slowly.read(bytes([byte]))
    assert (slowly.record.outcome, len(slowly.record.event_ns)) == (Outcome.OK, 3)


def test_of_several_events_in_one_read_only_the_last_is_exact() -> None:
    wire = Wire().read(HEAD).read(chunk(A, A, A))
    assert list(wire.record.event_ns) == [120, 120, 120]
    assert list(wire.record.event_low_ns) == [110, 110, 120]


def test_events_that_came_in_one_segment_are_all_exact() -> None:
    wire = Wire().read(HEAD).read(chunk(A, A, A), one_segment=True)
    assert wire.record.event_low_ns == wire.record.event_ns


def test_an_event_followed_by_a_half_one_is_an_interval() -> None:
    whole = chunk(A, A)
    wire = Wire().read(HEAD).read(whole[:-20])
    assert list(wire.record.event_low_ns) == [110]
    assert list(wire.record.event_ns) == [120]


@pytest.mark.parametrize(
    ("response", "closes", "outcome"),
    [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", False, Outcome.HTTP),
        (b"HTTP/1.1 307 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", False, Outcome.HTTP),
        (HEAD + chunk(DONE) + END, False, Outcome.TRUNCATED),
        (HEAD + chunk(ROLE, FINISH, DONE) + END, False, Outcome.TRUNCATED),
        (HEAD + chunk(A, A) + END, False, Outcome.TRUNCATED),
        (HEAD + chunk(A, A), True, Outcome.TRUNCATED),
        (HEAD, True, Outcome.TRUNCATED),
        (b"", True, Outcome.TRUNCATED),
        (HEAD + chunk(A, b'{"error":{"message":"oom"}}', DONE) + END, False, Outcome.ERROR_EVENT),
        (HEAD + chunk(A, b"{broken"), False, Outcome.UNPARSEABLE),
        (b"SSH-2.0-OpenSSH\r\n", False, Outcome.UNPARSEABLE),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
            False,
            Outcome.UNPARSEABLE,
        ),
        (HEAD + chunk(A, FINISH) + END, False, Outcome.OK),
        (HEAD + chunk(A, FINISH), True, Outcome.OK),
        (HEAD + chunk(A, DONE), True, Outcome.OK),
    ],
)
def test_when_a_stream_counts_as_failed(response: bytes, closes: bool, outcome: Outcome) -> None:
    """vllm PR 54708 (only [DONE]), inference-perf 655 (clean close early), guidellm 743 (error in a 200)."""
    wire = Wire()
    if response:
        wire.read(response)
    if closes:
        wire.close()
    assert wire.record.outcome is outcome
    assert wire.resolutions == 1
    if outcome is Outcome.TRUNCATED and not wire.record.event_ns:
        assert wire.record.ttft_ns is None  # censored, never 0


def test_usage_chunk_after_the_finish_and_data_after_done() -> None:
    wire = Wire().read(HEAD + chunk(A, FINISH, USAGE, DONE)).read(chunk(A, b"{broken") + END)
    assert (wire.record.outcome, wire.record.tokens, len(wire.record.event_ns)) == (Outcome.OK, 5, 1)
    assert wire.exchange.message_complete


def test_tokens_after_done_are_not_counted() -> None:
    wire = Wire().read(HEAD + chunk(A)).read(chunk(A)).read(chunk(A, DONE)).read(chunk(A)).read(chunk(A))
    assert (wire.record.outcome, wire.record.tokens, len(wire.record.event_ns)) == (Outcome.OK, 3, 3)


def test_identity_body_that_ends_with_the_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    body = b"data: %s\n\ndata: %s\n\n" % (A, FINISH)
    wire = Wire().read(head + body)
    assert not wire.exchange.resolved
    assert wire.close().record.outcome is Outcome.OK


def test_done_without_its_blank_line_ends_the_stream() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    wire = Wire().read(head + b"data: %s\n\ndata: [DONE]" % A).close()
    assert (wire.record.outcome, wire.record.saw_done) == (Outcome.OK, True)


def test_an_event_cut_by_the_close_is_truncated_and_not_unparseable() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    assert Wire().read(head + b'data: %s\n\ndata: {"cho' % A).close().record.outcome is Outcome.TRUNCATED


def test_a_100_continue_is_not_the_response() -> None:
    wire = Wire().read(b"HTTP/1.1 100 Continue\r\n\r\n").read(HEAD + chunk(A, DONE) + END)
    assert (wire.record.outcome, wire.record.status) == (Outcome.OK, 200)


def test_silence_on_a_reused_connection_is_stale_and_not_a_failure() -> None:
    wire = Wire(retry_silence=True).close()
    assert wire.exchange.stale
    assert wire.record.end_ns is None
    heard = Wire(retry_silence=True).read(HEAD).close()
    assert not heard.exchange.stale
    assert heard.record.outcome is Outcome.TRUNCATED


def test_events_without_usage_are_counted() -> None:
    """sglang 24254: the length is what came, not max_tokens."""
    record = Wire().read(HEAD + chunk(A) + chunk(A, DONE) + END).record
    assert (record.tokens, record.tokens_by_usage) == (2, False)
