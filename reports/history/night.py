"""From the runs of one night and the nights before to the nightly's report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import chaosflow
from chaosflow.core.clock import utc_now
from chaosflow.core.errors import ExitCode
from chaosflow.core.slo import State
from chaosflow.reports import words
from chaosflow.reports.history.entry import Entry, differences
from chaosflow.reports.history.judge import Policy, judge_all
from chaosflow.reports.history.metrics import METRICS, change_words
from chaosflow.reports.history.report import NightlyReport, ScenarioReport, SeriesReport, TonightRun

_NAMED = 3
"""Regressions that the reason names."""


@dataclass(slots=True)
class Tonight:
    """One scenario of tonight: its runs, or why there is none."""

    name: str
    entries: list[Entry] = field(default_factory=list)
    because: list[str] = field(default_factory=list)
    """Why each was run again; empty for the first."""
    reports: list[str] = field(default_factory=list)
    refused: str = ""
    """Why it could not begin, or go on."""
    refused_code: int = 0
    skipped: str = ""
    """Why it was not even tried."""

    def add(self, entry: Entry, because: str, report: str) -> None:
        self.entries.append(entry)
        self.because.append(because)
        self.reports.append(report)

    @property
    def state(self) -> State | None:
        """The median of its runs, of two the worse; None where nothing ran."""
        if not self.entries:
            return None
        ordered = sorted(words.severity(e.state) for e in self.entries)
        return State(ordered[len(ordered) // 2])


@dataclass(slots=True)
class Night:
    """All that the report is made of."""

    session: str
    suite: str
    started_utc: str
    policy: Policy
    tonight: list[Tonight] = field(default_factory=list)
    """Empty: nothing was run, the newest night of the history is judged."""
    earlier: dict[str, list[Entry]] = field(default_factory=dict)
    """Scenario -> its runs before tonight, oldest first, of every series."""
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    not_undone: list[str] = field(default_factory=list)
    """Commands that undo by hand what is still in place."""
    ended_early: str = ""
    signal_code: int = 0


def split_series(entries: Sequence[Entry], series: str) -> list[Entry]:
    """The runs of one machine and setup, oldest first."""
    return [e for e in entries if e.series == series]


def conclude(night: Night) -> NightlyReport:
    """Judge every series and put the report together. Writes nothing."""
    histories: dict[str, list[Entry]] = {}
    scenarios = []
    for name, earlier in night.earlier.items():
        tonight = next((t for t in night.tonight if t.name == name), None)
        ran = [e for e in tonight.entries if e.counts] if tonight else []
        newest = ran[-1] if ran else next((e for e in reversed(earlier) if e.counts), None)
        if newest is not None and (ran or not night.tonight):
            histories[name] = [*split_series(earlier, newest.series), *ran]
        scenarios.append(_scenario(name, tonight, newest, earlier))
    series, alpha = judge_all(histories, night.policy)
    for scenario in scenarios:
        scenario.nights = max((len(s.points) for s in series if s.scenario == scenario.name), default=0)
    state, code, reason = _verdict(night, scenarios, series)
    return NightlyReport(
        session=night.session,
        suite=night.suite,
        started_utc=night.started_utc,
        ended_utc=utc_now(),
        version=chaosflow.__version__,
        state=state,
        exit_code=code,
        reason=reason,
        min_effect=night.policy.min_effect,
        alpha=alpha,
        scenarios=scenarios,
        series=series,
        annotations=list(night.policy.annotations),
        environment=night.environment,
        notes=[*night.notes, *(f"still in place; by hand: {command}" for command in night.not_undone)],
    )


def _scenario(
    name: str, tonight: Tonight | None, newest: Entry | None, earlier: Sequence[Entry]
) -> ScenarioReport:
    report = ScenarioReport(name=name, state="not run", reason="")
    if tonight is None:
        report.reason = "judged from the history alone" if newest else "the history holds no run of it"
    elif tonight.state is None:
        report.state = "not run" if tonight.skipped else "refused"
        report.reason = tonight.skipped or tonight.refused
    else:
        report.state = tonight.state.word
        report.reason = _reason(tonight)
        report.runs = [
            TonightRun(
                run_id=e.run_id, state=e.state, exit_code=e.exit_code, reason=e.reason, repeat_of=because,
                report=path,
            )
            for e, because, path in zip(tonight.entries, tonight.because, tonight.reports, strict=True)
        ]  # fmt: skip
    last = next(
        (e for e in reversed(earlier) if e.counts and e.session), None
    )  # by hand or a sweep: no night
    if tonight is not None and newest is not None and last is not None:
        same = any(e.series == newest.series for e in earlier if e.counts)
        report.new_series = [] if same else differences(last, newest)
    return report


def _reason(tonight: Tonight) -> str:
    state = tonight.state
    assert state is not None
    first = next(e for e in tonight.entries if words.severity(e.state) == int(state))
    reason = first.reason
    if len(tonight.entries) > 1:
        states = ", ".join(e.state for e in tonight.entries)
        reason += f" ({len(tonight.entries)} runs: {states})"
    if tonight.refused:
        reason += f"; then: {tonight.refused}"
    return reason


def _verdict(
    night: Night, scenarios: Sequence[ScenarioReport], series: Sequence[SeriesReport]
) -> tuple[str, int, str]:
    """(state, exit code, reason): the worst scenario, and any regression that nobody acknowledged."""
    worse = [s for s in series if s.state == "regression"]
    states = [State.FAIL] if worse else []
    states += [State[s.state.upper()] for s in scenarios if s.state.upper() in State.__members__]
    refused = [t for t in night.tonight if not t.entries and t.refused]
    if refused and not night.ended_early:
        states.append(State.ERROR)
    if not night.tonight and any(s.state != "learning" for s in series):
        states.append(State.PASS)
    state = max(states, default=State.INCONCLUSIVE)
    code = int(state.exit_code)
    if (
        refused
        and not worse
        and state is State.ERROR
        and all(t.refused_code == ExitCode.USAGE for t in refused)
    ):
        code = int(ExitCode.USAGE)
    if night.signal_code:
        code = night.signal_code
    if night.not_undone:
        code = int(ExitCode.NOT_UNDONE)
    return state.word, code, _why(night, scenarios, series, worse)


def _why(
    night: Night,
    scenarios: Sequence[ScenarioReport],
    series: Sequence[SeriesReport],
    worse: Sequence[SeriesReport],
) -> str:
    parts = [night.ended_early] if night.ended_early else []
    if worse:
        parts.append(_regressions(worse))
    bad = [s for s in scenarios if s.state not in ("pass", "not run")]
    parts += [f"{s.name} {s.state}: {s.reason}" for s in bad[:3]]
    if parts:
        return "; ".join(parts)
    judged = sum(s.state != "learning" for s in series)
    if not series:
        return "there was nothing to judge"
    if not judged:
        passed = "every scenario passed; " if night.tonight else ""
        return f"{passed}{_count(len(series), 'series', 'series')} too short to judge yet"
    known = sum(s.state == "acknowledged" for s in series)
    text = f"no regression in {_count(judged, 'series', 'series')}"
    return text + (f", {_count(known, 'known change')}" if known else "")


def _regressions(worse: Sequence[SeriesReport]) -> str:
    """Of one everything; of several each one's size, and no more of them than one reads."""
    if len(worse) == 1:
        return f"1 regression: {series_name(worse[0])} {worse[0].sentence}"
    named = [f"{series_name(s)} {change_of(s)}" for s in worse[:_NAMED]]
    more = len(worse) - _NAMED
    return f"{len(worse)} regressions: {'; '.join(named)}" + (f"; and {more} more" if more > 0 else "")


def change_of(series: SeriesReport) -> str:
    """Now against the level before, as a person writes it."""
    if series.reference is None or series.now is None:
        return words.NONE
    return change_words(series.metric, series.reference, series.now)


def series_name(series: SeriesReport) -> str:
    """``chat, jitter: TTFT P95``."""
    return f"{series.scenario}, {series.segment}: {METRICS[series.metric].label}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
