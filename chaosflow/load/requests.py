"""Request j on the wire: its head, and a body whose content depends on the seed and j alone."""

from __future__ import annotations

import random
from urllib.parse import urlsplit

import orjson

from chaosflow import __version__
from chaosflow.core.errors import UsageError
from chaosflow.core.loadlink import LoadOrder

_WORDS: tuple[str, ...] = tuple(
    word
    for line in (
        "the of and to in is that for it as was with be by on not he this are or his from at which but have an",
        "had they you were their one all we can her has there been if more when will would who so no out up into",
        "time some could them new other than then now look only come over think also back after use two how our",
        "work first well way even want because any these give day most us water long little very good man world",
        "life hand part child eye woman place week case point number group fact light sound house page story",
        "river stone green night small great large young white black early music table paper money earth north",
    )
    for word in line.split()
)
"""Common English words: about one token each in every usual vocabulary."""


def prompt_of(seed: int, index: int, prompt_tokens: int) -> str:
    """About ``prompt_tokens`` tokens of words, another text for every j, the same for one j always."""
    rng = random.Random(f"prompt:{seed}:{index}")
    return " ".join(rng.choices(_WORDS, k=prompt_tokens))


class RequestMaker:
    """Builds the bytes of request j: head and body."""

    def __init__(self, order: LoadOrder, api_key: str = "") -> None:
        plan = order.plan
        parts = urlsplit(order.url)
        self._order, self._plan = order, plan
        path = "/chat/completions" if plan.endpoint == "chat" else "/completions"
        headers = {
            "Host": parts.netloc.rpartition("@")[2],
            "User-Agent": f"chaosflow/{__version__}",
            "Accept": "text/event-stream",
            "Content-Type": "application/json",
        }
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        for name, value in plan.headers.items():
            _refuse_line_ends(name, value)
            headers = {k: v for k, v in headers.items() if k.lower() != name.lower()} | {name: value}
        _refuse_line_ends("API key", api_key)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self._head = f"POST {parts.path.rstrip('/')}{path} HTTP/1.1\r\n{lines}".encode()

    def body(self, index: int) -> bytes:
        plan = self._plan
        prompt = prompt_of(self._order.seed, index, plan.prompt_tokens)
        body: dict[str, object] = {
            "model": self._order.model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": plan.output_tokens,
        }
        if plan.endpoint == "chat":
            body["messages"] = [{"role": "user", "content": prompt}]
        else:
            body["prompt"] = prompt
        return orjson.dumps(body | plan.extra_body)

    def wire(self, index: int) -> bytes:
        """Head and body, ready to be sent."""
        body = self.body(index)
        return b"%sContent-Length: %d\r\n\r\n%s" % (self._head, len(body), body)


def _refuse_line_ends(name: str, value: str) -> None:
    if any(c in name + value for c in "\r\n\0"):
        raise UsageError(f"header {name!r}", "holds a line end", "take it out")
