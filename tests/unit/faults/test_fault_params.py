"""What cannot be is refused when the scenario is read, in plain words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from chaosflow.core.fault import FaultAtom
from chaosflow.faults.host_cpu_quota import HostCpuQuota
from chaosflow.faults.process_kill import ProcessKill
from chaosflow.faults.proxy_bandwidth import ProxyBandwidth
from chaosflow.faults.proxy_latency import ProxyLatency
from chaosflow.faults.stream_stall import StreamStall


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
        (HostCpuQuota, {"percent": 0}, "greater than 0"),
        (HostCpuQuota, {"percent": 1, "period_us": 10_000}, "the kernel's least is 1000 µs"),
        (ProcessKill, {"signal": "STOP"}, "KILL"),
        (ProcessKill, {"sginal": "KILL"}, "Extra inputs"),
    ],
)
def test_impossible_params_are_refused(atom: type[FaultAtom], params: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        atom.model_validate(params)
