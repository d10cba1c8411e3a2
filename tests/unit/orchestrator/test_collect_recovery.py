"""What the judge knows of a recovery is what result.json says of it."""

from __future__ import annotations

from dataclasses import fields

from chaosflow.core.result import RecoveryResult
from chaosflow.sla.evidence import Recovery


def test_every_field_of_a_recovery_has_its_place_in_the_result() -> None:
    """The one is made of the other field by field; a field that only one has ends a run in an error of ours."""
    judged = {field.name for field in fields(Recovery)} - {"fault"}
    assert judged == set(RecoveryResult.model_fields) - {"curve"}
