"""The shipped dashboard and rules name metrics that exist, and fit any Grafana and Prometheus."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaosflow.core.errors import UsageError
from chaosflow.core.histogram import Histogram
from chaosflow.core.slots import Cell, CellBatch
from chaosflow.orchestrator.metrics.families import families
from chaosflow.orchestrator.metrics.live import LiveMetrics
from chaosflow.orchestrator.metrics.snapshot import BOUNDS_S
from chaosflow.orchestrator.prepare import prepare
from chaosflow.reports.monitoring import CONFIG, DASHBOARD, RULES, monitoring_text, write_monitoring

_GOLDEN = Path(__file__).with_name("metrics_dashboard.golden.txt")
_DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(monitoring_text(DASHBOARD))
    return found


def rules() -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(monitoring_text(RULES))["groups"] for rule in group["rules"]]


def known() -> dict[str, set[str]]:
    """Sample name -> its label names."""
    prepared = prepare("quickstart")
    live = LiveMetrics()
    live.begin(prepared.loaded.scenario, prepared.timeline, str)
    cells = {(0, "baseline", 0): Cell(n=1)}
    histograms = {(0, metric): Histogram({1: 1}) for metric in BOUNDS_S}
    live.batch(CellBatch(worker="w", seq=1, watermark_ns=0, cells=cells, by_second=histograms))
    live.end("pass", {})
    found: dict[str, set[str]] = {}
    for family in families(live.snapshot):
        found.setdefault(family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found | {"chaosflow_window_latency_seconds": {"metric", "quantile"}}


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"(?<![\w:\"])(?:\w+:)?chaosflow_\w+(?::\w+)?", expression))


def expressions() -> list[str]:
    targets = [t for panel in board()["panels"] for t in panel.get("targets", [])]
    return [t["expr"] for t in targets] + [a["expr"] for a in board()["annotations"]["list"]]


def test_every_expression_names_metrics_and_labels_that_exist() -> None:
    metrics = known()
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for expression in [*expressions(), *(rule["expr"] for rule in rules())]:
        assert names_in(expression), expression
        assert names_in(expression) <= set(metrics) | recorded, expression
        for name, selector in re.findall(r"(chaosflow_\w+)\{([^}]*)\}", expression):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector)) - {"job", "instance"}
            assert labels <= metrics[name], f"{name} has no {labels - metrics[name]}: {expression}"


def test_the_dashboard_fits_any_grafana() -> None:
    """No data source of ours by uid, no numeric id, a schema that Grafana 10 and later read as it is."""
    found = board()
    assert found["schemaVersion"] == 39
    assert found["id"] is None
    assert [v["name"] for v in found["templating"]["list"]] == ["datasource", "job", "instance"]
    uids = re.findall(r'"uid": "([^"]*)"', monitoring_text(DASHBOARD))
    assert set(uids) == {"${datasource}", "chaosflow"}, "the data source is the reader's to choose"
    (faults,) = found["annotations"]["list"]
    assert names_in(faults["expr"]) == {"chaosflow_fault_active"}
    assert faults["titleFormat"] == "{{fault}}"
    for expression in expressions():
        assert 'job=~"$job"' in expression
        assert 'instance=~"$instance"' in expression


def outline() -> str:
    """What the dashboard shows, a line for each panel and for each of its expressions."""
    lines = []
    for panel in board()["panels"]:
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "")
        lines.append(f"{panel['type']}: {panel['title']}" + (f" [{unit}]" if unit else ""))
        lines += [f"    {target['expr']}" for target in panel.get("targets", [])]
    lines += [f"annotation: {a['name']}\n    {a['expr']}" for a in board()["annotations"]["list"]]
    return "\n".join(lines) + "\n"


def test_the_dashboard_shows_what_it_should() -> None:
    """Golden: a panel, a unit or an expression that changes is a change that somebody has to mean."""
    assert outline() == _GOLDEN.read_text()


def test_panels_have_their_own_place_id_and_title() -> None:
    panels = board()["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    assert len({p["title"] for p in panels}) == len(panels)
    for one, two in combinations([p["gridPos"] for p in panels], 2):
        apart_x = one["x"] + one["w"] <= two["x"] or two["x"] + two["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= two["y"] or two["y"] + two["h"] <= one["y"]
        assert apart_x or apart_y, (one, two)
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in panels)


def test_every_metric_is_documented_and_every_documented_metric_exists() -> None:
    documented = set(re.findall(r"`(chaosflow_\w+)", _DOCS.read_text()))
    counted = {name for name in known() if not name.endswith(("_bucket", "_sum", "_count", "_created"))}
    exposed = {n for n in counted if f"{n}_total" not in counted and f"{n}_info" not in counted}
    assert documented == exposed


def test_rules_say_what_to_do() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["annotations"]["summary"]  # type: ignore[index]
            assert rule["labels"]["severity"] in ("page", "warning")  # type: ignore[index]
        else:
            assert re.fullmatch(r"\w+:chaosflow_\w+:\w+", rule["record"]), "level:metric:operation"
    assert yaml.safe_load(monitoring_text(CONFIG))["rule_files"] == [RULES]


def test_nothing_is_written_where_a_file_is_there(tmp_path: Path) -> None:
    (tmp_path / RULES).write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        write_monitoring(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [RULES]
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_monitoring(blocked / "below")
