"""Where the load listens, and whether workers elsewhere reach what they are to load; before anything is touched."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from chaosflow.core.checks import Issue
from chaosflow.core.errors import UsageError
from chaosflow.core.listening import listen_address, require_free
from chaosflow.core.scenario import Scenario, TargetSpec

_HERE = "127.0.0.1"


def load_place_issues(scenario: Scenario, proxied: Sequence[str]) -> list[Issue]:
    """``proxied``: names of the faults that need the proxy. Binds the load's ports for a moment; contacts nobody."""
    load, target = scenario.load, scenario.target
    issues = [] if load.unix_socket is None else _only_by_tcp(scenario, proxied)
    if load.listen:
        try:
            host, port = listen_address(load.listen)
            require_free(host, port, "listen")
            if load.remote_workers and not _is_loopback(host):
                issues += _out_of_reach(target, proxied)
        except UsageError as e:
            issues.append(Issue(("load", "listen"), f"{e.thing}: {e.cause}", e.remedy))
    if load.web_ui_port is not None:
        try:
            require_free(_HERE, load.web_ui_port, "web_ui_port")
        except UsageError as e:
            issues.append(Issue(("load", "web_ui_port"), f"{e.thing}: {e.cause}", e.remedy))
    return issues


def _out_of_reach(target: TargetSpec, proxied: Sequence[str]) -> list[Issue]:
    path = ("load", "remote_workers")
    if target.engine is not None:
        return [
            Issue(
                path,
                "the included engine is reached from this machine only",
                "give a target.url, or use workers",
            )
        ]
    host = urlsplit(target.url or "").hostname or ""
    if host == "localhost" or _is_loopback(host):
        return [
            Issue(
                path,
                f"on other machines {host} means themselves",
                "give this machine's address in target.url",
            )
        ]
    if names := ", ".join(proxied):
        cause = f"the proxy of {names} is reached from this machine only"
        return [Issue(path, cause, "use workers instead, or a net.* fault")]
    return []


def _only_by_tcp(scenario: Scenario, proxied: Sequence[str]) -> list[Issue]:
    """What does not go through a Unix socket, and would act on nothing or ask somebody else."""
    causes = []
    if scenario.target.engine is not None:
        causes.append("the included engine listens on none")
    if scenario.load.remote_workers:
        causes.append("workers on other machines do not reach it")
    if proxied:
        causes.append(f"the proxy of {', '.join(proxied)} reaches the target by its address only")
    if "health" in scenario.probes:
        causes.append("the probe health asks the target by its address only")
    return [
        Issue(("load", "unix_socket"), cause, "leave unix_socket out, or what does not go with it")
        for cause in causes
    ]


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
