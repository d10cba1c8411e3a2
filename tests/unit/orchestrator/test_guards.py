"""Load goes to this machine, or to a host that the user says is theirs; caps hold."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from chaosflow.core.scenario import Scenario, TargetSpec
from chaosflow.orchestrator.guards import check_guards, is_here, own_addresses, target_issues
from chaosflow.orchestrator.timeline import build_timeline


def messages(target: dict[str, Any], *addresses: str) -> list[str]:
    spec = TargetSpec.model_validate(target)
    return [f"{i.message}; {i.remedy}" for i in target_issues(spec, lambda _: set(addresses))]


def test_loopback_and_own_addresses_are_here() -> None:
    own = own_addresses()
    assert "127.0.0.1" in own
    for address in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", *own):
        assert is_here(address, own)
    assert not is_here("192.0.2.1", own)


def test_foreign_host_needs_i_own() -> None:
    url = "http://api.example.net/v1"
    found = messages({"url": url}, "192.0.2.1")
    assert found == [
        "api.example.net is not this machine; "
        "if it is yours, or you may load and break it, add 'i_own: api.example.net' to target"
    ]
    assert messages({"url": url, "i_own": "api.example.net"}, "192.0.2.1") == []
    assert "i_own says 'other'" in messages({"url": url, "i_own": "other"}, "192.0.2.1")[0]


def test_one_foreign_address_of_several_is_foreign() -> None:
    assert messages({"url": "http://x.example/v1"}, "127.0.0.1", "192.0.2.1")


def test_processes_of_another_machine_cannot_be_acted_on() -> None:
    target = {"url": "http://x.example/v1", "i_own": "x.example", "process": {"listen_port": 1}}
    assert "cannot be acted on from here" in messages(target, "192.0.2.1")[0]


def test_name_that_does_not_resolve() -> None:
    def fail(_: str) -> set[str]:
        raise socket.gaierror(-2, "Name or service not known")

    issues = target_issues(TargetSpec(url="http://nowhere.invalid/v1"), fail)
    assert "'nowhere.invalid' cannot be resolved (Name or service not known)" in issues[0].message


@pytest.mark.parametrize("url", ["http:///v1", "http://[::1/v1", "http://h:99999/v1"])
def test_url_that_cannot_be_read(url: str) -> None:
    assert target_issues(TargetSpec(url=url), lambda _: {"127.0.0.1"})


def scenario(**load: Any) -> Scenario:
    return Scenario.model_validate(
        {
            "target": {"engine": {}},
            "load": {"arrival": {"kind": "poisson", "rate_per_s": 10}, "output_tokens": 44} | load,
            "phases": {"warmup": 0, "baseline": 10},
            "sla": {"objectives": ["ttft.p95 <= 1s"]},
        }
    )


def test_caps_refuse_a_plan_that_is_larger() -> None:
    for load, refused in [
        ({"max_requests": 99}, True),
        ({"max_requests": 100}, False),
        ({"max_tokens": 29_999}, True),  # 100 requests of 256 + 44 tokens
        ({"max_tokens": 30_000}, False),
    ]:
        plan = scenario(**load)
        assert bool(check_guards(plan, build_timeline(plan, {})).issues) is refused


def test_closed_loop_is_capped_while_it_runs() -> None:
    plan = scenario(arrival={"kind": "closed", "users": 4}, max_requests=10)
    guarded = check_guards(plan, build_timeline(plan, {}))
    assert not guarded.issues
    assert "counted as it runs" in guarded.warnings[0]
