"""The command-line options of the plugin, each with a twin in the ini file (``--chaos-url`` is ``chaos_url``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chaosflow.core.scenario import ProcessSpec, TargetSpec

_TEXTS = {
    "url": ("URL", "Test this OpenAI-compatible server (ends in /v1) instead of the included engine."),
    "model": ("NAME", "Model to ask for; default: the first one the server lists."),
    "process": (
        "KEY=VALUE",
        "How to find the server's processes: listen_port=, pid=, pid_file=, name=, container= or cgroup=.",
    ),
    "i-own": ("HOST", "Its host name again: required for a server on another machine."),
    "api-key-env": ("NAME", "Environment variable with the server's API key; default: CHAOSFLOW_API_KEY."),
    "runs-dir": ("DIR", "Folder for results and reports; default: runs, below the root of the suite."),
}
_CHOICES = {
    "inconclusive": (
        ("fail", "skip", "warn"),
        "What a verdict with too few samples does to its test; default: fail.",
    ),
    "cannot": (
        ("fail", "skip"),
        "What happens to a test whose fault cannot work on this machine; default: fail.",
    ),
}
_STRICT = "Warnings about scenarios (an objective that cannot pass as planned) are errors."


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("chaosflow", "chaosflow (chaos and SLA tests)")
    for name, (metavar, text) in _TEXTS.items():
        group.addoption(f"--chaos-{name}", metavar=metavar, default=None, help=text)
        parser.addini(_ini(name), text, default=None)
    for name, (choices, text) in _CHOICES.items():
        group.addoption(f"--chaos-{name}", choices=choices, default=None, help=text)
        parser.addini(_ini(name), text, default=None)
    group.addoption("--chaos-strict", action="store_true", default=None, help=_STRICT)
    parser.addini("chaos_strict", _STRICT, type="bool", default=False)


def _ini(name: str) -> str:
    return f"chaos_{name.replace('-', '_')}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the options and the ini file say; the command line wins."""

    url: str
    model: str
    process: str
    i_own: str
    api_key_env: str
    runs_dir: Path
    inconclusive: str
    cannot: str
    strict: bool

    @classmethod
    def of(cls, config: pytest.Config) -> Settings:
        """Raises pytest.UsageError for a value that cannot be."""
        texts = {name: _value(config, name) for name in _TEXTS}
        chosen = {name: _value(config, name) or choices[0] for name, (choices, _) in _CHOICES.items()}
        for name, (choices, _) in _CHOICES.items():
            if chosen[name] not in choices:
                raise pytest.UsageError(f"{_ini(name)} = {chosen[name]}: write one of {', '.join(choices)}")
        if texts["process"] and "=" not in texts["process"]:
            raise pytest.UsageError(
                f"--chaos-process {texts['process']}: write KEY=VALUE, such as listen_port=8000"
            )
        if texts["process"] and not texts["url"]:
            raise pytest.UsageError("--chaos-process is only for a server given by --chaos-url")
        strict = config.getoption("--chaos-strict")
        return cls(
            url=texts["url"],
            model=texts["model"],
            process=texts["process"],
            i_own=texts["i-own"],
            api_key_env=texts["api-key-env"] or "CHAOSFLOW_API_KEY",
            runs_dir=config.rootpath / (texts["runs-dir"] or "runs"),
            inconclusive=chosen["inconclusive"],
            cannot=chosen["cannot"],
            strict=bool(config.getini("chaos_strict") if strict is None else strict),
        )

    def process_spec(self) -> ProcessSpec | None:
        """Raises ScenarioError."""
        from chaosflow.core.scenario import ProcessSpec
        from chaosflow.orchestrator.byhand import from_keywords

        if not self.process:
            return None
        key, _, value = self.process.partition("=")
        return from_keywords(
            "--chaos-process", ProcessSpec, {key: int(value) if value.isdecimal() else value}
        )

    def target(self) -> TargetSpec:
        """The target of the suite: the user's server, else the included engine. Raises ScenarioError."""
        import os

        from chaosflow.core.scenario import TargetSpec
        from chaosflow.orchestrator.byhand import from_keywords

        if not self.url:
            data: dict[str, object] = {"engine": {}, "model": self.model or None}
        else:
            process = self.process_spec()
            data = {
                "url": self.url,
                "model": self.model or None,
                "i_own": self.i_own or None,
                "api_key": os.environ.get(self.api_key_env) or None,
                "process": process.model_dump(exclude_none=True) if process else None,
            }
        return from_keywords("--chaos-url", TargetSpec, {k: v for k, v in data.items() if v is not None})

    def overrides(self) -> list[str]:
        """``--set`` options that point a scenario at the suite's server; none for the included engine."""
        if not self.url:
            return []
        target = self.target()
        found = [f"target.url={_yaml(target.url)}"]
        if target.model:
            found.append(f"target.model={_yaml(target.model)}")
        if target.i_own:
            found.append(f"target.i_own={_yaml(target.i_own)}")
        if target.api_key:
            found.append(f"target.api_key=${{env:{self.api_key_env}}}")
        if target.process:
            found.append(f"target.process={_yaml(target.process.model_dump(exclude_none=True))}")
        return found


def _yaml(value: object) -> str:
    import json

    return json.dumps(value)


def _value(config: pytest.Config, name: str) -> str:
    given = config.getoption(f"--chaos-{name}")
    return str(given if given is not None else config.getini(_ini(name)) or "")
