"""Things that a program asks for by keywords and not by a scenario: checked, and explained, just as strictly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel

from chaosflow.core.environment import Secrets
from chaosflow.core.errors import Problem, ScenarioError, UsageError
from chaosflow.core.fault import FaultAtom
from chaosflow.core.loadplan import LoadPlan
from chaosflow.core.registry import Registry
from chaosflow.core.units import did_you_mean
from chaosflow.core.validation import validate
from chaosflow.core.yamltree import Document

M = TypeVar("M", bound=BaseModel)

DEFAULT_RATE_PER_S = 20.0
DEFAULT_PROMPT_TOKENS, DEFAULT_OUTPUT_TOKENS = 64, 16


def make_atom(kind: str, params: Mapping[str, Any], atoms: Registry[FaultAtom]) -> FaultAtom:
    """The fault atom of that kind (aliases too) with these params.

    Raises UsageError for an unknown kind and ScenarioError with every wrong param at once.
    """
    try:
        found = atoms.get(kind)
    except UsageError as e:
        raise UsageError(f"fault {kind!r}", "unknown fault type", e.remedy) from None
    return from_keywords(f"fault {kind!r}", found, params)


def make_load(
    *,
    rate_per_s: float | None = None,
    prompt_tokens: int | None = None,
    output_tokens: int | None = None,
    load: Mapping[str, Any] | None = None,
) -> LoadPlan:
    """A load plan: Poisson arrivals at ``rate_per_s``; ``load`` holds any further keys of a scenario's ``load``.

    Raises ScenarioError with every wrong key at once.
    """
    rest = dict(load or {})
    if "arrival" in rest and rate_per_s is not None:
        raise UsageError("load", "rate_per_s and load['arrival'] are both given", "keep one of them")
    data: dict[str, Any] = {
        "arrival": {"kind": "poisson", "rate_per_s": rate_per_s or DEFAULT_RATE_PER_S},
        "prompt_tokens": prompt_tokens or DEFAULT_PROMPT_TOKENS,
        "output_tokens": output_tokens or DEFAULT_OUTPUT_TOKENS,
    }
    return from_keywords("load", LoadPlan, data | rest)


def from_keywords(what: str, model: type[M], data: Mapping[str, Any]) -> M:
    """``model`` of plain data, strict about types and unknown keys. Raises ScenarioError with every problem."""
    document = Document(what, dict(data))
    found, whole = validate(document, (), model, Secrets())
    for issue in whole:
        document.report(issue.path, issue.message, issue.remedy)
    if found is None:
        raise ScenarioError([_as_keyword(problem) for problem in document.problems])
    return found


def _as_keyword(problem: Problem) -> Problem:
    """A remedy written for YAML, as Python is written: ``add delay_ms=…``."""
    return replace(problem, remedy=re.sub(r"^add '(\w+): …'$", r"add \1=…", problem.remedy))


def refuse_unknown(what: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise UsageError for the first keyword that is none of ``known``."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"known: {', '.join(known)}"
            raise UsageError(what, f"unknown keyword {name!r}", hint)
