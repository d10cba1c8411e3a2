"""ChaosFlow: chaos engineering and SLA-resilience testing for LLM streaming services."""

from pathlib import Path

__version__ = "0.1.0"


def scenarios_dir() -> Path:
    """Folder of the shipped scenarios."""
    return Path(__file__).parent / "scenarios"
