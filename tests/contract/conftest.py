"""The rigs share the real proxy and servers of the integration tests."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

for name in ("faults", "host", "net"):
    sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / name))


@pytest.fixture(scope="session", autouse=True)
def _shared_proxies_end() -> Iterator[None]:
    yield
    from contract_rigs_proxy import SHARED

    SHARED.close()
