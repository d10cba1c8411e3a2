"""Recorded streams of real servers, cut anywhere and damaged in every way (streams/README.md says how recorded)."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path

import pytest

from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.exchange import Exchange

FOLDER = Path(__file__).with_name("streams")
STREAMS = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.http"))}
TOKENS = 6
SERVERS = {"llamacpp", "vllm", "transformers", "engine"}
Seen = tuple[Outcome, int, int, int, str, bool, int, str]


def play(*chunks: bytes, closes: bool = True) -> RequestRecord:
    record = RequestRecord(0, 100, fire_ns=100, sent_ns=100)
    exchange = Exchange(record, lambda: None, keep_text=True)
    now_ns = 100
    for chunk in chunks:
        if exchange.resolved:
            break
        exchange.feed(chunk, now_ns + 10, now_ns, one_segment=False)
        now_ns += 10
    if closes:
        exchange.ended(now_ns + 5)
    assert exchange.resolved
    record.counted_tokens = None
    record.error = record.error or exchange.text
    return record


def seen(record: RequestRecord) -> Seen:
    return (
        record.outcome,
        record.status,
        len(record.event_ns),
        record.tokens,
        record.finish_reason,
        record.saw_done,
        record.text_bytes,
        record.error,
    )


def test_every_server_was_recorded() -> None:
    assert {name.partition("_")[0] for name in STREAMS} == SERVERS


@pytest.mark.parametrize("name", STREAMS)
def test_a_whole_stream_is_understood(name: str) -> None:
    """vllm 27485, sglang 5451: role, usage and finish chunks are no tokens; transformers serve sends no [DONE]."""
    record = play(STREAMS[name])
    assert (record.outcome, record.complete, record.missing) == (Outcome.OK, True, "")
    assert record.tokens == TOKENS
    assert record.tokens_by_usage
    assert 1 <= len(record.event_ns) <= TOKENS
    assert record.saw_done == (not name.startswith("transformers"))
    assert record.finish_reason in ("length", "stop")


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.slow
def test_a_stream_cut_at_every_byte_gives_identical_events(name: str) -> None:
    stream = STREAMS[name]
    whole = seen(play(stream))
    for cut in range(1, len(stream)):
        assert seen(play(stream[:cut], stream[cut:])) == whole, cut
    assert seen(play(*(stream[i : i + 1] for i in range(len(stream))))) == whole


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.slow
def test_a_stream_that_ends_early_is_never_a_success_without_its_end(name: str) -> None:
    """inference-perf 655: some of the tokens and a clean close counted as success."""
    stream = STREAMS[name]
    for length in range(len(stream)):
        record = play(stream[:length]) if length else play(b"", closes=True)
        if record.outcome is Outcome.OK:
            assert record.saw_done or record.finish_reason, length
        else:
            assert record.outcome is Outcome.TRUNCATED, (length, record.error)


def damaged(rng: random.Random) -> bytes:
    """One stream with a few wounds."""
    stream = bytearray(rng.choice(list(STREAMS.values())))
    for _ in range(rng.randint(1, 4)):
        begin = rng.randrange(len(stream) + 1)
        end = min(len(stream), begin + rng.choice((1, 2, 7, 40, 300)))
        match rng.randrange(7):
            case 0:
                stream[begin:end] = rng.randbytes(end - begin)
            case 1:
                del stream[begin:end]
            case 2:
                stream[begin:begin] = stream[begin:end] * rng.randint(1, 3)
            case 3:
                stream[begin:begin] = rng.choice(
                    (
                        b"\r",
                        b"\n\n",
                        b"\0",
                        b"\xff",
                        b"data: ",
                        b"data: [DONE]\n\n",
                        b"0\r\n\r\n",
                        b'"',
                        b"}",
                        b": x",
                    )
                )
            case 4:
                other = rng.choice(list(STREAMS.values()))
                at = rng.randrange(len(other))
                stream[begin:end] = other[at : at + rng.randrange(400)]
            case 5:
                del stream[begin:]
            case _:
                if begin < len(stream):
                    stream[begin] ^= 1 << rng.randrange(8)
    return bytes(stream)


def cut(stream: bytes, rng: random.Random) -> list[bytes]:
    places = sorted({0, len(stream), *(rng.randrange(len(stream) + 1) for _ in range(rng.randrange(5)))})
    return [stream[a:b] for a, b in itertools.pairwise(places) if b > a]


def fuzz(count: int, seed: int) -> None:
    rng = random.Random(seed)
    outcomes = set()
    for number in range(count):
        stream = damaged(rng)
        record = play(*cut(stream, rng))
        outcomes.add(record.outcome)
        assert isinstance(record.outcome, Outcome), number
        assert record.end_ns is not None
        assert record.outcome is not Outcome.OK or record.event_ns, number
        assert record.outcome is not Outcome.CANCELLED
        assert list(record.event_ns) == sorted(record.event_ns)
    assert {Outcome.OK, Outcome.TRUNCATED, Outcome.UNPARSEABLE} <= outcomes


@pytest.mark.slow
def test_ten_thousand_damaged_streams_never_raise_but_are_classified() -> None:
    fuzz(10_000, int(os.environ.get("CHAOSFLOW_FUZZ_SEED", "1")))


@pytest.mark.soak
def test_a_hundred_thousand_damaged_streams_never_raise_but_are_classified() -> None:
    fuzz(100_000, int(os.environ.get("CHAOSFLOW_FUZZ_SEED", "2")))
