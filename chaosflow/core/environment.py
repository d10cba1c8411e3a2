"""``${env:NAME}`` and ``${env:NAME:-default}`` in a scenario's values, and what must never be shown."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml

from chaosflow.core.units import did_you_mean
from chaosflow.core.yamltree import Document, Path, parse_yaml

HIDDEN = "***"
MIN_FREE_TEXT_CHARS = 6
"""Shorter secrets are hidden in their own field only: a secret ``1`` must not blank every 1."""

_REFERENCE = re.compile(r"\$?\$\{env:([^}]*)\}?")
_INSIDE = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$", re.DOTALL)
_SECRET_HEADER = re.compile(r"auth|key|token|cookie|secret|password", re.IGNORECASE)


@dataclass(slots=True)
class Secrets:
    """Which fields hold what came from the environment, and the values themselves."""

    fields: dict[Path, str] = field(default_factory=dict)
    """Path -> what to show instead, e.g. ``http://***/v1``."""
    values: set[str] = field(default_factory=set)
    whole: set[Path] = field(default_factory=set)
    """Fields that are one single reference: typed by the field that receives them."""

    def add(self, path: Path, value: str) -> None:
        """Hide a field whose value is a secret by its meaning, such as ``target.api_key``."""
        self.fields.setdefault(path, HIDDEN)
        if value:
            self.values.add(value)

    def free_text(self) -> frozenset[str]:
        """Values long enough to be hidden wherever they occur."""
        return frozenset(v for v in self.values if len(v) >= MIN_FREE_TEXT_CHARS)

    def hide(self, text: str) -> str:
        """``text`` with every such value replaced, also in its JSON and HTML spelling."""
        for spelling in self.spellings():
            text = text.replace(spelling, HIDDEN)
        return text

    def spellings(self) -> list[str]:
        """All that ``hide`` replaces, the longest first: what contains another goes as a whole."""
        found = {s for v in self.free_text() for s in (v, json.dumps(v)[1:-1], html.escape(v))}
        return sorted(found, key=len, reverse=True)

    def hide_all(self, data: Any, path: Path = ()) -> Any:
        """A copy of plain data with secret fields, and secrets inside other texts, replaced."""
        if path in self.fields:
            return self.fields[path]
        if isinstance(data, Mapping):
            return {k: self.hide_all(v, (*path, k)) for k, v in data.items()}
        if isinstance(data, list | tuple):
            return [self.hide_all(v, (*path, i)) for i, v in enumerate(data)]
        return self.hide(data) if isinstance(data, str) else data

    def move(self, old: Path, new: Path) -> None:
        """Follow a value that was moved to another field."""
        if old in self.fields:
            self.fields[new] = self.fields.pop(old)
        if old in self.whole:
            self.whole.remove(old)
            self.whole.add(new)


def substitute(document: Document, env: Mapping[str, str]) -> Secrets:
    """Put the environment's values in place, in ``document.data``; what is missing becomes a problem.

    It happens after YAML was parsed, so that no value can change the structure. ``$${env:X}`` stays
    ``${env:X}`` as text.
    """
    secrets = Secrets()

    def walk(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {k: walk(v, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [walk(v, (*path, i)) for i, v in enumerate(value)]
        if isinstance(value, str) and "${env:" in value:
            return _fill(document, env, secrets, path, value)
        return value

    document.data = walk(document.data, ())
    _known_secrets(document.data, secrets)
    return secrets


def _fill(document: Document, env: Mapping[str, str], secrets: Secrets, path: Path, text: str) -> str:
    shown: list[str] = []
    real: list[str] = []
    from_env = False
    at = 0
    for match in _REFERENCE.finditer(text):
        shown.append(text[at : match.start()])
        real.append(text[at : match.start()])
        at = match.end()
        if match[0].startswith("$$"):
            shown.append(match[0][1:])
            real.append(match[0][1:])
            continue
        value, secret = _look_up(document, env, path, match)
        from_env |= secret
        real.append(value)
        shown.append(HIDDEN if secret else value)
        if secret and value:
            secrets.values.add(value)
    if from_env:
        secrets.fields[path] = "".join(shown) + text[at:]
    if len(real) == 2 and not real[0] and at == len(text) and not text.startswith("$$"):
        secrets.whole.add(path)
    return "".join(real) + text[at:]


def _look_up(
    document: Document, env: Mapping[str, str], path: Path, match: re.Match[str]
) -> tuple[str, bool]:
    """The value, and whether it is a secret (a default stands in the file, so it is none)."""
    inside = _INSIDE.match(match[1])
    if not inside or not match[0].endswith("}"):
        document.report(
            path,
            f"cannot read {match[0]}",
            "write ${env:NAME} or ${env:NAME:-default}, or $${env:…} for the text",
        )
        return "", False
    name, default = inside[1], inside[2]
    if default is not None and not env.get(name):
        return default, False
    if name not in env:
        near = did_you_mean(name, env)
        document.report(
            path,
            f"the environment variable {name} is not set",
            near or f"export {name}=…, or give a default: ${{env:{name}:-…}}",
        )
        return "", False
    if not env[name].isascii() and any("\ud800" <= c <= "\udfff" for c in env[name]):
        document.report(path, f"the environment variable {name} holds bytes that are no UTF-8", "set it anew")
        return "", True
    return env[name], True


def _known_secrets(data: Any, secrets: Secrets) -> None:
    """What is a secret wherever it came from: the API key, auth headers, a password in the URL."""
    if not isinstance(data, dict):
        return
    target, load = data.get("target"), data.get("load")
    if isinstance(target, dict):
        if isinstance(key := target.get("api_key"), str):
            secrets.add(("target", "api_key"), key)
        if isinstance(url := target.get("url"), str) and "@" in url:
            try:
                password = urlsplit(url).password
            except ValueError:
                password = None
            if password:
                secrets.values.add(password)
                secrets.fields.setdefault(("target", "url"), url.replace(password, HIDDEN))
    if isinstance(load, dict) and isinstance(headers := load.get("headers"), dict):
        for name, value in headers.items():
            if isinstance(value, str) and _SECRET_HEADER.search(str(name)):
                secrets.add(("load", "headers", name), value)


def as_scalar(text: str) -> Any:
    """What ``text`` would be as a plain YAML scalar; itself where it is anything else."""
    if "\n" in text or not text.strip():
        return text
    try:
        document = parse_yaml(text, "")
    except yaml.YAMLError:
        return text
    plain = document.data
    return plain if not document.problems and isinstance(plain, bool | int | float) else text
