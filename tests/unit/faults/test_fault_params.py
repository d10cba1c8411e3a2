"""What cannot be is refused when the scenario is read, in plain words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from chaosflow.core.fault import FaultAtom
from chaosflow.faults.host_cpu_quota import HostCpuQuota
from chaosflow.faults.process_kill import ProcessKill
from chaosflow.faults.proxy_bandwidth import ProxyBandwidth
from chaosflow.faults.proxy_down import ProxyDown
from chaosflow.faults.proxy_latency import ProxyLatency
from chaosflow.faults.proxy_limit_data import ProxyLimitData
from chaosflow.faults.proxy_slicer import ProxySlicer
from chaosflow.faults.proxy_timeout import ProxyTimeout
from chaosflow.faults.stream_coalesce import StreamCoalesce
from chaosflow.faults.stream_reject import StreamReject
from chaosflow.faults.stream_stall import StreamStall
from chaosflow.faults.stream_truncate import StreamTruncate


@pytest.mark.parametrize(
    ("atom", "params", "words"),
    [
        (ProxyLatency, {"delay_ms": 10, "jitter_ms": 11}, "jitter_ms 11 is more than delay_ms 10"),
        (ProxyLatency, {"delay_ms": -1}, "greater than 0"),
        (ProxyLatency, {"delay_ms": 1, "toxicity": 2}, "less than or equal to 1"),
        (ProxyLatency, {"delay_ms": 1, "direction": "sideways"}, "downstream"),
        (ProxyBandwidth, {"rate_kbytes_per_s": 0}, "greater than 0"),
        (ProxyBandwidth, {}, "Field required"),
        (StreamStall, {"after_events": 0}, "greater than or equal to 1"),
        (StreamStall, {"count": 0}, "greater than or equal to 1"),
        (StreamStall, {"path": ""}, "at least 1 character"),
        (StreamReject, {"burst_ms": 5}, "give both, or neither"),
        (StreamReject, {"status": 200}, "greater than or equal to 400"),
        (StreamCoalesce, {"events": 1}, "greater than or equal to 2"),
        (StreamTruncate, {"ending": "soft"}, "'clean', 'cut' or 'reset'"),
        (ProxySlicer, {"average_bytes": 5, "variation_bytes": 5}, "a piece has at least one byte"),
        (ProxyTimeout, {"after_ms": 0}, "greater than 0"),
        (ProxyLimitData, {}, "Field required"),
        (ProxyDown, {"for_ms": 5}, "Extra inputs"),
        (HostCpuQuota, {"percent": 0}, "greater than 0"),
        (HostCpuQuota, {"percent": 1, "period_us": 10_000}, "the kernel's least is 1000 µs"),
        (ProcessKill, {"signal": "STOP"}, "KILL"),
        (ProcessKill, {"sginal": "KILL"}, "Extra inputs"),
    ],
)
def test_impossible_params_are_refused(atom: type[FaultAtom], params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        atom.model_validate(params)
