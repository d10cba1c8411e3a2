from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_rig import Suite, new_suite, user_server


@pytest.fixture
def suite() -> Iterator[Suite]:
    with new_suite() as made:
        yield made


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    with user_server() as found:
        yield found
