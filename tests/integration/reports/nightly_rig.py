"""A history of many nights, made of one run: the same numbers with noise, and a change where one is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from chaosflow.reports.history.entry import Entry
from chaosflow.reports.history.metrics import METRICS, Key, Value
from chaosflow.reports.history.store import History


def seed_history(
    path: Path,
    run: Entry,
    nights: int,
    *,
    changes: Mapping[Key, Mapping[int, float]] | None = None,
    cv: float = 0.05,
    seed: int = 7,
    last: datetime = datetime(2026, 11, 28, 2, 0),
) -> None:
    """Write ``nights`` runs into the history, one a night, the newest on ``last``.

    Every metric is that of ``run`` times (1 + cv * normal noise); shares keep theirs. ``changes``: (segment,
    metric) -> night (from 0) -> factor from then on. Fingerprint and setup are those of ``run``, so the next
    real run of the same scenario on this machine continues the series.
    """
    random = Random(seed)
    with History.open(path) as history:
        for night in range(nights):
            began = last - timedelta(days=nights - 1 - night)
            values = {}
            for key, value in run.values.items():
                factor = 1.0 if not METRICS[key[1]].relative else 1 + cv * random.gauss(0, 1)
                for since, change in (changes or {}).get(key, {}).items():
                    factor *= change if night >= since else 1.0
                values[key] = Value(value.value * factor, value.n)
            history.add(
                replace(
                    run, run_id=f"seeded-{night:03d}", started_utc=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    session=f"night-{night:03d}", values=values, folder="",
                )
            )  # fmt: skip
