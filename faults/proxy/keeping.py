"""What stages that keep bytes in a queue share: the queue, its figures, and how it is emptied."""

from __future__ import annotations

from collections import deque

from chaosflow.faults.proxy.lane import Lane, Stage
from chaosflow.faults.proxy.timers import Timer
from chaosflow.faults.proxy.toxic import Toxic


class KeepingStage(Stage):
    """Keeps what it is fed, in order; a subclass says when it goes on, by ``pass_next`` or ``pass_all``."""

    limit_bytes = 1 << 16

    def __init__(self, lane: Lane, toxic: Toxic) -> None:
        super().__init__(lane)
        self.toxic = toxic
        self.queue: deque[bytes | bool] = deque()  # a bool is the end: was it a reset?
        self.timer: Timer | None = None
        self.dead = False
        """This stage has ended the connection: it stays in the chain and lets nothing through."""

    def feed(self, data: bytes) -> None:
        if self.dead:
            return
        self.toxic.stats.held_bytes += len(data)
        self.queue.append(data)
        self.hold(len(data))

    def end(self, *, reset: bool) -> None:
        if not self.dead:
            self.queue.append(reset)

    def release(self) -> None:
        self.stop_timer()
        if not self.dead:
            self.pass_all()
            self.leave()

    def cancel(self) -> None:
        self.stop_timer()
        self.drop_all()

    def stop_timer(self) -> None:
        if self.timer:
            self.timer.cancel()
            self.timer = None

    def drop_all(self) -> None:
        self.toxic.stats.held_bytes -= self.held
        self.held = 0
        self.queue.clear()

    def pass_all(self) -> None:
        while self.queue:
            self.pass_next()
        self.lane.pressure()

    def pass_now(self, data: bytes) -> None:
        """Pass on what was never kept."""
        if data and not self.dead:
            self.toxic.stats.chunks += 1
            self.toxic.stats.bytes += len(data)
            self.next.feed(data)

    def pass_next(self, most: int | None = None) -> None:
        """Pass on the next chunk, or the first ``most`` bytes of it, or the end. Call ``lane.pressure`` after."""
        item = self.queue.popleft()
        if isinstance(item, bool):
            self.next.end(reset=item)
            return
        if most is not None and len(item) > most:
            self.queue.appendleft(item[most:])
            item = item[:most]
        self.held -= len(item)
        stats = self.toxic.stats
        stats.held_bytes -= len(item)
        stats.chunks += 1
        stats.bytes += len(item)
        self.next.feed(item)

    def die(self) -> None:
        """End the connection; what is kept is dropped."""
        self.dead = True
        self.stop_timer()
        self.drop_all()
        self.end_connection(reset=False)
        self.lane.pressure()
