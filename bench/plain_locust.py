"""A Locust HttpUser as people write it: requests, stream=True, iter_lines, perf_counter.

    plain_locust.py PORT STREAMS ROUNDS

Prints what raw_client.py prints.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import gevent
from locust import HttpUser, task  # patches the standard library for gevent
from locust.env import Environment
from locust.exception import StopUser


def main(port: int, streams: int, rounds: int) -> None:
    ttft: list[float] = []
    gap: list[float] = []

    class SseUser(HttpUser):
        host = f"http://127.0.0.1:{port}"
        done = 0

        @task
        def ask(self) -> None:
            if self.done >= rounds:
                raise StopUser
            self.done += 1
            body = {"model": "tiny", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
            began = last = time.perf_counter()
            first = True
            with self.client.post("/v1/chat/completions", json=body, stream=True, catch_response=True) as r:
                for line in r.iter_lines():
                    if not line.startswith(b"data: {"):
                        continue
                    choices = json.loads(line[6:])["choices"]
                    if not choices or not choices[0]["delta"].get("content"):
                        continue
                    now = time.perf_counter()
                    (ttft if first else gap).append((now - (began if first else last)) * 1e3)
                    first, last = False, now
                r.success()

    runner = Environment(user_classes=[SseUser]).create_local_runner()
    begun_s = time.perf_counter()
    runner.start(streams, spawn_rate=streams)
    while len(ttft) < streams * rounds or runner.user_count:
        gevent.sleep(0.1)
    wall_s = time.perf_counter() - begun_s
    used = resource.getrusage(resource.RUSAGE_SELF)
    tokens_per_s = (len(ttft) + len(gap)) / wall_s
    cpu_s = used.ru_utime + used.ru_stime
    print(json.dumps({"tokens_per_s": tokens_per_s, "cpu_s": cpu_s, "ttft": ttft, "gap": gap}))


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:4]))
