"""A series of nights judged: steps, drift against the first nights, and what repeats of tonight confirm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from chaosflow.reports.history.changepoints import MIN_AFTER, MIN_BEFORE, find_changes
from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.metrics import JUDGED, METRICS, change, change_words, matters, shown
from chaosflow.reports.history.ranks import exact_rank_p
from chaosflow.reports.history.report import Annotation, Change, Point, SeriesReport

LEAST_NIGHTS = MIN_BEFORE + MIN_AFTER
MAX_NIGHTS = 200
"""Older nights are not judged, and the page stays small."""
BASELINE_NIGHTS, RECENT_NIGHTS = 10, 5
REPEATS_CONFIRM = 3
"""Runs of one night that are enough to tell a change from a bad moment."""
NEWS_NIGHTS = 30
"""So long an improvement is news."""
LEAST_ALPHA = 2e-4
"""Below it, 20,000 permutations could find nothing: with more than 250 series the least effect protects."""
_NEAR_NIGHTS = 3
_MOST_BEFORE = 60


@dataclass(frozen=True, slots=True)
class Policy:
    """What counts as a change."""

    min_effect: float = 0.1
    metrics: tuple[str, ...] = JUDGED
    family_alpha: float = 0.05
    """The chance of any false change point in one nightly over all of its series."""
    annotations: tuple[Annotation, ...] = ()

    def alpha(self, series: int) -> float:
        """Of one series among so many."""
        return min(0.01, max(LEAST_ALPHA, self.family_alpha / max(1, series)))


Key = tuple[str, str]


def points_of(entries: Sequence[Entry], metrics: Sequence[str]) -> dict[Key, list[Point]]:
    """(segment, metric) -> nights in order; the runs of one nightly are one night, a run of its own another.

    ``entries`` are of one series, oldest first; those that measured nothing sound are left out.
    """
    nights: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.counts:
            nights.setdefault(entry.session or entry.run_id, []).append(entry)
    found: dict[Key, list[Point]] = {}
    for runs in nights.values():
        for key in {key: None for entry in runs for key in entry.values if key[1] in metrics}:
            having = [entry for entry in runs if key in entry.values]
            values = [entry.values[key].value for entry in having]
            point = Point(
                utc=having[0].started_utc,
                value=median(values),
                runs=values,
                run_ids=[e.run_id for e in having],
            )
            found.setdefault(key, []).append(point)
    return found


def suspicious(points: Sequence[Point], value: float, metric: str, min_effect: float) -> bool:
    """Whether a value of tonight is so much worse than the nights before that it is worth running again."""
    if len(points) < MIN_BEFORE:
        return False
    values = [p.value for p in points[-_MOST_BEFORE:]]
    middle = median(values)
    spread = 1.4826 * median(abs(v - middle) for v in values)
    worse = change(metric, middle, value) > 0
    return worse and matters(metric, middle, value, min_effect) and abs(value - middle) > 3 * spread


def judge_series(scenario: str, key: Key, points: list[Point], policy: Policy, alpha: float) -> SeriesReport:
    """The verdict of one series. Pure; reads and writes nothing."""
    segment, metric = key
    report = SeriesReport(
        scenario=scenario, segment=segment, metric=metric, state="learning", sentence="", points=points
    )
    report.now = points[-1].value if points else None
    if len(points) < LEAST_NIGHTS:
        report.sentence = f"{len(points)} of the {LEAST_NIGHTS} nights a verdict needs"
        return report
    judge = _Judge(scenario, key, points, policy, alpha)
    report.changes = judge.changes()
    report.reference, report.now = judge.reference, judge.now
    _conclude(report)
    return report


def _conclude(report: SeriesReport) -> None:
    news = [c for c in report.changes if c.open]
    bad = [c for c in news if c.worse and not c.acknowledged]
    known = [c for c in news if c.worse and c.acknowledged]
    better = [c for c in news if not c.worse and c.nights_ago <= NEWS_NIGHTS]
    for state, changes in (("regression", bad), ("acknowledged", known), ("improved", better)):
        if changes:
            report.state, report.sentence = state, changes[-1].sentence
            report.reference = changes[-1].before
            return
    report.state = "steady"
    report.sentence = f"{shown(report.metric, report.now)} now, {shown(report.metric, report.reference)} in the nights before"


class _Judge:
    """One series under judgement."""

    def __init__(self, scenario: str, key: Key, points: list[Point], policy: Policy, alpha: float) -> None:
        self._scenario, (self._segment, self._metric) = scenario, key
        self._points, self._policy, self._alpha = points, policy, alpha
        self._values = [p.value for p in points]
        self.now = self._values[-1]
        self.reference = median(self._values[:-1][-_MOST_BEFORE:])

    def changes(self) -> list[Change]:
        found = find_changes(self._values, alpha=self._alpha, matters=self._matters)
        level_now = found[-1].after if found else 0.0
        changes = [self._change("step", c.index, c.before, c.after, c.p, level_now) for c in found]
        if found:
            self.now = found[-1].after
            self.reference = found[-1].before
        tonight = self._tonight(found[-1].index if found else 0)
        if tonight:
            self.now = tonight.after
            changes.append(tonight)
        elif not any(c.open and c.worse for c in changes) and (drift := self._drift(changes)):
            changes.append(drift)
        return changes

    def _matters(self, before: float, after: float) -> bool:
        return matters(self._metric, before, after, self._policy.min_effect)

    def _worse(self, before: float, after: float) -> bool:
        return change(self._metric, before, after) > 0

    def _tonight(self, since: int) -> Change | None:
        """A step of this very night, told from a bad moment by its repeats."""
        last = len(self._points) - 1
        before = self._values[max(since, last - _MOST_BEFORE) : last]
        runs = self._points[-1].runs
        if len(runs) < REPEATS_CONFIRM or len(before) < LEAST_NIGHTS:
            return None
        level, now = median(before), median(runs)
        p = exact_rank_p(before, runs)
        if p >= self._alpha or not self._matters(level, now) or not self._worse(level, now):
            return None
        return self._change("tonight", last, level, now, p, now)

    def _drift(self, changes: Sequence[Change]) -> Change | None:
        """Many small steps, each below the least effect, against the first nights (asv 932)."""
        begin = max((c.index for c in changes if c.acknowledged or not c.worse), default=0)
        values = self._values[begin:]
        if len(values) < BASELINE_NIGHTS + 2 * RECENT_NIGHTS:
            return None
        first, recent = values[:BASELINE_NIGHTS], values[-RECENT_NIGHTS:]
        before, after = median(first), median(recent)
        p = exact_rank_p(first, recent)
        if p >= self._alpha or not self._matters(before, after) or not self._worse(before, after):
            return None
        half = (before + after) / 2
        index = len(values) - 1
        while index > 0 and self._worse(half, median(values[max(0, index - 2) : index + 3])):
            index -= 1
        return self._change("drift", begin + index, before, after, p, after)

    def _change(
        self, kind: str, index: int, before: float, after: float, p: float, level_now: float
    ) -> Change:
        utc = self._points[index].utc
        worse = self._worse(before, after)
        same_way = self._worse(before, level_now) == worse
        found = Change(
            kind=kind, index=index, utc=utc, nights_ago=len(self._points) - 1 - index, before=before,
            after=after, worse=worse, p=p, open=same_way and self._matters(before, level_now), sentence="",
        )  # fmt: skip
        found.acknowledged = self._acknowledged(found)
        found.sentence = self._sentence(found)
        return found

    def _sentence(self, c: Change) -> str:
        values = f"{shown(self._metric, c.before)} before, {shown(self._metric, c.after)} since"
        size = change_words(self._metric, c.before, c.after)
        day = c.utc[:10]
        if c.kind == "tonight":
            runs = len(self._points[-1].runs)
            text = f"tonight {size}: {shown(self._metric, c.before)} before, {shown(self._metric, c.after)} in {runs} runs"
        elif c.kind == "drift":
            first = shown(self._metric, c.before)
            text = f"{size} against the first nights ({first}, now {shown(self._metric, c.after)}), in small steps, half of it since {day}"
        else:
            text = f"{size} on {day} ({_ago(c.nights_ago)}): {values}"
        if c.acknowledged:
            text += f"; known: {c.acknowledged}"
        elif not c.open:
            text += "; no longer so"
        return text

    def _acknowledged(self, c: Change) -> str:
        for note in self._policy.annotations:
            names = (
                (note.scenario, self._scenario),
                (note.segment, self._segment),
                (note.metric, self._metric),
            )
            if all(wanted is None or wanted == name for wanted, name in names) and self._near(
                note.date, c.index
            ):
                return note.text
        return ""

    def _near(self, day: date, index: int) -> bool:
        first, last = max(0, index - _NEAR_NIGHTS), min(len(self._points) - 1, index + _NEAR_NIGHTS)
        return self._points[first].utc[:10] <= day.isoformat() <= self._points[last].utc[:10]


def _ago(nights: int) -> str:
    return "tonight" if nights == 0 else "a night ago" if nights == 1 else f"{nights} nights ago"


def judge_all(
    histories: dict[str, list[Entry]], policy: Policy, tell: Callable[[str], None] = lambda _: None
) -> tuple[list[SeriesReport], float]:
    """Every series of every scenario, the worst first, and the alpha each was judged with.

    ``histories``: scenario -> the runs of its present series, oldest first.
    """
    todo = [
        (name, key, points[-MAX_NIGHTS:])
        for name, entries in histories.items()
        for key, points in points_of(entries, policy.metrics).items()
    ]
    alpha = policy.alpha(sum(len(points) >= LEAST_NIGHTS for _, _, points in todo))
    found = []
    for name, key, points in todo:
        tell(f"{name}: {METRICS[key[1]].label} in {key[0]}")
        found.append(judge_series(name, key, points, policy, alpha))
    order = ("regression", "acknowledged", "improved")
    found.sort(
        key=lambda s: (order.index(s.state) if s.state in order else 3, s.segment != "baseline", s.segment)
    )
    return found, alpha
