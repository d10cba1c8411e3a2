"""One worker's share of the load: fires its arrivals, folds what comes back, ends when told to."""

from __future__ import annotations

import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import gevent
from gevent.event import Event
from locust.exception import StopUser

from chaosflow.core.arrival import ClosedArrival
from chaosflow.core.grammar import parse_objective
from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.core.segments import Mark
from chaosflow.core.slots import CellBatch
from chaosflow.load.alarm import AlarmClock
from chaosflow.load.arrivals import Planned, request_of_user, share_of_worker, users_of_worker
from chaosflow.load.client import StreamingClient
from chaosflow.load.fold import Folder
from chaosflow.load.health import Health
from chaosflow.load.hide import Hider
from chaosflow.load.locustusers import LocustUsers
from chaosflow.load.records import RecordWriter
from chaosflow.load.requests import Message, Request, RequestMaker
from chaosflow.load.user import Carried, user_classes

_FOLD_EVERY_NS = 250_000_000
_FOLDS_A_BATCH = 4
_SLICE_NS = 400_000
"""Of work that can wait: then whatever is due comes first."""
_READ_LAG_NS = 50_000_000
"""How far a fold stays behind now: by then the loop has read what the kernel has stamped."""
_NOTICE_STOP_NS = 100_000_000
_BACK_OFF_MAX_S = 1.0
_WRITE_EVERY_S = 0.25
_MAX_UNWRITTEN = 100_000
"""While the disk stalls, the oldest raw records are dropped; cells do not depend on them."""
_DRAIN_POLL_S = 0.02
_KILL_S = 3.0
_NEVER = 1 << 62


