"""``chaosflow plan`` on terminals of every usual width."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = """\
version: 1
name: narrow
target: {engine: {backend: sim, gpu: h200}}
load: {arrival: {kind: poisson, rate_per_s: 20}, output_tokens: 24}
phases: {warmup: 1s, baseline: 10s, recovery: 5s}
faults: [{name: jitter, type: proxy.latency, duration: 9s, params: {delay_ms: 30}}]
sla:
  objectives: [ttft.p99.9 <= 1s, gap.p99 <= 200ms, ttft.p99 <= 1.5x baseline, throughput.drift within 15%]
"""


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["80", "120"])
def test_no_segment_is_broken_and_no_line_is_wider_than_the_terminal(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "narrow.yaml"
    path.write_text(SCENARIO)
    done = subprocess.run(
        [sys.executable, "-m", "chaosflow", "plan", str(path)],
        capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"COLUMNS": columns},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= int(columns)
    segments = [line.split()[0] for line in lines if line.endswith((" no", " weak", " yes"))]
    assert set(segments) == {"baseline", "jitter", "jitter.recovery"}
    assert segments.count("jitter.recovery") == 4
    assert "e+" not in done.stdout
    told = " ".join(done.stdout.split())
    assert "baseline: 15 s instead of 10 s, or 1.5 times the load, to fix the limit" in told
