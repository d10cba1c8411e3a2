"""The rigs share the real proxy and servers of the integration tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "integration" / "faults"))
