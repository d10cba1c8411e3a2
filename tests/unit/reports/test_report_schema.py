"""The documented schema is the real one."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from sample_result import sample

from chaosflow.reports.schema import result_schema, schema_page
from chaosflow.reports.writer import result_json

_PAGE = Path(__file__).parents[3] / "docs" / "result-schema.md"


def test_a_result_fits_its_schema() -> None:
    schema = result_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(result_json(sample())), schema)


def test_fields_are_described() -> None:
    assert "one sentence" in result_schema()["properties"]["reason"]["description"]


def test_page_is_not_stale() -> None:
    assert _PAGE.read_text() == schema_page(), (
        "run: python -m chaosflow.reports.schema > docs/result-schema.md"
    )
