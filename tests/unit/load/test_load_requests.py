"""Request j: its lengths, its words, its fields; the same for one j always."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest
from load_build import order

from chaosflow.core.errors import UsageError
from chaosflow.core.loadplan import LognormalLength, NormalLength, UniformLength
from chaosflow.load.arrivals import Planned, request_of_user
from chaosflow.load.content import Writer, draw, parse_prompts
from chaosflow.load.requests import RequestMaker


def body_of(wire: bytes) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(wire.partition(b"\r\n\r\n")[2])
    return body


def prompt_of(maker: RequestMaker, planned: Planned) -> str:
    messages = body_of(maker.make(planned).wire)["messages"]
    return str(messages[-1]["content"])


def test_the_prompt_depends_on_seed_and_index_alone() -> None:
    maker = RequestMaker(order(prompt_tokens=40))
    assert prompt_of(maker, Planned(2)) == prompt_of(RequestMaker(order(prompt_tokens=40)), Planned(2))
    assert prompt_of(maker, Planned(2)) != prompt_of(maker, Planned(3))
    assert len(prompt_of(maker, Planned(2)).split()) == 40


def test_body_and_head_of_a_chat_request() -> None:
    maker = RequestMaker(
        order(headers={"x-team": "a", "content-type": "application/json; v=2"}, extra_body={"seed": 5}),
        api_key="sekret",
    )
    head, _, body = maker.make(Planned(4)).wire.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nHost: example.test:8000\r\n")
    assert b"Authorization: Bearer sekret" in head
    assert b"x-team: a" in head
    assert b"Accept-Encoding: identity" in head
    assert head.lower().count(b"content-type") == 1
    assert b"Content-Length: %d" % len(body) in head
    for part in (b'"stream":true', b'"seed":5', b'"include_usage":true', b'"max_tokens":64'):
        assert part in body
    completions = RequestMaker(order(endpoint="completions")).make(Planned(4)).wire
    assert b"POST /v1/completions" in completions
    assert b'"prompt":"' in completions


def test_a_header_or_key_with_a_line_end_is_refused() -> None:
    with pytest.raises(ValueError, match="one line"):
        order(headers={"x": "a\r\nHost: other"})
    with pytest.raises(UsageError, match="line end"):
        RequestMaker(order(), "key\r\nHost: other")


def test_ignore_eos_is_asked_for_and_owed() -> None:
    request = RequestMaker(order(ignore_eos=True, output_tokens=9)).make(Planned(0))
    assert (body_of(request.wire)["ignore_eos"], request.asked_tokens) == (True, 9)
    assert RequestMaker(order(extra_body={"ignore_eos": True})).make(Planned(0)).asked_tokens == 64
    assert RequestMaker(order()).make(Planned(0)).asked_tokens == 0


@pytest.mark.parametrize(
    ("length", "mean", "sd"),
    [
        (UniformLength(kind="uniform", min=50, max=150), 100, 29),
        (NormalLength(kind="normal", mean=200, sd=30), 200, 30),
        (LognormalLength(kind="lognormal", mean=200, sd=150), 200, 150),
    ],
)
def test_lengths_have_the_distribution_asked_for(length: Any, mean: float, sd: float) -> None:
    rng = random.Random(1)
    drawn = [draw(length, rng) for _ in range(40_000)]
    found = sum(drawn) / len(drawn)
    assert found == pytest.approx(mean, rel=0.03)
    assert (sum((d - found) ** 2 for d in drawn) / len(drawn)) ** 0.5 == pytest.approx(sd, rel=0.06)
    assert length.mean_tokens == mean


def test_lengths_stay_within_their_bounds() -> None:
    rng = random.Random(1)
    length = NormalLength(kind="normal", mean=10, sd=30, min=4, max=20)
    assert {min(20, max(4, d)) - d for d in (draw(length, rng) for _ in range(2000))} == {0}


def test_drawn_lengths_belong_to_j() -> None:
    spread = {"kind": "uniform", "min": 1, "max": 400}
    makers = [RequestMaker(order(prompt_tokens=spread, output_tokens=spread, workers=w)) for w in (1, 3)]
    bodies = [[maker.make(Planned(j)).wire for j in range(20)] for maker in makers]
    assert bodies[0] == bodies[1]
    assert len({body_of(wire)["max_tokens"] for wire in bodies[0]}) > 10


def test_turns_of_a_session_share_their_prefix() -> None:
    made = order(
        {"kind": "closed", "users": 2}, sessions={"turns": 3}, prompt_tokens=8, shared_prefix_tokens=30
    )
    maker = RequestMaker(made)
    turns = [body_of(maker.make(request_of_user(made.plan, 0, k)).wire)["messages"] for k in range(3)]
    assert [m["role"] for m in turns[2]] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert turns[1][: len(turns[0])] == turns[0]
    assert turns[2][: len(turns[1])] == turns[1]
    other = body_of(maker.make(request_of_user(made.plan, 1, 0)).wire)["messages"]
    assert other[0] == turns[0][0], "the system prompt is the same for all"
    assert other[1] != turns[0][1]


def test_equal_blocks_of_a_mooncake_trace_are_equal_text() -> None:
    rows = [
        {"timestamp": 0, "input_length": 1100, "output_length": 3, "hash_ids": [1, 2, 3]},
        {"timestamp": 10, "input_length": 600, "output_length": 4, "hash_ids": [1, 9]},
        {"timestamp": 20, "input_length": 5, "output_length": 9, "text_input": "as it stands"},
    ]
    files = {"t.jsonl": "\n".join(map(json.dumps, rows))}
    maker = RequestMaker(order({"kind": "trace", "file": "t.jsonl", "max_output_tokens": 8}, files))
    words = [prompt_of(maker, Planned(j, row=j)).split() for j in range(2)]
    assert [len(w) for w in words] == [1100, 600]
    assert words[0][:512] == words[1][:512]
    assert words[0][512:600] != words[1][512:]
    assert prompt_of(maker, Planned(2, row=2)) == "as it stands"
    assert [maker.sizes.turn(Planned(j, row=j)).output for j in range(3)] == [3, 4, 8]


def test_the_users_own_prompts_are_used_in_turn() -> None:
    lines = [
        {"prompt": "first", "output_tokens": 5, "deadline_s": 2.5},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]},
    ]
    files = {"p.jsonl": "\n".join(map(json.dumps, lines)) + "\n\n"}
    maker = RequestMaker(order(files=files, prompts_file="p.jsonl"))
    requests = [maker.make(Planned(j)) for j in range(3)]
    assert [body_of(r.wire)["messages"][-1]["content"] for r in requests] == ["first", "u", "first"]
    assert [r.deadline_s for r in requests] == [2.5, None, 2.5]
    assert [body_of(r.wire)["max_tokens"] for r in requests] == [5, 64, 5]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no prompt"),
        ('{"prompt": "a"}\n{"promt": "b"}', "line 2.*unknown key 'promt'"),
        ('{"prompt": "a", "messages": []}', "either 'prompt'"),
        ("[1]", "line 1"),
        ("{", "line 1"),
        ('{"prompt": "a", "output_tokens": 0}', "output_tokens"),
    ],
)
def test_a_bad_prompts_file_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_prompts(text, "p.jsonl")


def test_files_that_are_not_there_are_named() -> None:
    for fields in ({"prompts_file": "/nowhere/p"}, {"tokenizer": "/nowhere/t"}):
        with pytest.raises(UsageError, match=r"/nowhere/[pt]: No such file"):
            RequestMaker(order(**fields))
    with pytest.raises(UsageError, match=r"/nowhere/x"):
        RequestMaker(order({"kind": "trace", "file": "/nowhere/x"}))


def test_a_share_of_the_requests_is_aborted_always_the_same_ones() -> None:
    maker = RequestMaker(order(aborts={"share": "20%"}, output_tokens=50, prompt_tokens=1))
    aborts = [maker.make(Planned(j)).abort_after_tokens for j in range(2000)]
    assert aborts == [maker.make(Planned(j)).abort_after_tokens for j in range(2000)]
    chosen = [a for a in aborts if a]
    assert len(chosen) == pytest.approx(400, rel=0.2)
    assert min(chosen) >= 1
    assert max(chosen) < 50
    timed = RequestMaker(order(aborts={"share": 1, "after": "2s"})).make(Planned(0))
    assert (timed.abort_after_tokens, timed.abort_after_s) == (0, 2.0)


def test_with_a_tokenizer_prompts_have_exactly_so_many_tokens() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    corpus = [Writer().text(random.Random(n), 200) for n in range(30)]
    tokenizer.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=600, show_progress=False))
    writer = Writer(tokenizer.to_str())
    for tokens in (1, 7, 256):
        assert writer.count(writer.text(random.Random(tokens), tokens)) == tokens
    with pytest.raises(UsageError, match="not a tokenizer"):
        Writer("{}", "t.json")
