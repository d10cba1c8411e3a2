"""Recorded traffic in its published formats."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from chaosflow.core.arrival import TraceArrival
from chaosflow.core.errors import UsageError
from chaosflow.core.tracefile import TraceRow, parse_trace, read_trace

MOONCAKE = """{"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
{"timestamp": 2000, "input_length": 10, "output_length": 0, "hash_ids": [0]}
"""
AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""
AZURE_2025 = """TIMESTAMP,NumImages,ContextTokens,GeneratedTokens
2024-10-15 00:00:00.5,1,100,5
"""


def test_mooncake_rows_by_time_from_zero() -> None:
    assert parse_trace(MOONCAKE, "t") == (
        TraceRow(0.0, 10, 1, (0,)),
        TraceRow(1.0, 6758, 500, (0, 1, 2)),
    )


@pytest.mark.parametrize(
    ("text", "span_s", "lengths"),
    [
        (AZURE_2023, 4.314579, [(374, 44), (396, 109)]),
        (AZURE_2024, 0.99007, [(2162, 5), (2399, 6)]),
        (AZURE_2025, 0.0, [(100, 5)]),
        ("\ufeff" + AZURE_2023.replace("\n", "\r\n"), 4.314579, [(374, 44), (396, 109)]),
    ],
)
def test_azure_rows(text: str, span_s: float, lengths: list[tuple[int, int]]) -> None:
    """dynamo PR 3289: a time-zone mix-up; every stamp is read in one zone."""
    rows = parse_trace(text, "t")
    assert rows[-1].at_s == pytest.approx(span_s, abs=1e-6)
    assert [(r.prompt_tokens, r.output_tokens) for r in rows] == lengths


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column timestamp"),
        ('{"timestamp": 1, "output_length": 3}', "line 1: 'input_length' is missing"),
        ('{"timestamp": 1,\n', "line 1"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,2\n", "line 2"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "holds no request"),
        ("time,in,out\n1,2,3\n", "no column"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_trace(text, "trace.x")


def test_a_packed_trace_and_its_mean_rate(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(AZURE_2023.encode()))
    assert len(read_trace(str(path))) == 2
    arrival = TraceArrival(kind="trace", file=str(path), speed=2)
    assert arrival.rate_per_s == pytest.approx(2 * 2 / 4.314579)
    with pytest.raises(UsageError, match="no-such: No such file"):
        read_trace(str(tmp_path / "no-such"))
