"""Runs the real client in a process of its own, so that gevent stays out of pytest.

Standard input: one JSON object a line, {"order": {...}, "repeat": N, "pause_s": S}; output: its records, as JSON.
"""

from __future__ import annotations

import json
import sys
import time

import gevent

from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.sample import RequestRecord
from chaosflow.load.arrivals import Planned
from chaosflow.load.client import StreamingClient
from chaosflow.load.records import to_json
from chaosflow.load.requests import RequestMaker


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        order = LoadOrder.model_validate(job["order"])
        client, maker = StreamingClient(order), RequestMaker(order)
        rows = []
        for index in range(job.get("repeat", 1)):
            request = maker.make(Planned(index))
            now_ns = time.monotonic_ns()
            record = RequestRecord(index, now_ns, fire_ns=now_ns)
            greenlet = gevent.spawn(client.fetch, record, request)
            if "kill_after_s" in job:
                gevent.sleep(job["kill_after_s"])
                greenlet.kill()
            greenlet.join()
            rows.append(to_json(record, now_ns))
            gevent.sleep(job.get("pause_s", 0))
        client.close()
        sys.stdout.write(json.dumps(rows) + "\n")
        sys.stdout.flush()  # it may be a pipe


main()
