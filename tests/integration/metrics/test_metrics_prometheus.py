"""The shipped rules and dashboard against Debian's real Prometheus, scraping a real run."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest
from conftest_run import Place, scenario
from prometheus_rig import REASON, Prometheus, running_prometheus, tool

from chaosflow.reports.monitoring import write_monitoring

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(tool("prometheus") is None or tool("promtool") is None, reason=REASON),
]
FAILING = "ttft.p80 <= 1s during jitter"


@pytest.fixture
def shipped(tmp_path: Path) -> Path:
    """What ``chaosflow dashboards`` writes."""
    write_monitoring(tmp_path / "m")
    return tmp_path / "m"


def promtool(*arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        [str(tool("promtool")), *arguments], cwd=cwd, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_rules_and_configuration(shipped: Path) -> None:
    promtool("check", "rules", "chaosflow-rules.yml", cwd=shipped)
    promtool("check", "config", "prometheus.yml", cwd=shipped)


def test_the_alerts_say_what_they_should(shipped: Path) -> None:
    """pyrra 1925: one error at low traffic may not page; a burn that has ended may not either."""
    shutil.copy(Path(__file__).with_name("rules_test.yml"), shipped)
    promtool("test", "rules", "rules_test.yml", cwd=shipped)


def expressions(shipped: Path) -> list[str]:
    """Every expression of the dashboard, its variables filled in."""
    board = json.loads((shipped / "chaosflow-dashboard.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    found += [a["expr"] for a in board["annotations"]["list"]]
    return [
        e.replace("$__rate_interval", "30s").replace("$job", ".*").replace("$instance", ".*") for e in found
    ]


def test_a_real_run_is_scraped_and_every_expression_has_data(
    place: Place, shipped: Path, tmp_path: Path
) -> None:
    run = place.start(
        scenario(
            name="metered",
            load={"arrival": {"kind": "constant", "rate_per_s": 25}, "prompt_tokens": 16, "output_tokens": 8},
            phases={"warmup": "1s", "baseline": "3s", "recovery": "2s"},
            faults=[
                {"name": "jitter", "type": "proxy.latency", "duration": "3s", "params": {"delay_ms": 1500}}
            ],
            sla={"objectives": [FAILING, "error_rate <= 20%"], "window": "5s"},
        ),
        *("--metrics-port", "0", "--metrics-linger", "60s"),
    )
    run.until("metrics: http")
    (address,) = re.findall(r"metrics: http://(\S+)/metrics", run.text)
    config = shipped / "prometheus.yml"
    text = config.read_text().replace("127.0.0.1:9477", address).replace("2s", "500ms")
    config.write_text(text)
    with running_prometheus(config, tmp_path) as prometheus:
        prometheus.until("chaosflow_fault_active == 1")
        prometheus.until('chaosflow_run_state{state=~"pass|fail|inconclusive|invalid"} == 1', 60)
        look_at_dashboard(prometheus, expressions(shipped))
        look_at_rules(prometheus)
        look_at_labels(prometheus, run.folder.name)
    look_at_names(address)
    run.until("the final state stays")
    run.process.send_signal(signal.SIGINT)  # ends the lingering, and changes nothing else
    assert run.wait(20) == run.result["exit_code"], run.text


def look_at_dashboard(prometheus: Prometheus, wanted: list[str]) -> None:
    assert len(wanted) >= 20
    faults = "chaosflow_fault_active"
    for expression in wanted:
        # faults and percentiles have ended by now: they were there during the run
        over = f"last_over_time(({expression})[2m:500ms])"
        assert prometheus.query(over), f"no data for {expression}"
    (jitter,) = prometheus.query(f"max_over_time({faults}[2m])")
    assert jitter["value"][1] == "1"
    assert jitter["metric"]["kind"] == "proxy.latency"
    (now,) = prometheus.query(faults)
    assert now["value"][1] == "0"


def look_at_rules(prometheus: Prometheus) -> None:
    fired = 'last_over_time(ALERTS{alertname="ChaosflowObjectiveFailing", alertstate="firing"}[2m])'
    (alert,) = prometheus.until(fired)
    assert alert["metric"]["objective"] == FAILING
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert len(rules) >= 15
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    for rule in rules:
        if rule["type"] == "recording":
            assert prometheus.query(f"last_over_time({rule['name']}[2m])"), (
                f"nothing recorded as {rule['name']}"
            )


def look_at_names(address: str) -> None:
    """Prometheus's own opinion of names, units and help texts; it is silent where there is nothing to say."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read()
    done = subprocess.run(
        [str(tool("promtool")), "check", "metrics"], input=text, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


def look_at_labels(prometheus: Prometheus, run_id: str) -> None:
    """A label that names the run would make a new set of series each night."""
    series = prometheus.get("series", **{"match[]": '{__name__=~"chaosflow.*"}'})
    assert len(series) > 100
    assert run_id not in json.dumps(series)
    assert len(series) < 400, "each run of a suite adds none"