class Session:
    """Runs in one greenlet (``run``); the control methods are called from others.

    ``send`` is given every batch; ``resolved`` every ended request; ``note`` what a person should know.
    """

    def __init__(
        self,
        order: LoadOrder,
        worker: int,
        api_key: str,
        *,
        send: Callable[[CellBatch], None],
        resolved: Callable[[RequestRecord], None],
        note: Callable[[str], None],
        gauges: Callable[[], dict[str, float]] = dict,
        environment: Any = None,
        fail: Callable[[str], NoReturn] = sys.exit,
    ) -> None:
        """``gauges`` are added to each batch's health; ``environment`` is Locust's, for a locustfile's users;
        ``fail`` ends this process, and says why.
        """
        self._order, self._worker = order, worker
        self._send, self._resolved, self._note = send, resolved, note
        self._gauges, self._environment, self._fail = gauges, environment, fail
        self._hider = Hider([*order.secrets, api_key])
        self._maker = RequestMaker(order, api_key)
        writer = self._maker.writer
        self._client = StreamingClient(
            order, writer.count if writer.exact else None, keep_text=order.plan.locustfile is not None
        )
        path = order.plan.locustfile
        self._users = self._locust_users(path) if path is not None else None
        self._alarm = AlarmClock()
        self._health = Health(self._client.clock)
        self._begun = Event()
        self._stopped = Event()
        self._ended = Event()
        self._in_flight: set[gevent.Greenlet] = set()
        self._ended_records: deque[RequestRecord] = deque(maxlen=_MAX_UNWRITTEN)
        self._marks: list[Mark] = []
        self._limits: dict[int, tuple[float, float]] = {}
        self._capped = False
        self._t0_ns = 0
        self._horizon_ns = 0
        self._stop_at_ns = _NEVER
        self._cancel_at_ns = _NEVER

    # -- control
    def start(self, t0_ns: int) -> None:
        self._t0_ns = t0_ns
        self._begun.set()

    def mark(self, mark: Mark) -> None:
        self._marks.append(mark)

    def limits(self, limits_s: dict[int, tuple[float, float]]) -> None:
        self._limits.update(limits_s)

    def horizon(self, until_ns: int) -> None:
        self._horizon_ns = max(self._horizon_ns, until_ns)

    def stop(self, at_ns: int, drain_s: float) -> None:
        """No arrival from ``at_ns`` on; ``drain_s`` later cancel what is left. The earliest stop counts."""
        self._stop_at_ns = min(self._stop_at_ns, at_ns)
        self._cancel_at_ns = min(self._cancel_at_ns, at_ns + round(drain_s * 1e9))
        self._stopped.set()
        self._begun.set()

    # -- the load
    def run(self) -> None:
        """From the start message to the final batch; returns when that has been handed to ``send``."""
        self._begun.wait()
        t0_ns = self._t0_ns or time.monotonic_ns()
        objectives = [parse_objective(text) for text in self._order.objectives]
        self._folder = Folder(str(self._worker), objectives, self._order.fault_names, t0_ns)
        path = Path(self._order.records_dir) / f"records-{self._worker}.jsonl.gz"
        self._records = RecordWriter(path, t0_ns)
        helpers = [gevent.spawn(f) for f in (self._fold_for_ever, self._health.watch_loop)]
        writing = gevent.spawn(self._write_records)
        sources = self._sources(t0_ns)
        self._stopped.wait()
        self._drain(sources)
        gevent.killall(helpers)
        self._finish(writing)

    def _sources(self, t0_ns: int) -> list[gevent.Greenlet]:
        plan = self._order.plan
        if not isinstance(plan.arrival, ClosedArrival):
            return [gevent.spawn(self._open_arrivals, t0_ns)]
        users = users_of_worker(plan.arrival, plan.all_workers, self._worker)
        if self._users is not None:
            return [gevent.spawn(self._locust_user, self._users, user, t0_ns) for user in users]
        think_ns = round(plan.arrival.think_time * 1e9)
        return [gevent.spawn(self._closed_user, user, t0_ns, think_ns) for user in users]

    def _open_arrivals(self, t0_ns: int) -> None:
        maker = self._maker
        for planned in share_of_worker(self._order.plan, self._order.seed, self._worker, maker.trace):
            if not self._allowed(planned):
                return
            record = RequestRecord(planned.index, t0_ns + planned.at_ns)
            request = maker.make(planned)  # before its time, so that it costs none
            if not self._turn_comes(record.sched_ns):
                return
            if self._may_fire(record):
                greenlet = gevent.spawn(self._carry_out, record, request)
                self._in_flight.add(greenlet)
            if not planned.index % 64:
                self._alarm.breathe()  # even when behind schedule, let the others breathe
        self._note(
            f"the arrivals ended {(time.monotonic_ns() - t0_ns) / 1e9:.1f} s after the start of the load"
        )

    def _closed_user(self, user: int, t0_ns: int, think_ns: int) -> None:
        sched_ns, failures, number = t0_ns, 0, 0
        planned = self._of_user(user, number)
        request = self._maker.make(planned) if planned is not None else None
        while planned is not None and request is not None and self._turn_comes(sched_ns):
            record = RequestRecord(planned.index, sched_ns)
            number += 1
            following = self._of_user(user, number)
            ahead = gevent.spawn(self._maker.make, following) if following is not None else None
            if self._may_fire(record):
                self._carry_out(record, request)
            planned, request = following, ahead.get() if ahead is not None else None
            failed = record.end_ns is None or record.outcome.failed
            failures = failures + 1 if failed else 0
            # a target that is down answers at once: do not spin
            back_off_s = min(_BACK_OFF_MAX_S, 0.05 * 2 ** min(failures - 1, 10)) if failures else 0.0
            sched_ns = (record.end_ns or time.monotonic_ns()) + think_ns + round(back_off_s * 1e9)

    def _locust_users(self, path: str) -> LocustUsers:
        kinds = user_classes(self._maker.text_of(path), path)
        return LocustUsers(kinds, self._environment, note=self._note, fail=self._fail)

    def _locust_user(self, users: LocustUsers, user: int, t0_ns: int) -> None:
        """One user of the locustfile: it decides what to ask and when; we carry it out and count it."""
        number = 0

        def carry(messages: list[Message], output_tokens: int, fields: dict[str, Any]) -> Carried:
            nonlocal number
            planned = self._of_user(user, number)
            record = RequestRecord(planned.index if planned else 0, time.monotonic_ns())
            if planned is None or not self._turn_comes(record.sched_ns):
                raise StopUser
            number += 1
            body = self._maker.body(messages, output_tokens, **fields)
            request = Request(self._maker.head.wire(body))
            if self._may_fire(record):
                return record, self._carry_out(record, request)
            record.outcome, record.error = Outcome.CANCELLED, "load.max_in_flight was reached: not sent"
            gevent.sleep(_BACK_OFF_MAX_S)  # its user would only ask again at once
            return record, ""

        if self._turn_comes(t0_ns):
            users.run(user, carry)

    def _of_user(self, user: int, number: int) -> Planned | None:
        planned = request_of_user(self._order.plan, user, number)
        return planned if self._allowed(planned) else None

    def _allowed(self, planned: Planned) -> bool:
        """Whether the plan's caps let it be sent; says once that they do not."""
        allowed = self._maker.cap.allows(planned.index)
        if not allowed and not self._capped:
            self._capped = True
            self._note("load.max_requests or max_tokens is reached: nothing new is sent from here on")
        return allowed

    def _turn_comes(self, sched_ns: int) -> bool:
        """Wait for it; False when the load stops first."""
        while (now_ns := time.monotonic_ns()) < sched_ns and now_ns < self._stop_at_ns:
            self._alarm.sleep_until(min(sched_ns, self._stop_at_ns, now_ns + _NOTICE_STOP_NS))
        return sched_ns < self._stop_at_ns

    def _may_fire(self, record: RequestRecord) -> bool:
        if len(self._in_flight) < self._order.plan.max_in_flight:
            return True
        self._health.cap_hits += 1
        self._folder.lost(record.sched_ns)
        return False

    def _carry_out(self, record: RequestRecord, request: Request) -> str:
        me = gevent.getcurrent()
        self._in_flight.add(me)
        try:
            record.fire_ns = time.monotonic_ns()
            self._folder.fired(record)
            return self._client.fetch(record, request)
        finally:
            record.error = self._hider.hide(record.error)
            self._ended_records.append(record)  # written down later: others may be due now
            self._in_flight.discard(me)

    # -- what comes of it
    def _fold_for_ever(self) -> NoReturn:
        next_ns, folds = self._t0_ns, 0
        while True:
            next_ns = max(next_ns + _FOLD_EVERY_NS, time.monotonic_ns())
            self._alarm.sleep_until(next_ns)
            until_ns = min(self._horizon_ns, time.monotonic_ns() - _READ_LAG_NS)
            self._alarm.breathe()
            self._alarm.breathe()  # the loop has now read all that had been stamped by then
            try:
                self._fold(until_ns)
                folds += 1
                if not folds % _FOLDS_A_BATCH:
                    self._send_batch(until_ns)
            except Exception as e:
                traceback.print_exc()
                self._fail(f"{type(e).__name__}: {e}")  # cells would be missing: better a lost worker

    def _fold(self, until_ns: int) -> None:
        self._tell_folder()
        slice_end_ns = time.monotonic_ns() + _SLICE_NS
        for _ in self._folder.fold(until_ns):
            if time.monotonic_ns() > slice_end_ns:
                self._alarm.breathe()
                slice_end_ns = time.monotonic_ns() + _SLICE_NS

    def _tell_folder(self) -> None:
        for mark in self._marks:
            self._folder.add_mark(mark)
        self._folder.set_limits(self._limits)
        self._marks, self._limits = [], {}

    def _send_batch(self, until_ns: int, *, final: bool = False) -> None:
        health = self._health.gauges() | self._gauges()
        health["cap_hits"] += self._client.own_limit_hits
        for text in self._client.news():
            self._note(text)
        self._send(self._folder.take(until_ns, len(self._in_flight), health, final=final))

    def _write_records(self) -> None:
        over = noted = False
        while not over:
            over = self._ended.wait(_WRITE_EVERY_S)
            slice_end_ns = time.monotonic_ns() + _SLICE_NS
            while self._ended_records:
                record = self._ended_records.popleft()
                self._records.add(record)
                self._resolved(record)
                if time.monotonic_ns() > slice_end_ns:
                    self._alarm.breathe()
                    slice_end_ns = time.monotonic_ns() + _SLICE_NS
            # in a thread: a stalled disk stalls nothing else
            gevent.get_hub().threadpool.apply(self._records.drain, kwds={"final": over})
            if self._records.problem and not noted:
                noted = True
                self._note(self._records.problem)

    # -- the end
    def _drain(self, sources: list[gevent.Greenlet]) -> None:
        """Wait for what is under way until the drain is over, then cancel it."""
        while time.monotonic_ns() < self._cancel_at_ns:
            if (
                not self._in_flight
                and time.monotonic_ns() >= self._stop_at_ns
                and all(s.dead for s in sources)
            ):
                return
            gevent.sleep(_DRAIN_POLL_S)
        gevent.killall([*sources, *self._in_flight], timeout=_KILL_S)
        self._in_flight.clear()

    def _finish(self, writing: gevent.Greenlet) -> None:
        """All is resolved: fold it, with the marks known by now, and send the final batch."""
        self._fold(_NEVER)
        self._ended.set()
        writing.join(timeout=_KILL_S)
        if not writing.dead:
            self._note("raw records: the disk does not answer; they end early")
        self._send_batch(time.monotonic_ns(), final=True)
        self._client.close()
        self._health.close()
        self._alarm.close()
