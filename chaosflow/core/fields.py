"""What models are built of: the strict base model, and fields that people write with units."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from chaosflow.core.units import parse_duration_s

Seconds = Annotated[
    float, BeforeValidator(parse_duration_s), Field(ge=0, json_schema_extra={"type": ["string", "number"]})
]
"""A duration: ``60s``, ``1m30s`` or a number of seconds."""


def _parse_share(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*%\s*", value)
    if match is None:
        raise ValueError(f"{value!r} is not a share; write for example 5% or 0.05")
    return float(match[1]) / 100


Share = Annotated[
    float,
    BeforeValidator(_parse_share),
    Field(ge=0, le=1, json_schema_extra={"type": ["string", "number"]}),
]
"""A share: ``5%`` or ``0.05``."""


class Model(BaseModel):
    """Unknown keys are errors everywhere."""

    model_config = ConfigDict(extra="forbid", frozen=True)
