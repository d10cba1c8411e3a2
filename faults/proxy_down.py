"""``proxy.down``: the service is not there: connections are refused, open ones are reset."""

from __future__ import annotations

from typing import ClassVar

from chaosflow.core.errors import CapabilityError
from chaosflow.core.fault import Capability, Effect, FaultAtom, Undo
from chaosflow.core.host import Host
from chaosflow.faults._toxic import PROXY_NAME, proxy_capability
from chaosflow.faults.proxy import client


class ProxyDown(FaultAtom):
    """The proxy stops listening, as if the target's host had stopped the service. The target itself runs on."""

    kind: ClassVar[str] = "proxy.down"
    acts_on: ClassVar[str] = (
        "the proxy's listening port, which stays reserved, and open connections, which are reset; verified by a connection attempt"
    )
    cannot: ClassVar[str] = "The target's own health check does not notice."
    needs_proxy: ClassVar[bool] = True
    undone_by: ClassVar[str] = (
        """curl --unix-socket CONTROL -X POST -d '{"enabled": true}' http://proxy/proxies/target"""
    )

    def resource(self, host: Host) -> frozenset[str]:
        return frozenset({"proxy:enabled"})

    def check(self, host: Host) -> Capability:
        return proxy_capability(host)

    async def plan(self, host: Host, name: str) -> Undo:
        if host.proxy is None:
            raise CapabilityError(f"{self.kind} {name}", "no fault proxy is in the path")
        control = str(host.proxy.control)
        enabled = host.planning or (await client.get_proxy(control, PROXY_NAME))["enabled"]
        base = f"http://proxy/proxies/{PROXY_NAME}"
        body = '{"enabled": true}' if enabled else '{"enabled": false}'
        manual = f"curl -s --unix-socket {control} -X POST -d '{body}' {base}"
        state = {"control": control, "proxy": PROXY_NAME, "enabled": enabled}
        return Undo(kind=self.kind, name=name, run_id=host.run_id, state=state, manual=manual)

    async def inject(self, undo: Undo) -> None:
        await client.enable_proxy(undo.state["control"], undo.state["proxy"], on=False)

    @staticmethod
    async def is_active(undo: Undo) -> Effect:
        """A connection attempt, made by the proxy itself from its own network namespace, must be refused."""
        try:
            proxy = await client.get_proxy(undo.state["control"], undo.state["proxy"])
        except client.ProxyGone as e:
            return Effect(False, f"no proxy: {e.thing} {e.cause}")
        stats = proxy["stats"]
        text = f"{proxy['listen']}: {stats['reset_by_down']} open connections were reset"
        if proxy["enabled"]:
            return Effect(False, f"{proxy['listen']} is enabled")
        return Effect(
            bool(stats["refuses"]), f"{text}, new ones are {'' if stats['refuses'] else 'not '}refused"
        )

    @staticmethod
    async def revert(undo: Undo) -> None:
        """Listen again on the same address; no error when the proxy has ended."""
        try:
            await client.enable_proxy(undo.state["control"], undo.state["proxy"], on=undo.state["enabled"])
        except client.ProxyGone:
            return
