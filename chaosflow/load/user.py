"""StreamingUser: the streaming client for a locustfile of the user's own.

Under plain ``locust -f`` it reports to Locust's statistics; under ``chaosflow run`` (``load.locustfile``) its requests
are also recorded, judged against the objectives, and count for every fault they touch.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from locust import User

from chaosflow.core.errors import UsageError
from chaosflow.core.loadlink import API_KEY_VARIABLE, LoadOrder
from chaosflow.core.sample import Outcome, RequestRecord
from chaosflow.load.client import StreamingClient
from chaosflow.load.requests import Message, Request, RequestMaker

Carried = tuple[RequestRecord, str]
Carry = Callable[[list[Message], int, dict[str, Any]], Carried]

if TYPE_CHECKING:

    class _User:
        environment: Any

else:
    _User = User


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and what came of it. Times in seconds; None = it never came to that."""

    record: RequestRecord
    """All the times, monotonic ns."""
    text: str

    @property
    def ok(self) -> bool:
        return self.record.outcome is Outcome.OK

    @property
    def ttft_s(self) -> float | None:
        return None if self.record.ttft_ns is None else self.record.ttft_ns / 1e9

    @property
    def e2e_s(self) -> float | None:
        return None if self.record.e2e_ns is None else self.record.e2e_ns / 1e9

    @property
    def longest_gap_s(self) -> float | None:
        gaps = [b - a for a, b in itertools.pairwise(self.record.event_ns)]
        return max(gaps) / 1e9 if gaps else None


class StreamingUser(_User):
    """A Locust user that talks to an OpenAI-compatible streaming server.

    ::

        from locust import constant, task
        from chaosflow.load import StreamingUser

        class Chat(StreamingUser):
            host = "http://127.0.0.1:8000/v1"
            model = "llama-3"
            wait_time = constant(1)

            @task
            def story(self) -> None:
                answer = self.stream("Tell me a story.", max_tokens=64)
    """

    abstract = True
    host: ClassVar[str | None] = None
    """Base URL with the version path; under ``chaosflow run`` the scenario's target counts."""
    model: ClassVar[str] = ""
    deadline_s: ClassVar[float] = 60.0
    carry: Carry | None = None
    """Set by ``chaosflow run``."""

    def stream(
        self, prompt: str | list[Message], *, max_tokens: int = 64, name: str = "stream", **fields: Any
    ) -> Answer:
        """Ask, and wait for the end of the answer. ``prompt``: text, or chat messages; ``fields``: of the body.

        Does not raise where the service fails: see ``Answer.ok`` and ``record.outcome``. Raises StopUser, or
        GreenletExit in mid-request, when the run is over.
        """
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        if self.carry is not None:
            return Answer(*self.carry(messages, max_tokens, fields))
        maker, client = _client_of(type(self), self.host or self.environment.host or "")
        now_ns = time.monotonic_ns()
        record = RequestRecord(0, now_ns, fire_ns=now_ns)
        request = Request(maker.head.wire(maker.body(messages, max_tokens, **fields)))
        answer = Answer(record, client.fetch(record, request))
        self._report(answer, name)
        return answer

    def _report(self, answer: Answer, name: str) -> None:
        """To Locust's statistics: the whole request, and the time to its first token."""
        record, events = answer.record, self.environment.events
        failure = RuntimeError(f"{record.outcome.value}: {record.error}") if record.outcome.failed else None
        for kind, seconds, error in (("SSE", answer.e2e_s, failure), ("TTFT", answer.ttft_s, None)):
            if seconds is not None:
                events.request.fire(
                    request_type=kind,
                    name=name,
                    response_time=seconds * 1e3,
                    response_length=record.tokens,
                    exception=error,
                    context={},
                )


_clients: dict[tuple[type, str], tuple[RequestMaker, StreamingClient]] = {}


def _client_of(kind: type[StreamingUser], url: str) -> tuple[RequestMaker, StreamingClient]:
    """One client a process for each class and server: its users share connections, as they share the process."""
    if (kind, url) not in _clients:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{kind.__name__}.host", f"{url!r} is no URL", "write http://HOST:PORT/v1")
        order = LoadOrder.model_validate(
            {
                "run_id": "locust",
                "url": url,
                "model": kind.model,
                "plan": {"arrival": {"kind": "closed", "users": 1}, "deadline": kind.deadline_s},
                "seed": 0,
                "objectives": [],
                "fault_names": [],
                "records_dir": "",
            }
        )
        maker = RequestMaker(order, os.environ.get(API_KEY_VARIABLE, ""))
        _clients[kind, url] = (maker, StreamingClient(order, keep_text=True))
    return _clients[kind, url]


def user_classes(text: str, path: str) -> list[type[Any]]:
    """The StreamingUsers of a locustfile, each as often as its ``weight`` says. Raises UsageError."""
    module = types.ModuleType("locustfile")
    module.__file__ = path
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except Exception as e:
        raise UsageError(path, f"{type(e).__name__}: {e}", "try it with locust -f first") from e
    found = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, StreamingUser)
        and not vars(kind).get("abstract", False)
    ]
    if not found:
        raise UsageError(path, "holds no StreamingUser", "derive a class from chaosflow.load.StreamingUser")
    return [kind for kind in found for _ in range(int(getattr(kind, "weight", 1)))]
