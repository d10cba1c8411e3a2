"""The line between orchestrator and load: what to send, and the messages while it runs.

The orchestrator listens on a Unix socket, starts ``python -m chaosflow.load ORDER_FILE SOCKET`` and
both speak one JSON object a line. ``*_ns`` are CLOCK_MONOTONIC.

orchestrator -> load
    {"type": "start", "t0_ns": N}           origin of the arrival schedule and of second 0
    {"type": "mark", "mark": [...]}          a segment edge (segments.Mark.to_wire)
    {"type": "limits", "limits": {"3": [fail_s, pass_s]}}   a relative limit, by objective index
    {"type": "horizon", "until_ns": N}       marks and limits are complete up to N: fold up to there
    {"type": "stop", "at_ns": N, "drain_s": S}   no arrival from N on; S seconds later cancel the rest
load -> orchestrator
    {"type": "ready", "workers": N}
    {"type": "cells", "batch": {...}}        slots.CellBatch.to_wire, about one a second and worker
    {"type": "lost", "worker": W, "reason": R}   a worker is gone: the run is invalid
    {"type": "note", "text": T}
    {"type": "bye"}                          every final batch has been sent
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, field_serializer

from chaosflow.core.loadplan import LoadPlan

API_KEY_VARIABLE = "CHAOSFLOW_TARGET_API_KEY"
"""The key travels in the environment of the load process, never in a file."""


class LoadOrder(BaseModel):
    """Everything the load must know before it starts; the content of ORDER_FILE."""

    model_config = ConfigDict(extra="forbid")

    run_id: str
    url: str
    """Base URL of the target, ending in ``/v1``: gives Host header and TLS name."""
    connect: tuple[str, int] | None = None
    """Where to connect instead (the proxy); None = the URL's own host and port."""
    model: str
    plan: LoadPlan
    seed: int
    objectives: list[str]
    """``sla.objectives`` as written, in order: cells are keyed by their index."""
    fault_names: list[str]
    records_dir: str
    """Folder for raw records, one ``records-<worker>.jsonl.gz`` a worker."""
    secrets: list[str] = []
    """Replaced by ``***`` in the raw records: a server may send back what it was sent."""
    files: dict[str, str] = {}
    """Text of files that the plan names, by path, for workers on other machines; empty = read them."""

    @field_serializer("plan")
    def _as_written(self, plan: LoadPlan) -> dict[str, Any]:
        return plan.model_dump(mode="json", by_alias=True)
