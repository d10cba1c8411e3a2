"""AIPerf and ChaosFlow against the truth server, one after the other (started by rivals.sh).

    rivals.py AIPERF [STREAMS …]

Shown: what each reports, minus what the server recorded; CPU seconds of all its processes. AIPerf's "inter-token latency"
is an average per request, so its P99 cannot show a stall within a stream: it is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fidelity_rig import HERE, build, chaosflow, closed, mean, quantile, stats, truth_server

ROUNDS, TTFT_MS, GAP_MS, TOKENS = 12, 50, 10, 64

sys.path.insert(0, str(HERE.parent / "tests" / "targets"))
from tiny_model import make_tiny_model  # noqa: E402


def aiperf(
    program: str, tokenizer: Path, port: int, streams: int, folder: Path
) -> tuple[float, float, float]:
    """(mean, P99 of its TTFT in ms, CPU seconds)."""
    command = [
        program, "profile", "--model", "tiny", "--tokenizer", str(tokenizer), "--url", f"http://127.0.0.1:{port}",
        "--endpoint-type", "chat", "--streaming", "--concurrency", str(streams),
        "--request-count", str(streams * ROUNDS), "--synthetic-input-tokens-mean", "8",
        "--output-tokens-mean", str(TOKENS), "--ui", "none", "--artifact-dir", str(folder),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    (report,) = folder.rglob("profile_export_aiperf.json")
    ttft = json.loads(report.read_text())["time_to_first_token"]
    assert ttft["count"] == streams * ROUNDS, ttft
    return ttft["avg"], ttft["p99"], used.ru_utime + used.ru_stime


def main(program: str, all_streams: list[int]) -> None:
    print(f"{'streams':>7}  {'tool':<12}{'TTFT mean error':>16}{'TTFT P99 error':>16}{'CPU s':>8}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binary, model = build(folder), make_tiny_model(folder / "model")
        for streams in all_streams:
            for tool in ("AIPerf", "chaosflow"):
                with truth_server(binary, TTFT_MS, GAP_MS, TOKENS) as port:
                    if tool == "AIPerf":
                        average, p99, cpu = aiperf(
                            program, model.folder, port, streams, folder / f"a{streams}"
                        )
                    else:
                        found = chaosflow(port, closed(streams, ROUNDS), ROUNDS * 0.7 + 2, folder)
                        average, p99, cpu = mean(found.ttft), quantile(found.ttft, 0.99), found.cpu_s
                    true = stats(port)["ttft_ms"]
                errors = f"{average - true['mean']:>+13.2f} ms{p99 - true['p99']:>+13.2f} ms"
                print(f"{streams:>7}  {tool:<12}{errors}{cpu:>8.1f}", flush=True)
    print(f"(load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)")


if __name__ == "__main__":
    main(sys.argv[1], [int(a) for a in sys.argv[2:]] or [1, 16, 64, 256])
