"""report.html as text: complete without JavaScript, offline, small, inert."""

from __future__ import annotations

import re
import time

import pytest
from sample_result import sample

from chaosflow.core.result import Event, ObjectiveResult, ProbeSeries, RunResult, Series
from chaosflow.reports.bokeh_charts import library_js
from chaosflow.reports.chartbook import DATA_BYTES
from chaosflow.reports.html import MAX_BYTES, render_html


def _without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


@pytest.fixture(scope="module")
def page() -> str:
    return render_html(sample())


def test_readable_without_javascript(page: str) -> None:
    text = _without_scripts(page)
    for expected in (
        "Fail",
        "431 of 480 requests took longer",
        "Simulated:",
        "e2e.p99 &lt;= 800ms",
        "SM clock read back under load: 300 MHz",
        "4 of 4 processes running",
        "recovered 2.1 s after the revert",
        "planned 70.000 s",
        "AMD EPYC 9454",
        "chaosflow run demo --set load.arrival.rate_per_s=40",
        "rate_per_s: 40",
        "How requests failed",
        "One engine step by its five parts",
        "connection reset by peer",
    ):
        assert expected in text
    assert text.count('<div class="svgplot">') == 14, "every chart has a drawing that needs no script"
    assert text.count('class="strip"') == 10, "each of the worst requests has its timeline"
    assert text.count('<div class="mini">') == 9, "three curves for each recovery"
    assert text.count('class="spark"') == 10, "every probe has its curve"


def test_no_external_url(page: str) -> None:
    """guidellm 303: a report was blank when a hosted script was gone."""
    urls = set(re.findall(r"https?://[^\s\"'`)<]+", page + library_js()))
    assert all("://www.w3.org/" in url for url in urls), urls  # XML namespaces, which nobody fetches
    assert "default-src 'none'" in page


def test_at_most_2_mb(page: str) -> None:
    """guidellm 984, pytest-html 552: reports of 119 and 185 MB."""
    assert len(page.encode()) <= MAX_BYTES


@pytest.mark.slow
def test_a_day_of_run_stays_under_2_mb_and_keeps_the_spike() -> None:
    seconds = 86_400
    column = [20.0] * seconds
    spike = list(column)
    spike[40_000] = 987_654.0
    series = Series(
        t_s=[float(s) for s in range(seconds)],
        **{n: column for n in Series.model_fields if n.endswith(("_ms", "per_s")) or n == "in_flight"},
    )
    series.ttft_p99_ms = list(spike)
    probes = {f"engine.running_{i}": ProbeSeries(t_s=series.t_s, value=column) for i in range(6)}
    events = [Event(at_s=float(i), what="note", text=f"event {i} " + "x" * 200) for i in range(20_000)]
    began = time.monotonic()
    page = render_html(sample(series=series, probes=probes, events=events))
    assert len(page.encode()) <= MAX_BYTES
    assert time.monotonic() - began < 60
    data = page.partition('id="chart-data">')[2].partition("</script>")[0]
    assert len(data.encode()) <= DATA_BYTES
    assert "only minima and maxima are drawn" in _without_scripts(page)
    assert "events in the middle are left out" in _without_scripts(page)
    assert "1,000,000" in page or "500,000" in page, "the axis still reaches the spike"


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "{{ 7*7 }}"]
)
def test_text_of_the_run_is_inert(text: str) -> None:
    result = sample(name=text, reason=text, notes=[text], description=text, environment={text: text})
    result.faults[0].name = text
    result.faults[0].evidence = text
    result.objectives[0].text = text
    result.probes[f"engine.running {text}"] = result.probes["engine.running_requests"]
    page = render_html(result)
    assert text not in page if "<" in text else "49" not in re.findall(r"<h1>(.*?)</h1>", page)[0]
    assert page.count("<script") == 4


def test_objective_without_samples_is_shown_as_inconclusive() -> None:
    """k6 1346: a threshold on a metric without samples was neither evaluated nor shown."""
    unjudged = ObjectiveResult(
        text="tpot.p99 <= 50ms", metric="tpot", kind="request_quantile", state="pass", sentence=""
    )
    page = _without_scripts(render_html(sample("inconclusive", objectives=[unjudged])))
    assert "tpot.p99 &lt;= 50ms" in page
    assert "no samples" in page
    assert 'class="objective inconclusive"' in page
    assert 'class="objective pass"' not in page


def test_failures_stand_beside_the_latency_of_successes() -> None:
    """locust 1363: fast 503s improved the latency statistics unseen."""
    page = _without_scripts(render_html(sample()))
    assert "Percentiles are of successful requests" in page
    assert re.search(r'class="n bad"[^>]*>3<', page)


def test_missing_numbers_are_dashes() -> None:
    result = sample()
    for segment in result.segments:
        segment.ttft = segment.gap = segment.e2e = type(segment.ttft)()
    text = _without_scripts(render_html(result))
    assert "NaN" not in text
    assert "None" not in text


def test_fault_that_could_not_be_undone_is_at_the_top_with_its_command() -> None:
    result = sample("pass", exit_code=5, reason="pause could not be undone")
    result.faults[2].reverted = False
    text = _without_scripts(render_html(result))
    assert 'class="verdict error"' in text, "a pass that left a fault behind is not green"
    assert text.index("kill -CONT -- 4211") < text.index("<h2>Objectives</h2>")


def test_almost_empty_result_still_renders() -> None:
    result = RunResult(
        run_id="r",
        name="n",
        state="error",
        exit_code=6,
        reason="it broke",
        started_utc="",
        ended_utc="",
        wall_s=0.1,
        timeline_s=0,
        seed=1,
    )
    text = render_html(result)
    assert "it broke" in text
    assert "Nothing was simulated" in text


def test_not_simulated_is_said_too() -> None:
    assert "Nothing was simulated" in render_html(sample(simulated=[]))


def test_hundreds_of_faults_are_neither_slow_nor_large() -> None:
    """Each band by itself cost 28 ms and three objects in each of eight charts: one glyph draws them all."""
    one = sample().faults[0]
    page = render_html(sample(faults=[one.model_copy(update={"name": f"f{i}"}) for i in range(200)]))
    assert len(page.encode()) <= MAX_BYTES
    assert page.count('"BoxAnnotation"') < 30
    assert "f199" in page


def test_a_fault_whose_turn_never_came_is_not_called_unconfirmed() -> None:
    """After an abort the page said of a fault that was never injected that its effect was not confirmed."""
    result = sample()
    last = result.faults[-1]
    for name in ("inject_begin_s", "inject_ack_s", "revert_begin_s", "revert_ack_s", "recovery"):
        setattr(last, name, None)
    last.confirmed, last.evidence, last.error = False, "", ""
    page = render_html(result)
    assert re.search(rf'<li class="inconclusive">\s*{last.name} \({last.kind}\) was not injected', page)
    assert "its effect was not confirmed" not in page
