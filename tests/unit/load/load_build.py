"""Plans and orders for the tests of this folder."""

from __future__ import annotations

from typing import Any

from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.loadplan import LoadPlan

POISSON: dict[str, Any] = {"kind": "poisson", "rate_per_s": 50}


def plan(arrival: dict[str, Any] = POISSON, **fields: Any) -> LoadPlan:
    return LoadPlan.model_validate({"arrival": arrival, **fields})


def order(arrival: dict[str, Any] = POISSON, files: dict[str, str] | None = None, **fields: Any) -> LoadOrder:
    return LoadOrder.model_validate(
        {
            "run_id": "r",
            "url": "http://example.test:8000/v1",
            "model": "tiny",
            "plan": {"arrival": arrival, **fields},
            "seed": 3,
            "objectives": [],
            "fault_names": [],
            "records_dir": "/nowhere",
            "files": files or {},
        }
    )
