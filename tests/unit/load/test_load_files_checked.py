"""Files named under ``load``: each bad one is a problem with its place, before anything is touched."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from chaosflow.core.errors import ScenarioError, UsageError
from chaosflow.core.tracefile import lines_of, parse_trace, read_text, read_trace
from chaosflow.load.content import parse_prompts
from chaosflow.orchestrator.prepare import prepare

ROW = '{"timestamp": 0, "input_length": 10, "output_length": 5}\n'
SCENARIO = """\
version: 1
name: files
target: {engine: {backend: sim}}
load:
  arrival: {kind: KIND}
  FIELD
phases: {baseline: 30s}
sla: {objectives: [error_rate <= 50%]}
"""


def problems(tmp_path: Path, field: str, kind: str = "poisson, rate_per_s: 10") -> list[str]:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO.replace("KIND", kind).replace("FIELD", field))
    try:
        prepare(path)
    except ScenarioError as e:
        return [str(p).removeprefix(f"{path}:") for p in e.problems]
    return []


def test_a_missing_file_is_found_by_validate_with_line_and_column(tmp_path: Path) -> None:
    kind = f"trace, file: {tmp_path}/no.jsonl"
    (problem,) = problems(tmp_path, "max_tokens: 5", kind)
    assert problem.startswith(f"5:32: {tmp_path}/no.jsonl: No such file or directory; paths count from ")
    for field in ("prompts_file", "tokenizer"):
        (problem,) = problems(tmp_path, f"{field}: {tmp_path}/no.json")
        assert problem.startswith(f"6:{len(field) + 5}: {tmp_path}/no.json: No such file"), problem


def test_what_a_file_holds_is_looked_at_too(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"prompt": 3}\n')
    (problem,) = problems(tmp_path, f"prompts_file: {bad}")
    assert problem.startswith("6:17: bad.json, line 1: give either 'prompt'")
    (problem,) = problems(tmp_path, "max_requests: 9", f"trace, file: {bad}")
    assert problem.startswith(f"5:32: {bad}: line 1: 'input_length' is missing")


def test_a_trace_of_one_moment_cannot_repeat(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(ROW * 3)
    (problem,) = problems(tmp_path, "workers: 1", f"trace, repeat: true, file: {path}")
    assert "all its requests come at one moment" in problem
    assert problems(tmp_path, "workers: 1", f"trace, file: {path}") == []


@pytest.mark.parametrize(("content", "found"), [("class:", True), ("x = 1\n", False)])
def test_a_locustfile_is_compiled_and_not_run(tmp_path: Path, content: str, found: bool) -> None:
    path = tmp_path / "locustfile.py"
    path.write_text(content)
    told = problems(tmp_path, f"locustfile: {path}", "closed, users: 1")
    assert bool(told) is found
    if told:
        assert "SyntaxError" in told[0]


def test_pipes_and_devices_are_refused_instead_of_read_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(UsageError, match="not a regular file"):
            read_text(str(path))


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(ROW.encode())[:-9],
        gzip.compress(ROW.encode())[:10] + b"garbage",
        b"\x1f\x8b",
        ROW.encode("utf-16"),
        b"\x00\xff",
        b"",
    ],
    ids=["cut", "garbled", "only the magic", "utf-16", "binary", "empty"],
)
def test_a_broken_file_is_a_usage_error_whatever_is_broken(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trace"
    path.write_bytes(data)
    with pytest.raises(UsageError):
        read_trace(str(path))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}', "no time"),
        ('{"timestamp": Infinity, "input_length": 1, "output_length": 1}', "no time"),
        ('{"timestamp": 1e999, "input_length": 1, "output_length": 1}', "no time"),
        ('{"timestamp": 1e300, "input_length": 1, "output_length": 1}', "30 years"),
        ('{"timestamp": 1, "input_length": -1, "output_length": 1}', "not within"),
        ('{"timestamp": 1, "input_length": 1e300, "output_length": 1}', "not within"),
        ('{"timestamp": 1, "input_length": NaN, "output_length": 1}', "line 2"),
        ('{"timestamp": 1, "input_length": 1, "output_length": [[1]]}', "line 2"),
        ('{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 5}', "line 2"),
        ("[1]", "line 2"),
        ("[" * 100_000, "line 2"),
        ("\0", "line 2"),
    ],
)
def test_a_bad_row_of_a_trace_is_named(row: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_trace(ROW + row + "\n", "t")


@pytest.mark.parametrize(
    "rows",
    [
        "2023-11-16 18:15:46,374,-1",
        "NaN,1,1",
        "2023-11-16 18:15:46,1",
        "2023-11-16 18:15:46,1," + "9" * 200_000,
        '"' + "x" * 200_000,
        "9999-99-99 00:00:00,1,1",
    ],
    ids=["negative", "no time", "a field short", "huge number", "open quote", "no such day"],
)
def test_a_bad_row_of_a_csv_trace_is_named(rows: str) -> None:
    with pytest.raises(UsageError):
        parse_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows, "t")


def test_unsorted_negative_and_crlf_rows_with_a_byte_order_mark_are_read(tmp_path: Path) -> None:
    rows = [(2000, 5), (-1000, 6), (0, 7)]
    text = "\r\n".join(f'{{"timestamp": {t}, "input_length": {n}, "output_length": 1}}' for t, n in rows)
    path = tmp_path / "trace.jsonl"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))  # gzip by content, not by name
    assert [(r.at_s, r.prompt_tokens) for r in read_trace(str(path))] == [(0, 6), (1, 7), (3, 5)]


def test_a_large_trace_is_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(ROW * 100_000)
    assert len(read_trace(str(path))) == 100_000


def test_line_separators_inside_a_prompt_are_no_line_ends() -> None:
    """Of the kind of sglang's and guidellm's broken lines: U+2028, U+0085 and form feeds are text."""
    prompts = parse_prompts('\ufeff{"prompt": "a\u2028b\u0085c"}\r\n\r\n{"prompt": "d"}', "p")
    assert [p.prompt for p in prompts] == ["a\u2028b\u0085c", "d"]
    assert lines_of("a\rb\r\nc\nd") == ["a", "b", "c", "d"]


def test_a_hundred_thousand_prompts_are_read() -> None:
    assert len(parse_prompts('{"prompt": "tell me"}\n' * 100_000, "p")) == 100_000


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ("workers: 1", "closed, users: 0", "users"),
        ("workers: 1", "poisson, rate_per_s: 1e6", "rate_per_s"),
        ("max_in_flight: 10", "closed, users: 11", "more than max_in_flight"),
        ("unix_socket: /" + "x" * 108, "poisson, rate_per_s: 1", "unix_socket"),
        ("unix_socket: ''", "poisson, rate_per_s: 1", "unix_socket"),
    ],
)
def test_what_can_never_work_is_refused_beforehand(tmp_path: Path, fields: str, kind: str, said: str) -> None:
    assert said in "\n".join(problems(tmp_path, fields, kind))
