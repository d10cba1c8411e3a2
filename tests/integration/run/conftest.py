"""Makes the fixtures of conftest_run.py available here."""

from conftest_run import place, server

__all__ = ["place", "server"]
