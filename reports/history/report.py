"""What a nightly leaves: the content of ``nightly.json``, which page, summary and JUnit are made of."""

from __future__ import annotations

import datetime

from pydantic import BaseModel, ConfigDict, Field

from chaosflow.core.fields import Model

NIGHTLY_SCHEMA_VERSION = 1


class Annotation(Model):
    """What a person knows of a night: it marks the charts, and a change that began then is acknowledged."""

    date: datetime.date
    """UTC day; a change that began within three nights of it is meant."""
    text: str = Field(min_length=1)
    scenario: str | None = None
    segment: str | None = None
    metric: str | None = None


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Point(Part):
    """One night of one series: the median of its runs."""

    utc: str
    value: float
    runs: list[float]
    """Every run of that night, repeats too."""
    run_ids: list[str]


class Change(Part):
    """A change of level, dated to the night it began."""

    kind: str
    """``step``, ``drift`` (several small ones) or ``tonight`` (confirmed by repeats)."""
    index: int
    """First night of the new level, from 0."""
    utc: str
    nights_ago: int
    before: float
    after: float
    worse: bool
    p: float
    open: bool
    """Whether the level is still beyond the one before."""
    acknowledged: str = ""
    """Text of the annotation that acknowledges it."""
    sentence: str


class SeriesReport(Part):
    """One metric of one segment over the nights of one machine."""

    scenario: str
    segment: str
    metric: str
    state: str
    """``regression``, ``acknowledged``, ``improved``, ``steady`` or ``learning`` (too few nights)."""
    sentence: str
    reference: float | None = None
    """The level that now is compared with."""
    now: float | None = None
    points: list[Point] = []
    changes: list[Change] = []


class TonightRun(Part):
    run_id: str
    state: str
    exit_code: int
    reason: str
    repeat_of: str = ""
    """Why it was run again; empty for the first."""
    report: str = ""
    """Path of its report below the runs' folder."""


class ScenarioReport(Part):
    name: str
    state: str
    """The median of tonight's runs, in words; ``refused`` where it could not begin, ``not run`` else."""
    reason: str
    runs: list[TonightRun] = []
    nights: int = 0
    """Nights in the series of this machine and setup."""
    new_series: list[str] = []
    """Why a new series begins tonight: the fields that differ from the last run."""


class NightlyReport(Part):
    schema_version: int = NIGHTLY_SCHEMA_VERSION
    session: str
    suite: str
    started_utc: str
    ended_utc: str
    version: str = ""
    state: str
    exit_code: int
    reason: str
    min_effect: float
    alpha: float
    """Of one series, after the correction for how many there are."""
    scenarios: list[ScenarioReport] = []
    series: list[SeriesReport] = []
    annotations: list[Annotation] = []
    environment: dict[str, str] = {}
    notes: list[str] = []
