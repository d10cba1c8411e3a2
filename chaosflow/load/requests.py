"""Request j on the wire: its head, and a body whose content depends on the seed and j alone."""

from __future__ import annotations

import random
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from chaosflow import __version__
from chaosflow.core.arrival import TraceArrival
from chaosflow.core.errors import UsageError
from chaosflow.core.loadlink import LoadOrder
from chaosflow.core.tracefile import BLOCK_TOKENS, TraceRow, parse_trace, read_text, read_trace
from chaosflow.load.arrivals import Planned
from chaosflow.load.content import Writer, parse_prompts
from chaosflow.load.sizes import Cap, Sizes

Message = dict[str, Any]


class Request(NamedTuple):
    """Everything that the client needs to carry one out."""

    wire: bytes
    """Head and body, ready to be sent."""
    asked_tokens: int = 0
    """Output tokens that are owed, because the server was told to ignore the model's own end; 0 = unknown."""
    deadline_s: float | None = None
    """None = the plan's."""
    abort_after_tokens: int = 0
    """Hang up when so many tokens have come; 0 = do not."""
    abort_after_s: float | None = None


class RequestMaker:
    """Builds request j. Reads the files that the plan names; raises UsageError where they are no good."""

    def __init__(self, order: LoadOrder, api_key: str = "") -> None:
        plan = order.plan
        self._order, self._plan, self._seed = order, plan, order.seed
        self.trace = self._read_trace()
        prompts = (
            parse_prompts(self.text_of(plan.prompts_file), plan.prompts_file) if plan.prompts_file else None
        )
        self.sizes = Sizes(plan, order.seed, self.trace, prompts)
        self.cap = Cap(plan, order.seed, self.sizes, self.trace)
        name = plan.tokenizer or ""
        self.writer = Writer(self.text_of(name) if name else "", name)
        self.head = _Head(order, api_key)
        rng = random.Random(f"prefix:{order.seed}")
        prefix_tokens = plan.shared_prefix_tokens
        self._prefix = self.writer.text(rng, prefix_tokens) if prefix_tokens else ""

    def text_of(self, path: str) -> str:
        """A file that the plan names. Raises UsageError."""
        return self._order.files[path] if path in self._order.files else read_text(path)

    def _read_trace(self) -> tuple[TraceRow, ...]:
        arrival = self._plan.arrival
        if not isinstance(arrival, TraceArrival):
            return ()
        if arrival.file in self._order.files:
            return parse_trace(self._order.files[arrival.file], arrival.file)
        return read_trace(arrival.file)

    def make(self, planned: Planned) -> Request:
        """Request j."""
        turn = self.sizes.turn(planned)
        own = self.sizes.own_prompt(planned)
        if own is not None and own.messages is not None:
            messages = own.messages
        else:
            prompt = own.prompt if own is not None else self._question(planned, planned.turn)
            messages = [*self._history(planned), {"role": "user", "content": prompt}]
        if self._prefix:
            messages = [{"role": "system", "content": self._prefix}, *messages]
        body = self.body(messages, turn.output)
        abort_tokens, abort_s = self._abort(planned, turn.output)
        owed = turn.output if self._plan.ignore_eos or self._plan.extra_body.get("ignore_eos") else 0
        deadline_s = own.deadline_s if own is not None else None
        return Request(self.head.wire(body), owed, deadline_s, abort_tokens, abort_s)

    def body(self, messages: list[Message], output_tokens: int, **fields: Any) -> bytes:
        """The JSON body for some messages; ``fields`` beat those of the plan."""
        plan = self._plan
        body: dict[str, Any] = {
            "model": self._order.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": output_tokens,
        }
        if plan.ignore_eos:
            body["ignore_eos"] = True
        if plan.endpoint == "chat":
            body["messages"] = messages
        else:
            body["prompt"] = "\n\n".join(_words_of(message["content"]) for message in messages)
        return orjson.dumps(body | plan.extra_body | fields)

    def _history(self, planned: Planned) -> list[Message]:
        """What was said in earlier turns. Our own words for the answers too: bodies depend on nothing else."""
        messages: list[Message] = []
        for turn in range(planned.turn):
            messages.append({"role": "user", "content": self._question(planned, turn)})
            rng = random.Random(f"answer:{self._seed}:{planned.session}:{turn}")
            answer = self.writer.text(rng, self.sizes.turn(planned, turn).output)
            messages.append({"role": "assistant", "content": answer})
        return messages

    def _question(self, planned: Planned, turn: int) -> str:
        tokens = self.sizes.turn(planned, turn).prompt
        if planned.row >= 0:
            row = self.trace[planned.row]
            if row.text:
                return row.text
            if row.blocks:
                return self._blocks(row.blocks, tokens)
        key = f"{planned.session}.{turn}" if planned.session >= 0 else f"{planned.index}"
        return self.writer.text(random.Random(f"prompt:{self._seed}:{key}"), tokens)

    def _blocks(self, blocks: tuple[int, ...], tokens: int) -> str:
        """Equal block ids give equal text, so that prefixes are shared as they were when recorded."""
        parts = []
        for block in blocks:
            size = min(BLOCK_TOKENS, tokens)
            if size <= 0:
                break
            tokens -= size
            # a last, shorter block is the beginning of the full one
            parts.append(self.writer.text(random.Random(f"block:{self._seed}:{block}"), size))
        if tokens > 0:
            parts.append(self.writer.text(random.Random(f"block:{self._seed}:rest:{blocks[-1]}"), tokens))
        return " ".join(parts)

    def _abort(self, planned: Planned, output_tokens: int) -> tuple[int, float | None]:
        aborts = self._plan.aborts
        if aborts is None:
            return 0, None
        rng = random.Random(f"abort:{self._seed}:{planned.index}")
        if rng.random() >= aborts.share:
            return 0, None
        if aborts.after is not None:
            return 0, aborts.after
        return aborts.after_tokens or rng.randint(1, max(1, output_tokens - 1)), None


class _Head:
    """The request head, but for the length of the body."""

    def __init__(self, order: LoadOrder, api_key: str) -> None:
        plan = order.plan
        parts = urlsplit(order.url)
        path = "/chat/completions" if plan.endpoint == "chat" else "/completions"
        headers = {
            "Host": parts.netloc.rpartition("@")[2],
            "User-Agent": f"chaosflow/{__version__}",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        for name, value in plan.headers.items():
            headers = {k: v for k, v in headers.items() if k.lower() != name.lower()} | {name: value}
        if any(c in api_key for c in "\r\n\0"):
            raise UsageError("API key", "holds a line end", "take it out")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._bytes = f"POST {parts.path.rstrip('/')}{path} HTTP/1.1\r\n{lines}".encode()

    def wire(self, body: bytes) -> bytes:
        return b"%sContent-Length: %d\r\n\r\n%s" % (self._bytes, len(body), body)


def _words_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
