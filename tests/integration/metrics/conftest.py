"""Prometheus from Debian, where it is installed or was unpacked into build/; and a place for real runs."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "run"))
from conftest_run import place

__all__ = ["place"]
