"""Makes the place of real runs available here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
from conftest_run import place

__all__ = ["place"]
