"""Stop strings, outlets, request parsing, chunks, words."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaosflow.engine.dispatch.ask import ApiError, Ask, Limits, count_tokens, parse
from chaosflow.engine.dispatch.outlet import Outlet
from chaosflow.engine.dispatch.stop import StopFilter
from chaosflow.engine.dispatch.wire import Wire
from chaosflow.engine.infer.words import natural_length, word

LIMITS = Limits("m", context_tokens=100)


def ask(chat: bool = True, **fields: Any) -> Ask:
    prompt = {"messages": [{"role": "user", "content": "hello there"}]} if chat else {"prompt": "hello there"}
    return parse(json.dumps({"model": "m", **prompt, **fields}).encode(), LIMITS, chat=chat)


@given(
    st.text("abc", max_size=30),
    st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3),
    st.data(),
)
def test_a_stop_string_is_found_however_the_text_is_cut(
    text: str, stops: list[str], data: st.DataObject
) -> None:
    found = StopFilter(tuple(stops))
    shown, rest = "", text
    while rest and not found.met:
        cut = data.draw(st.integers(1, len(rest)))
        shown += found.feed(rest[:cut])
        rest = rest[cut:]
    if found.met:
        assert not any(stop in shown for stop in stops)
        assert text.startswith(shown)
        assert any(stop in text for stop in stops)
    else:
        assert shown + found.rest() == text
        assert not any(stop in text for stop in stops)


def test_an_outlet_is_bounded_and_says_when_there_is_room() -> None:
    async def go() -> None:
        outlet = Outlet(limit=2)
        rooms: list[int] = []
        outlet.on_room = lambda: rooms.append(1)
        outlet.push(" a")
        first = outlet.full
        outlet.push(" b")
        assert (first, outlet.full) == (False, True)
        assert await outlet.read() == ["a", " b"]
        assert rooms == [1]
        outlet.finish("length")
        assert await outlet.read() == []

    asyncio.run(go())


def test_a_reader_waits_for_the_next_token() -> None:
    async def go() -> None:
        outlet = Outlet()
        reading = asyncio.create_task(outlet.read())
        await asyncio.sleep(0)
        outlet.push(" a")
        assert await reading == ["a"]

    asyncio.run(go())


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"model": "other"}, 404, "does not exist"),
        ({"model": None}, 400, "model"),
        ({"n": 2}, 400, "only 1"),
        ({"messages": []}, 400, "at least one"),
        ({"messages": [{"content": "x"}]}, 400, "role"),
        ({"messages": [{"role": "user", "content": 3}]}, 400, "string or a list"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": "5"}, 400, "max_tokens"),
        ({"max_tokens": True}, 400, "max_tokens"),
        ({"max_tokens": 101}, 400, "maximum context length is 100"),
        ({"stream": "yes"}, 400, "stream"),
        ({"stream_options": {"include_usage": True}}, 400, "only allowed with stream"),
        ({"stop": [""]}, 400, "stop"),
        ({"seed": "x"}, 400, "seed"),
    ],
)
def test_a_bad_request_is_refused_in_openais_shape(fields: dict[str, Any], status: int, words: str) -> None:
    with pytest.raises(ApiError, match=words) as caught:
        ask(**fields)
    assert caught.value.status == status
    error = json.loads(caught.value.body())["error"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff"])
def test_a_body_that_is_no_json_object_is_400(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse(body, LIMITS, chat=True)
    assert caught.value.status == 400


def test_what_clients_send_beyond_the_known_is_tolerated() -> None:
    asked = ask(
        max_completion_tokens=5, max_tokens=9, ignore_eos=True, temperature=0, top_k=3, weird={"a": 1}
    )
    assert (asked.max_tokens, asked.may_end) == (5, False)
    assert ask(chat=False).max_tokens == 16
    assert ask(chat=False, prompt=[1, 2, 3]).prompt_tokens == 3
    content = [{"type": "text", "text": "one two"}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert ask(messages=[{"role": "user", "content": content}]).prompt_tokens == 2


def test_prompt_tokens_by_the_documented_rule() -> None:
    assert count_tokens("one two  three\n") == 3
    assert count_tokens("internationalization") == 3
    assert count_tokens("") == 0


def test_chunks_survive_any_text_and_model_name() -> None:
    wire = Wire(ask(stream=True, stream_options={"include_usage": True}), 'm"\\ü')
    for text in ('"', "\\", "\n\n", "\u2028\x85", "é😀", "\x00"):
        line = wire.content(text)
        assert line.startswith(b"data: ")
        assert line.endswith(b"\n\n")
        assert line.count(b"\n") == 2
        chunk = json.loads(line[6:])
        assert chunk["choices"][0] == {
            "index": 0,
            "delta": {"content": text},
            "logprobs": None,
            "finish_reason": None,
        }
        assert chunk["usage"] is None
        assert chunk["model"] == 'm"\\ü'


def test_words_are_a_function_of_the_seed() -> None:
    said = [word(7, i).text for i in range(20)]
    assert said == [word(7, i).text for i in range(20)]
    assert said != [word(8, i).text for i in range(20)]
    assert len(set(said)) > 10
    assert 48 <= natural_length(7) <= 240
