"""What the target's own health check says, as a load balancer would ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import ClassVar

from chaosflow.core.clock import NS_PER_S, Clock
from chaosflow.core.fault import Capability
from chaosflow.core.host import Host
from chaosflow.core.probe import Probe, Reading
from chaosflow.probes.scrape import Endpoint, ask

_PERIOD_S = 0.5
_TIMEOUT_S = 1.0
READY = "health.ready_state"
"""1 = answered with a status below 400 within a second, 0 = not. Objectives on the health check read it."""


class HealthProbe(Probe):
    """The target's own health check: ready or not, and how fast it answers.

    Asks twice a second. No answer is an answer: not ready.
    """

    name: ClassVar[str] = "health"

    @classmethod
    def check(cls, host: Host) -> Capability:
        if host.target.included:  # its port is not chosen yet
            return Capability.yes(f"{host.target.health} of the included engine")
        return Capability.yes(str(_endpoint(host)))

    async def readings(self, clock: Clock) -> AsyncIterator[Reading]:
        endpoint, due_ns = _endpoint(self.host), clock.now_ns()
        while True:
            begin_ns = clock.now_ns()
            try:
                status, _, _ = await ask(endpoint, _TIMEOUT_S)
            except (OSError, TimeoutError):
                status = 0
            now_ns = clock.now_ns()
            yield Reading(now_ns, READY, float(200 <= status < 400))
            if status:
                yield Reading(now_ns, "health.answer_ms", (now_ns - begin_ns) / 1e6)
            due_ns = max(due_ns + int(_PERIOD_S * NS_PER_S), now_ns)
            await clock.sleep_until(due_ns)


def _endpoint(host: Host) -> Endpoint:
    return Endpoint.of(host.target, host.target.health)
