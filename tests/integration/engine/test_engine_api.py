"""The engine's HTTP API over real sockets, also with the official openai client."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import openai
import pytest
from engine_process import MESSAGES, RunningEngine, events, running_engine


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with running_engine() as started:
        yield started


@pytest.fixture
def client(engine: RunningEngine) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=engine.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


def wait_for(engine: RunningEngine, name: str, value: float, timeout_s: float = 5) -> None:
    deadline = time.monotonic() + timeout_s
    while engine.metric(name) != value:
        assert time.monotonic() < deadline, f"{name} is {engine.metric(name)}, not {value}"
        time.sleep(0.02)


@pytest.mark.slow
def test_openai_client_streams_with_usage(client: openai.OpenAI, engine: RunningEngine) -> None:
    stream = client.chat.completions.create(
        model=engine.model,
        messages=[{"role": "user", "content": "say something"}],
        max_tokens=12,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    contents = [c.choices[0].delta.content for c in chunks[1:] if c.choices and c.choices[0].delta.content]
    assert len(contents) == 12  # one token each
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (3, 12)
    assert len({c.id for c in chunks}) == 1


def test_openai_client_without_streaming(client: openai.OpenAI, engine: RunningEngine) -> None:
    answer = client.chat.completions.create(
        model=engine.model, messages=[{"role": "user", "content": "say something"}], max_tokens=5
    )
    assert answer.choices[0].message.content is not None
    assert len(answer.choices[0].message.content.split()) == 5
    assert answer.usage is not None
    assert answer.usage.total_tokens == 8
    plain = client.completions.create(model=engine.model, prompt="hello", max_tokens=3)
    assert (plain.object, plain.choices[0].finish_reason) == ("text_completion", "length")
    assert len(plain.choices[0].text.split()) == 3


def test_openai_client_lists_models_and_gets_typed_errors(
    client: openai.OpenAI, engine: RunningEngine
) -> None:
    assert [m.id for m in client.models.list()] == [engine.model]
    assert client.models.retrieve(engine.model).id == engine.model
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        client.completions.create(model=engine.model, prompt="x", max_tokens=10_000_000)


def test_the_stream_is_exactly_as_openai_sends_it(engine: RunningEngine) -> None:
    status, body = engine.post(stream=True, max_tokens=3)
    got = events(body)
    assert status == 200
    assert got[-1] == "[DONE]"
    assert got[0]["choices"][0] == {
        "index": 0,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }
    assert all(list(e["choices"][0]["delta"]) == ["content"] for e in got[1:4])
    assert got[4]["choices"][0]["delta"] == {}
    assert got[4]["choices"][0]["finish_reason"] == "length"
    assert all("usage" not in e for e in got[:-1])  # nobody asked for it
    assert len(got) == 6


def test_plain_completions_stream_text_without_a_role_chunk(engine: RunningEngine) -> None:
    _, body = engine.post(
        "/v1/completions", stream=True, max_tokens=2, stream_options={"include_usage": True}
    )
    got = events(body)
    assert [e["choices"][0]["text"] != "" for e in got[:3]] == [True, True, False]
    assert got[3]["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert got[4] == "[DONE]"


def test_the_same_request_gives_the_same_words(engine: RunningEngine) -> None:
    texts = {json.loads(engine.post(max_tokens=8)[1])["choices"][0]["message"]["content"] for _ in range(2)}
    other = json.loads(engine.post(max_tokens=8, seed=1)[1])["choices"][0]["message"]["content"]
    assert len(texts) == 1
    assert other not in texts


def test_a_stop_string_ends_the_text_before_it(engine: RunningEngine) -> None:
    whole = json.loads(engine.post(max_tokens=8)[1])["choices"][0]["message"]["content"]
    stop = whole[len(whole) // 2 :][:6]  # runs over a token's edge
    choice = json.loads(engine.post(max_tokens=8, stop=stop)[1])["choices"][0]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == whole[: whole.index(stop)]
    _, body = engine.post(max_tokens=8, stop=[stop], stream=True)
    deltas = [e["choices"][0]["delta"].get("content", "") for e in events(body)[:-1]]
    assert "".join(deltas) == whole[: whole.index(stop)]


@pytest.mark.slow
def test_without_a_limit_the_text_ends_of_itself(engine: RunningEngine) -> None:
    answer = json.loads(engine.post()[1])
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert 48 <= answer["usage"]["completion_tokens"] <= 240


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("GET", "/v1/chat/completions", 405), ("POST", "/v1/completions", 400)],
)
def test_errors_have_openais_shape_everywhere(
    engine: RunningEngine, method: str, path: str, status: int
) -> None:
    connection = HTTPConnection("127.0.0.1", engine.port, timeout=5)
    connection.request(method, path, b"{not json" if method == "POST" else None)
    answer = connection.getresponse()
    assert answer.status == status
    assert set(json.loads(answer.read())["error"]) == {"message", "type", "param", "code"}
    connection.close()


def test_a_body_too_long_is_413(engine: RunningEngine) -> None:
    connection = HTTPConnection("127.0.0.1", engine.port, timeout=10)
    connection.request("POST", "/v1/completions", b" " * (17 << 20))
    answer = connection.getresponse()
    assert answer.status == 413
    answer.read()
    connection.close()


@pytest.mark.slow
def test_a_client_that_goes_away_frees_its_slot_and_cache_at_once(engine: RunningEngine) -> None:
    cancelled = engine.metric("requests_cancelled_total")
    connection = engine.connect(stream=True, max_tokens=20_000)
    answer = connection.getresponse()
    answer.read(500)
    assert engine.metric("requests_running") == 1
    assert engine.metric("kv_blocks_used") > 0
    answer.close()
    connection.close()
    wait_for(engine, "requests_running", 0)
    assert engine.metric("kv_blocks_used") == 0
    assert engine.metric("requests_cancelled_total") == cancelled + 1


@pytest.mark.slow
def test_a_client_waiting_for_a_whole_answer_can_go_away_too(engine: RunningEngine) -> None:
    connection = engine.connect(max_tokens=20_000)
    wait_for(engine, "requests_running", 1)
    connection.close()
    wait_for(engine, "requests_running", 0)


@pytest.mark.slow
def test_a_client_that_does_not_read_is_left_out_of_the_batch_and_others_go_on(engine: RunningEngine) -> None:
    body = json.dumps({"model": engine.model, "messages": MESSAGES, "stream": True, "max_tokens": 100_000})
    with running_engine("--gpu", "mi300x", "--model", "llama-3.2-1b") as fast:
        request = body.replace(engine.model, fast.model).encode()
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(("127.0.0.1", fast.port))
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(request)}\r\n\r\n"
            lazy.sendall(head.encode() + request)
            wait_for(fast, "requests_lagging", 1, timeout_s=60)
            before = fast.metric("generated_tokens_total")
            assert fast.post(max_tokens=5)[0] == 200
            assert fast.metric("generated_tokens_total") == before + 5
        wait_for(fast, "requests_running", 0)


def test_health_and_metrics(engine: RunningEngine) -> None:
    assert json.loads(engine.get("/health")) == {"status": "ok"}
    page = engine.get("/metrics")
    for name in (
        "kv_usage_ratio",
        'step_seconds_total{part="embedding"}',
        "preemptions_total",
        "vgpu_sm_clock_mhz",
    ):
        assert f"chaosflow_engine_{name} " in page


def test_a_port_in_use_is_one_clear_line_and_exit_2(engine: RunningEngine) -> None:
    command = [sys.executable, "-m", "chaosflow.engine", "--port", str(engine.port)]
    done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"Address already in use" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpu", "h2000"], "did you mean 'h200'"),
        (["--model", "llama-3.1-8"], "did you mean 'llama-3.1-8b'"),
        (["--gpu", "l4", "--model", "llama-3.3-70b"], "does not fit"),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: list[str], words: str) -> None:
    command = [sys.executable, "-m", "chaosflow.engine", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    assert done.returncode == 2
    assert words in done.stderr.decode()


def test_the_control_socket_serves_the_same_and_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with running_engine("--control-socket", str(path), "--served-model-name", "mine") as engine:
        assert engine.model == "mine"
        with socket.socket(socket.AF_UNIX) as unix:
            unix.connect(str(path))
            unix.sendall(b"GET /v1/models HTTP/1.0\r\nHost: x\r\n\r\n")
            answer = b"".join(iter(lambda: unix.recv(65536), b""))
        assert b'"id":"mine"' in answer
        engine.process.terminate()
        assert engine.process.wait(10) == 0
    assert not path.exists()
