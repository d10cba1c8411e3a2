"""The scenario that ``chaosflow init`` writes: small, commented, valid as it stands."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

_HEAD = """\
# A ChaosFlow scenario. Check it with 'chaosflow validate FILE', see what it can decide with
# 'chaosflow plan FILE' and what it would do with 'chaosflow run FILE --dry-run', then 'chaosflow run FILE'.
version: 1
name: my-first-scenario
description: Does the streaming SLA hold under jitter and a freeze of four seconds?
seed: 7                        # the same seed gives the same requests at the same times
"""

_ENGINE_TARGET = """
target:
  # The included engine: a simulated GPU, needs nothing installed.
  engine: {backend: sim, gpu: h200, model: llama-3.1-8b}
  # Or your own OpenAI-compatible server; remove 'engine' then:
  # url: http://127.0.0.1:8000/v1
  # model: my-model            # default: the first one that /models lists
  # api_key: "${env:API_KEY}"  # never shown in any report
  # process: {listen_port: 8000}   # what process and host faults act on;
  #                            # or pid_file:, pid:, name:, container:, cgroup:
  # i_own: api.example.net     # required when the server is not on this machine

load:
  arrival: {kind: poisson, rate_per_s: 20}   # open loop: requests come whatever the target does
  # arrival: {kind: constant, rate_per_s: 20}
  # arrival: {kind: closed, users: 16, think_time: 500ms}
  prompt_tokens: 256
  output_tokens: 32
  deadline: 30s                # a request that takes longer has failed
  # max_requests: 10000        # refuse to run a plan that sends more

phases:
  warmup: 3s                   # not judged
  baseline: 25s                # steady state, before the first fault
  recovery: 15s                # watched after each fault's revert
"""

_URL_TARGET = """
target:
  url: @URL@
  # model: my-model            # default: the first one that /models lists
  # api_key: "${env:API_KEY}"  # never shown in any report
  @PROCESS@
  @I_OWN@

load:
  arrival: {kind: closed, users: 8}          # eight requests under way at any time
  # arrival: {kind: poisson, rate_per_s: 5}  # open loop: requests come whatever the target does
  prompt_tokens: 64
  output_tokens: 32
  deadline: 60s                # a request that takes longer has failed
  # max_requests: 1000         # caps what the run may cost
  # extra_body: {ignore_eos: true}

phases:
  warmup: 5s                   # not judged
  baseline: 40s                # steady state, before the first fault
  recovery: 25s                # watched after each fault's revert
"""

_JITTER = """
faults:                        # 'chaosflow list faults' shows all kinds
  - name: jitter
    type: proxy.latency
    duration: 25s              # starts when the baseline ends
    params: {delay_ms: 20, jitter_ms: 10}
"""

_FREEZE = """\
  - name: freeze
    type: process.pause
    after: jitter              # when jitter's recovery has been watched;
                               # or: 'after: jitter.revert', 'with: jitter', 'at: 40s'
    duration: 4s
"""

_ENGINE_SLA = """
probes: [engine, host]

sla:
  window: 10s                  # sliding windows of the live view and the charts
  objectives:                  # a P95 needs 59 requests in each part to pass, a P99 needs 299
    - ttft.p95 <= 400ms during baseline
    - ttft.p95 <= 6s           # without 'during': in the baseline, each fault and each recovery
    - e2e.p95 <= 8s
    - error_rate <= 5%
    - recovery <= 10s
    # further: gap, tpot, itl (as ttft), stalls <= 0.1%, burstiness <= 10%, goodput >= 99%,
    # completeness >= 99%, throughput.drift within 15%; health_truth <= 5s (with the probe health)
"""

_URL_SLA = """
probes: [engine, host]

sla:
  window: 10s                  # sliding windows of the live view and the charts
  objectives:                  # a P95 needs 59 requests in each part to pass, a P99 needs 299
    - ttft.p95 <= 5s during baseline        # put your own limits here
    - e2e.p95 <= 30s during baseline
    - e2e.p95 <= 3x baseline during jitter  # relative to what the baseline showed
    - error_rate <= 5% during jitter
    - error_rate <= 10% during recovery     # what comes after each fault; without 'during': in every part,
    - recovery <= 20s                       # and a freeze under eight users is eight requests: too few to tell
    # further: gap, tpot, itl (as ttft), stalls <= 0.1%, burstiness <= 10%, goodput >= 99%,
    # completeness >= 99%, throughput.drift within 15%; health_truth <= 5s (with the probe health)
"""

_ABORT = """
abort: [error_rate > 50% for 5s]   # stop at once, undo everything, verdict fail
"""


def init_text(url: str | None = None) -> str:
    """A scenario for the included engine, or for the server at ``url``. Touches nothing."""
    if url is None:
        return _HEAD + _ENGINE_TARGET + _JITTER + _FREEZE + _ENGINE_SLA + _ABORT
    host, port = _host_port(url)
    here = host in ("localhost", "127.0.0.1", "::1")
    process = f"process: {{listen_port: {port}}}"
    ways = "# what process and host faults act on; or pid_file:, pid:, name:, container:, cgroup:"
    target = (
        _URL_TARGET.replace("@URL@", json.dumps(url))
        .replace("@PROCESS@", f"{process}   {ways}" if here else f"# {process}   {ways}")
        .replace(
            "@I_OWN@",
            f"{'# ' if here else ''}i_own: {host}   # required when the server is not on this machine",
        )
    )
    head = _HEAD if here else _HEAD.replace(" and a freeze of four seconds", "")
    return head + target + _JITTER + (_FREEZE if here else "") + _URL_SLA + _ABORT


def _host_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        return parts.hostname or "HOST", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "HOST", 8000
