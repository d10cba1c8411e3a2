"""An order for a machine that has none of the files it names."""

from __future__ import annotations

from chaosflow.core.arrival import TraceArrival
from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.tracefile import read_text


def portable(order: LoadOrder) -> str:
    """The order as JSON, with the content of the files it names, for a machine that has none of them."""
    plan = order.plan
    named = [plan.prompts_file, plan.tokenizer, plan.locustfile]
    named += [plan.arrival.file] if isinstance(plan.arrival, TraceArrival) else []
    files = {path: read_text(path) for path in named if path}
    return order.model_copy(update={"files": files}).model_dump_json()
