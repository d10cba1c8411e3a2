"""What a scenario may not do: load on somebody else's host, more requests or tokens than allowed."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import psutil

from chaosflow.core.checks import Issue
from chaosflow.core.scenario import LoadPlan, Scenario, TargetSpec
from chaosflow.core.units import significant
from chaosflow.orchestrator.loadfiles import load_file_issues
from chaosflow.orchestrator.timeline import Timeline

Resolve = Callable[[str], set[str]]


@dataclass(frozen=True, slots=True)
class Guarded:
    """What the guards say; with an issue the run may not start."""

    issues: tuple[Issue, ...] = ()
    warnings: tuple[str, ...] = ()


def check_guards(scenario: Scenario, timeline: Timeline) -> Guarded:
    """All guards. Reads the load's files, looks up the target's name and this machine's addresses; contacts nothing."""
    issues = [*target_issues(scenario.target), *load_file_issues(scenario.load)]
    if issues:
        return Guarded(tuple(issues))  # how much a trace asks for is unknown while it cannot be read
    cap_issues, warnings = _cap_issues(scenario.load, timeline)
    return Guarded(tuple(cap_issues), tuple(warnings))


def resolve(host: str) -> set[str]:
    """The addresses of a host name; raises OSError where it has none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return {str(address[0]).split("%")[0] for *_, address in found}


def own_addresses() -> set[str]:
    """Every address of this machine, those of all its interfaces included."""
    found: set[str] = set()
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family in (socket.AF_INET, socket.AF_INET6):
                found.add(address.address.split("%")[0])
    return found


def is_here(address: str, own: set[str]) -> bool:
    """Whether an address means this machine: any loopback address, or one of its own."""
    ip = ipaddress.ip_address(address)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback or (mapped or ip).is_unspecified or str(mapped or ip) in own


def target_issues(target: TargetSpec, look_up: Resolve = resolve) -> list[Issue]:
    if target.url is None:
        return []
    path = ("target", "url")
    try:
        parts = urlsplit(target.url)
        host, port = parts.hostname, parts.port
    except ValueError as e:
        return [Issue(path, f"cannot read the url ({e})", "write for example http://127.0.0.1:8000/v1")]
    if port == 0:
        return [Issue(path, "nothing can listen on port 0", "give the port that the server listens on")]
    if not host:
        return [Issue(path, "the url names no host", "write for example http://127.0.0.1:8000/v1")]
    try:
        addresses = look_up(host)
    except (OSError, UnicodeError) as e:
        cause = getattr(e, "strerror", None) or str(e)
        return [
            Issue(path, f"the host {host!r} cannot be resolved ({cause})", "check the name, or the network")
        ]
    own = own_addresses()
    if all(is_here(address, own) for address in addresses):
        return []
    issues: list[Issue] = []
    if target.i_own is None or target.i_own.lower() != host.lower():
        said = f"; i_own says {target.i_own!r}" if target.i_own else ""
        issues.append(
            Issue(
                path if target.i_own is None else ("target", "i_own"),
                f"{host} is not this machine{said}",
                f"if it is yours, or you may load and break it, add 'i_own: {host}' to target",
            )
        )
    if target.process is not None:
        issues.append(
            Issue(
                ("target", "process"),
                f"processes on {host} cannot be acted on from here",
                "remove 'process', or run ChaosFlow on that machine",
            )
        )
    return issues


def _cap_issues(load: LoadPlan, timeline: Timeline) -> tuple[list[Issue], list[str]]:
    issues: list[Issue] = []
    warnings: list[str] = []
    if load.max_requests is None and load.max_tokens is None:
        return issues, warnings
    uncapped = load.model_copy(update={"max_requests": None})
    requests = uncapped.expected_arrivals(0.0, timeline.total_s)
    for key, cap in (("max_requests", load.max_requests), ("max_tokens", load.max_tokens)):
        if cap is None:
            continue
        cost = 1.0 if key == "max_requests" else load.tokens_per_request
        what = key.removeprefix("max_")
        if requests is None:
            warnings.append(
                f"load.{key}: a closed loop's {what} are not known beforehand; they are counted as it runs"
            )
        elif requests * cost > cap:
            issues.append(
                Issue(
                    ("load", key),
                    f"the plan is about {requests * cost:.0f} {what} in {timeline.total_s:.0f} s, the cap is {cap}",
                    f"lower the load to {significant(cap / cost / timeline.total_s)} requests per s, shorten the phases, or raise the cap",
                )
            )
    return issues, warnings
